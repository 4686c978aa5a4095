"""PTX of public attention kernels, compiled without a GPU and kept in the cache.

`ptx_texts(kernel)` runs this file as a script in a process of its own, since CuTe DSL
reads its architecture when it is imported. The packages are unmodified: only the
questions they put to a GPU (its capability, its number of SMs) are answered here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sidestream.harness.exec.build import cache_dir

PACKAGES = {
    "fa4": ("flash-attn-4", "quack-kernels", "apache-tvm-ffi", "einops"),
    "cudnn": ("nvidia-cudnn-frontend",),
}
SMS = 148
TIMEOUT_S = 600


@dataclass(frozen=True, kw_only=True)
class PublicKernel:
    """One build of a public kernel.

    Attributes:
        package: `fa4` or `cudnn`.
        arch: CuTe DSL target, e.g. `sm_100a`.
        head_dim: Head dimension of Q and K.
        head_dim_v: Head dimension of V and O.
        dtype: `bfloat16`, `float16` or `float8_e4m3fn`.
        varlen: Packed sequences with lengths on the device, else a dense batch.
        causal: Causal mask.
        splits: Number of KV splits.
        clc: Tiles taken by cluster launch control.
    """

    package: str
    arch: str
    head_dim: int
    head_dim_v: int
    dtype: str = "bfloat16"
    varlen: bool = True
    causal: bool = True
    splits: int = 1
    clc: bool = False

    @property
    def name(self) -> str:
        """A file name that tells the build from the others."""
        parts = [self.package, self.arch, f"d{self.head_dim}"]
        if self.head_dim_v != self.head_dim:
            parts[-1] += f"x{self.head_dim_v}"
        parts.append(self.dtype)
        parts.append("varlen" if self.varlen else "dense")
        flags = {"full": not self.causal, "clc": self.clc, "split": self.splits > 1}
        return "-".join(parts + [flag for flag, on in flags.items() if on])


def _kernels() -> tuple[PublicKernel, ...]:
    build = PublicKernel
    dims = ((64, 64), (128, 128), (192, 128), (256, 256))
    found = [
        build(package="fa4", arch="sm_100a", head_dim=d, head_dim_v=v) for d, v in dims
    ]
    fa4: dict[str, Any] = {"package": "fa4", "arch": "sm_100a", "head_dim": 128}
    fa4["head_dim_v"] = 128
    found += [
        build(**fa4, splits=4),
        build(**fa4, clc=True),
        build(**fa4, varlen=False, causal=False),
        build(**fa4, dtype="float8_e4m3fn"),
        build(package="fa4", arch="sm_120a", head_dim=64, head_dim_v=64),
        build(package="fa4", arch="sm_120a", head_dim=128, head_dim_v=128),
    ]
    cudnn = "cudnn"
    found += [
        build(package=cudnn, arch="sm_100a", head_dim=d, head_dim_v=v)
        for d, v in (*dims, (512, 512))
    ]
    fp8 = "float8_e4m3fn"
    found += [
        build(package=cudnn, arch="sm_100a", head_dim=128, head_dim_v=128, dtype=fp8),
        build(
            package=cudnn, arch="sm_100a", head_dim=128, head_dim_v=128, varlen=False
        ),
        build(package=cudnn, arch="sm_120a", head_dim=128, head_dim_v=128, dtype=fp8),
    ]
    found += [
        build(package=cudnn, arch="sm_120a", head_dim=d, head_dim_v=d, dtype="float16")
        for d in (64, 128, 256)
    ]
    return tuple(found)


KERNELS: tuple[PublicKernel, ...] = _kernels()


def missing(package: str) -> str | None:
    """Why a package's kernels cannot be compiled here, or None."""
    for name in (*PACKAGES[package], "nvidia-cutlass-dsl", "torch"):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{name} is not installed"
    return None


def ptx_texts(kernel: PublicKernel) -> tuple[str, ...]:
    """The PTX modules of one build, from the cache or compiled now (4 to 20 s).

    Raises:
        RuntimeError: the compilation failed; the message holds what it printed.
    """
    target = cache_dir() / "public-ptx" / _key(kernel.package) / kernel.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            made = Path(work) / "ptx"
            made.mkdir()
            _compile(kernel, made)
            # Another process may have been faster; its texts are the same.
            if not target.exists():
                shutil.move(made, target)
    return tuple(file.read_text() for file in sorted(target.glob("*.ptx")))


def _key(package: str) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for name in (*PACKAGES[package], "nvidia-cutlass-dsl", "torch"):
        digest.update(f"{name}={importlib.metadata.version(name)}\n".encode())
    return digest.hexdigest()[:16]


def _compile(kernel: PublicKernel, into: Path) -> None:
    environment = {
        **os.environ,
        "CUTE_DSL_ARCH": kernel.arch,
        "CUTE_DSL_KEEP_PTX": "1",
        "CUTE_DSL_DUMP_DIR": str(into),
        "FLASH_ATTENTION_ARCH": kernel.arch.rstrip("af"),
        "FLASH_ATTENTION_NUM_SMS": str(SMS),
        "CUDNN_FRONTEND_DISABLE_COMPILED_CACHE": "1",
    }
    done = subprocess.run(
        [sys.executable, __file__, str(KERNELS.index(kernel))],
        env=environment,
        cwd=into,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode or not list(into.glob("*.ptx")):
        raise RuntimeError(f"{kernel.name}: {done.stdout[-2000:]}{done.stderr[-4000:]}")


class _HardwareInfo:
    """Answers `cutlass.utils.HardwareInfo` for a chip that is not there."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def get_max_active_clusters(self, cluster_size: int, *_: object) -> int:
        return SMS // cluster_size

    def get_device_multiprocessor_count(self, *_: object) -> int:
        return SMS

    def get_l2_cache_size_in_bytes(self, *_: object) -> int:
        return 126 << 20


def _compile_fa4(kernel: PublicKernel) -> None:
    """Call the public function on fake tensors: it compiles and does not launch."""
    import cutlass
    import torch
    import torch._dynamo
    from cutlass import cute
    from torch._subclasses.fake_tensor import FakeTensorMode

    from sidestream.harness.drivers.triton_stand_in import (
        triton_importable,
    )

    cutlass.utils.HardwareInfo = _HardwareInfo
    with triton_importable():
        # `Any`: the names below are replaced.
        parts: list[Any] = [
            importlib.import_module(f"flash_attn.cute.{name}")
            for name in ("interface", "tile_scheduler", "utils", "cute_dsl_utils")
        ]
    interface, tile_scheduler, utils, conversions = parts
    tile_scheduler.HardwareInfo = _HardwareInfo
    utils._get_use_clc_scheduler_default = lambda: kernel.clc

    def to_cute_tensor(
        tensor: Any,
        assumed_align: int = 16,
        leading_dim: int = -1,
        fully_dynamic: bool = False,
        enable_tvm_ffi: bool = True,
    ) -> Any:
        # A CPU tensor would give generic pointers, which bulk copies refuse.
        if tensor is None:
            return None
        types = {**conversions.torch2cute_dtype_map, torch.int32: cutlass.Int32}
        element = types[tensor.dtype]
        unit = None if fully_dynamic else range(tensor.ndim)[leading_dim]
        divisor = max(1, assumed_align * 8 // element.width)
        shape = tuple(cute.sym_int() for _ in range(tensor.ndim))
        stride = tuple(
            1 if dim == unit else cute.sym_int64(divisibility=divisor)
            for dim in range(tensor.ndim)
        )
        return cute.runtime.make_fake_tensor(
            element, shape, stride, assumed_align=assumed_align
        )

    interface.to_cute_tensor = to_cute_tensor
    dtype = getattr(torch, kernel.dtype)
    tokens = 4096 if kernel.splits > 1 else 512
    with FakeTensorMode():
        q = torch.empty(tokens, 8, kernel.head_dim, dtype=dtype)
        k = torch.empty(tokens, 2, kernel.head_dim, dtype=dtype)
        v = torch.empty(tokens, 2, kernel.head_dim_v, dtype=dtype)
        options: dict[str, Any] = {"causal": kernel.causal, "return_lse": True}
        if kernel.splits > 1:
            options.update(num_splits=kernel.splits, disable_scheduler_metadata=True)
        if kernel.varlen:
            prefix = torch.empty(5, dtype=torch.int32)
            options.update(cu_seqlens_q=prefix, cu_seqlens_k=prefix)
            options.update(max_seqlen_q=tokens // 2, max_seqlen_k=tokens // 2)
        else:
            q, k, v = q[None], k[None], v[None]
        interface.flash_attn_varlen_func(q, k, v, **options)


def _compile_cudnn(kernel: PublicKernel) -> None:
    """Plan and compile through the package's forward class, by descriptions alone."""
    import cutlass
    import torch

    number = int(kernel.arch.removeprefix("sm_").rstrip("af"))
    capability = divmod(number, 10)
    properties = SimpleNamespace(
        major=capability[0],
        minor=capability[1],
        multi_processor_count=SMS,
        name="GPU",
        total_memory=1 << 37,
        L2_cache_size=126 << 20,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    cutlass.utils.HardwareInfo = _HardwareInfo
    describe = importlib.import_module("cudnn.api_base").TensorDesc
    api_dsl = importlib.import_module("cudnn.sdpa.fwd.api_dsl")

    batch, rows = 2, 512
    dtype = getattr(torch, kernel.dtype)
    fp8 = kernel.dtype.startswith("float8")

    def packed(heads: int, dim: int, element: Any, name: str) -> Any:
        stride = (rows * heads * dim, dim, heads * dim, 1)
        shape = (batch, heads, rows, dim)
        return describe(element, shape, stride, (3, 1, 2, 0), "cuda", name=name)

    options: dict[str, Any] = {"pertensor_fp8": fp8}
    if fp8:
        options["has_amax_o"] = False
    if kernel.varlen:
        options.update(thd=True)
        options.update(max_total_seq_len_q=1024, max_total_seq_len_kv=1024)
    api = {10: api_dsl.SdpaFwdDslSm100, 12: api_dsl.SdpaFwdDslSm120}[capability[0]]
    plan = api(
        sample_q=packed(8, kernel.head_dim, dtype, "q"),
        sample_k=packed(2, kernel.head_dim, dtype, "k"),
        sample_v=packed(2, kernel.head_dim_v, dtype, "v"),
        sample_o=packed(8, kernel.head_dim_v, torch.bfloat16 if fp8 else dtype, "o"),
        sample_lse=describe(
            torch.float32,
            (batch, 8, rows, 1),
            (8 * rows, rows, 1, 1),
            (3, 2, 1, 0),
            "cuda",
            name="lse",
        ),
        is_causal=kernel.causal,
        **options,
    )
    plan.check_support()
    plan.compile()


if __name__ == "__main__":
    chosen = KERNELS[int(sys.argv[1])]
    {"fa4": _compile_fa4, "cudnn": _compile_cudnn}[chosen.package](chosen)
