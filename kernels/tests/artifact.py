"""What a compiled artifact takes of the chip: read off the artifact itself.

Registers and spills are what the assembler reports (`ptxas -v`); its release is pinned
in requirements-peers.txt, because they differ from one to the next. Shared memory is
what the compiled host function asks for when it launches. The fixture `build`
(conftest.py) compiles a text once for all tests of a session.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from cutlass import cute
from cutlass.base_dsl.compiler import DumpDir

from sidestream.kernels.plan import compile_forward

EVERYTHING = {
    "dtype": "bfloat16",
    "out_dtype": "bfloat16",
    "head_dim": 128,
    "head_dim_v": 128,
    "anchor": "bottom_right",
    "has_left": True,
    "has_right": True,
    "has_sinks": True,
    "lse": "head_major",
    "prefix_q": True,
    "prefix_kv": False,
    "negative_scale": True,
}
"""A configuration with all that a declaration may ask for, so that most is alive."""
LITTLE = {
    "dtype": "float16",
    "out_dtype": "float16",
    "head_dim": 40,
    "head_dim_v": 40,
    "anchor": "top_left",
    "has_left": False,
    "has_right": False,
    "has_sinks": False,
    "lse": "none",
    "prefix_q": False,
    "prefix_kv": True,
    "negative_scale": False,
}
"""And one with as little as can be."""

RELEASE = "13.5"
"""Of CUDA, as the package that is pinned."""
REGISTER_FILE = 65_536
"""Registers of a multiprocessor (CUDA, "Technical Specifications")."""
MOST_REGISTERS = 255
"""Registers that a thread may have."""

_LAUNCH = r"\(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32\)"
"""Grid, block, bytes of dynamic shared memory, stream, attributes and their count."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Of one kernel: registers of a thread at entry, the rest in bytes."""

    registers: int
    spilled: int
    static_smem: int


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What is kept of one compilation.

    Attributes:
        arch: PTX target.
        ptx: Text of the kernels.
        dynamic_smem: Bytes that each launch of the host function asks for.
    """

    arch: str
    ptx: str
    dynamic_smem: list[int]


def compile_text(config, arch, folder):
    """Compile a configuration for a target; its dumps go to `folder`."""
    keep = (cute.KeepPTX(True), DumpDir(str(folder)))
    compiled = compile_forward(config, arch, *keep)
    return Artifact(
        arch=arch, ptx=compiled.artifacts.PTX, dynamic_smem=dynamic_smem(compiled)
    )


@cache
def assembler():
    """The `ptxas` of the pinned release: that of the package, or of a toolkit."""
    spec = find_spec("nvidia")
    roots = (spec.submodule_search_locations or ()) if spec else ()
    places = [place for root in roots for place in Path(root).glob("*/bin/ptxas")]
    found = shutil.which("ptxas")
    places += [Path(found)] if found else []
    for place in places:
        done = subprocess.run([place, "--version"], capture_output=True, text=True)
        if f"release {RELEASE}," in done.stdout:
            return place
    pytest.skip(f"no ptxas of CUDA {RELEASE} (make peers)")


def assemble(artifact, folder):
    """Assemble and return the `Usage` of the work list's kernel and of the forward one.

    `setmaxnreg` has to be honoured: without it a role has no more registers than the
    CTA was started with.
    """
    source = folder / "kernels.ptx"
    source.write_text(artifact.ptx)
    told = subprocess.run(
        [
            assembler(),
            f"-arch={artifact.arch}",
            "-v",
            source,
            "-o",
            folder / "kernels.cubin",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "setmaxnreg' ignored" not in told
    usages = {}
    for part in told.split("Compiling entry function '")[1:]:
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", part)]
        (registers,) = re.findall(r"Used (\d+) registers", part)
        static = re.search(r"(\d+) bytes smem", part)
        assert len(spills) == 2
        usages[part[: part.index("'")]] = Usage(
            registers=int(registers),
            spilled=max(spills),
            static_smem=int(static[1]) if static else 0,
        )
    assert len(usages) == 2
    (worklist,) = (u for name, u in usages.items() if "worklist" in name)
    (forward,) = (u for name, u in usages.items() if "forward" in name)
    return worklist, forward


def dynamic_smem(compiled):
    """Bytes of dynamic shared memory of each launch that the host function makes."""
    host = str(compiled.ir_module)
    constants = dict(re.findall(r"(%\w+) = llvm\.mlir\.constant\((\d+) : i64\)", host))
    asked = []
    for place in re.findall(
        rf"(%\w+) = llvm\.getelementptr %\w+\[0, 2\].*struct<{_LAUNCH}>", host
    ):
        asked += re.findall(rf"llvm\.store (%\w+), {place} : i64", host)
    return [int(constants[value]) for value in asked]
