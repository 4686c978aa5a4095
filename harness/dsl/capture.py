"""Hand every kernel launch of this process to a Python callback, with its PTX."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from sidestream.harness.dsl.activation import (
    BLOCK_CALLBACK,
    KERNEL_CALLBACK,
    LAUNCH_CALLBACK,
    LAUNCH_FAILURE,
    Activation,
    RawLaunch,
    active,
)
from sidestream.harness.dsl.chip import Chip
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.dsl.entry_scan import EntryScan, scan_entry
from sidestream.harness.dsl.launch_attributes import (
    LaunchAttributes,
    decode_attributes,
)
from sidestream.harness.errors import ContractError, UnsupportedError
from sidestream.harness.launch import Launch

SYMBOL_NOT_FOUND = 500

OnLaunch = Callable[[Launch], None]
OnBlock = Callable[[str, int], None]


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    record: CompileRecord
    entry: EntryScan


class Capture:
    """While entered, `on_launch` receives every launch of CuTe DSL host functions.

    An exception raised in the callback reaches the caller of the host function,
    after native code has returned; the launches after it are not delivered. Nested
    captures shadow outer ones.

    Args:
        on_launch: Called with a `Launch` on the launching thread. Parameter bytes
            are copies: tensors are raw device addresses inside them.
        on_block: Called with the name and stream of a host call that waits for the
            device (`cudaStreamSynchronize`, `cudaDeviceSynchronize`).

    Raises:
        UsageError: on entry, if the process has no active virtual device.
    """

    _stack: list[Capture] = []  # noqa: RUF012  (process-wide, like the C callbacks)

    def __init__(self, on_launch: OnLaunch, on_block: OnBlock | None = None) -> None:
        self._on_launch = on_launch
        self._on_block = on_block
        self._kernels: dict[tuple[int, str], _Kernel] = {}
        self._activation: Activation | None = None

    def __enter__(self) -> Capture:
        self._activation = active()
        if not Capture._stack:
            _install(self._activation)
        Capture._stack.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        Capture._stack.remove(self)
        if error is None and self._activation is not None:
            self._activation.surface()

    def _deliver(self, raw: RawLaunch, kernel: _Kernel, chip: Chip) -> None:
        attributes = attributes_of(raw)
        launch = launch_of(raw, kernel.record.ptx, kernel.entry, attributes)
        check_launch(launch, kernel.entry, chip, attributes, raw.max_dynamic_smem,
                     nonportable=bool(raw.nonportable_cluster))  # fmt: skip
        self._on_launch(launch)


def attributes_of(raw: RawLaunch) -> LaunchAttributes:
    """Return the attributes of a launch."""
    return decode_attributes(
        ctypes.string_at(raw.attributes, 72 * raw.attribute_count)
        if raw.attribute_count
        else b""
    )


def launch_of(
    raw: RawLaunch, ptx: str, entry: EntryScan, attributes: LaunchAttributes
) -> Launch:
    """Return a launch as data; parameters are copied."""
    return Launch(
        kernel=entry.name,
        ptx=ptx,
        grid=(raw.grid[0], raw.grid[1], raw.grid[2]),
        block=(raw.block[0], raw.block[1], raw.block[2]),
        cluster=attributes.cluster,
        dynamic_smem=raw.dynamic_smem,
        stream=raw.stream,
        params=tuple(
            ctypes.string_at(raw.params[i], size)
            for i, size in enumerate(entry.param_sizes)
        ),
        pdl=attributes.pdl,
    )


def check_launch(
    launch: Launch,
    entry: EntryScan,
    chip: Chip,
    attributes: LaunchAttributes,
    max_dynamic_smem: int,
    *,
    nonportable: bool,
) -> None:
    """Refuse what the CUDA runtime refuses ("Execution Configuration" limits).

    Raises:
        ContractError: naming the limit that the launch breaks.
        UnsupportedError: for a cooperative launch.
    """
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    ctas = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    largest = chip.max_cluster_nonportable if nonportable else chip.max_cluster
    wrong = ""
    if 0 in launch.grid or 0 in launch.block:
        wrong = f"a dimension of grid {launch.grid} or block {launch.block} is zero"
    elif threads > (entry.max_threads or 1024) or launch.block[2] > 64:
        wrong = f"block {launch.block} passes {entry.max_threads or 1024} threads"
    elif entry.required_block not in (None, launch.block):
        wrong = f"block {launch.block} is not the required {entry.required_block}"
    elif launch.grid[0] >= 2**31 or max(launch.grid[1:]) > 65535:
        wrong = f"grid {launch.grid} passes the device's limits"
    elif any(g % c for g, c in zip(launch.grid, launch.cluster, strict=True)):
        wrong = f"grid {launch.grid} is not a multiple of cluster {launch.cluster}"
    elif ctas > largest:
        wrong = f"cluster {launch.cluster} has {ctas} CTAs, the limit is {largest}"
    elif launch.dynamic_smem > max_dynamic_smem:
        wrong = (
            f"{launch.dynamic_smem} bytes of dynamic shared memory pass the "
            f"{max_dynamic_smem} this kernel was allowed (a block of {chip.arch} may "
            f"have {chip.smem_per_block})"
        )
    if wrong:
        raise ContractError(f"CUDA refuses the launch of {launch.kernel}: {wrong}")
    if attributes.cooperative:
        raise UnsupportedError(f"{launch.kernel}: cooperative launches have no model")


def read_image(address: int) -> bytes:
    """Return the fat binary at `address`: a 16-byte header tells its size."""
    _, _, header_size, body_size = struct.unpack("<IHHQ", ctypes.string_at(address, 16))
    return ctypes.string_at(address, header_size + body_size)


_callbacks: tuple[object, ...] = ()


def _install(activation: Activation) -> None:
    """Give the runtime its callbacks, once; they serve the innermost capture."""
    global _callbacks
    if _callbacks:
        return
    kernels: dict[tuple[int, str], _Kernel] = {}

    def on_kernel(
        image: int, name: bytes, static_smem: ctypes._Pointer[ctypes.c_int]
    ) -> int:
        try:
            record = activation.compiles.of_image(read_image(image))
            if record is None:
                raise UnsupportedError(
                    f"{name.decode()} comes from a library that was not compiled in "
                    "this process, so its PTX is unknown: switch off the package's "
                    "cache of compiled functions"
                )
            entry = scan_entry(record.ptx, name.decode())
            kernels[image, entry.name] = _Kernel(record=record, entry=entry)
            static_smem[0] = entry.static_smem
        except BaseException as error:
            activation.keep_raised(error)
            return SYMBOL_NOT_FOUND
        return 0

    def on_launch(pointer: ctypes._Pointer[RawLaunch]) -> int:
        try:
            raw = pointer.contents
            name = raw.kernel.decode()
            if not Capture._stack:
                raise ContractError(
                    f"{name} was launched outside of any capture on the virtual device"
                )
            kernel = kernels[raw.image, name]
            Capture._stack[-1]._deliver(raw, kernel, activation.chip)
        except BaseException as error:
            activation.keep_raised(error)
            return LAUNCH_FAILURE
        return 0

    def on_block(call: bytes, stream: int) -> int:
        try:
            if Capture._stack and (tell := Capture._stack[-1]._on_block):
                tell(call.decode(), stream)
        except BaseException as error:
            activation.keep_raised(error)
            return LAUNCH_FAILURE
        return 0

    _callbacks = (
        LAUNCH_CALLBACK(on_launch),
        KERNEL_CALLBACK(on_kernel),
        BLOCK_CALLBACK(on_block),
    )
    activation.runtime.callbacks(*_callbacks)
