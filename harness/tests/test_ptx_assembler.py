"""The form tables against NVIDIA's assembler, where one that knows the ISA is found.

Every spelling that the tables read must be one that `ptxas` takes for some target.
"""

import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from sidestream.harness.tests.form_instances import Instance, instances, module

PER_FORM = 4
TARGETS = ("sm_100a", "sm_120a", "sm_90a", "sm_103a")
ERROR = re.compile(r"stdin, line (\d+); (?:error|fatal)")
# No text for these: `call` needs a body to call, and `st.param::func` an argument.
SKIPPED = re.compile(r"call|\w+[\w.]*\.param::func")


@cache
def assembler() -> Path:
    found = shutil.which("ptxas")
    places = [Path(found)] if found else []
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        places += Path(root).glob("*/bin/ptxas")
    for place in places:
        with suppress(RuntimeError):
            rejected(place, [], "sm_100a")
            return place
    pytest.skip("no ptxas that reads PTX 9.4 (pip install nvidia-cuda-nvcc)")


def rejected(ptxas: Path, lines: list[str], target: str) -> set[int]:
    """Positions of the lines that the assembler refuses.

    Raises:
        RuntimeError: it refuses the text around them.
    """
    text = module(lines, target)
    first = text.split("\n").index(f"\t{lines[0]}") + 1 if lines else 0
    done = subprocess.run(
        [str(ptxas), f"-arch={target}", "-O0", "-o", "/dev/null", "/dev/stdin"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    # What it says of the kernel as a whole, such as mixed CTA groups, has no line.
    found = {int(at) - first for at in ERROR.findall(done.stderr)}
    if not found <= set(range(len(lines))):
        raise RuntimeError(done.stderr[-2000:])
    return found


def refused(ptxas: Path, texts: list[str], target: str) -> list[str]:
    """The instructions that fail, taking out the faulty ones until the rest pass."""
    left, out = list(texts), []
    while left:
        bad = rejected(ptxas, left, target)
        if not bad:
            break
        out += [left[at] for at in sorted(bad)]
        left = [text for at, text in enumerate(left) if at not in bad]
    return out


def test_the_assembler_takes_every_form():
    ptxas = assembler()
    written: list[Instance] = list(instances(PER_FORM))
    left = [i.text for i in written if not SKIPPED.match(i.spelling)]
    assert len(left) > 1000
    control = ["add.b32 %r1, %r2, %r3;", "add.s32 %r1, %r2, %r3;"]
    assert refused(ptxas, control, TARGETS[0]) == control[:1]
    for target in TARGETS:
        left = [
            text
            for at in range(0, len(left), 400)
            for text in refused(ptxas, left[at : at + 400], target)
        ]
    assert left == []
