"""The places where CuTe DSL's Python side asks CUDA itself, answered from the chip.

Compiled host functions only use the replaced runtime; these are the remaining
calls into the driver, the hook that sees every compilation, and the hook that
raises a callback's exception once native code has returned. All of them hold for
the process, as the runtime does.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidestream.harness.dsl.bound_functions import mark_made, require_bound
from sidestream.harness.dsl.compile_keys import key_of
from sidestream.harness.dsl.source_lines import keep_lines

if TYPE_CHECKING:
    from sidestream.harness.dsl.activation import Activation
    from sidestream.harness.dsl.compile_log import CompileLog

FATBIN_MAGIC = b"\x50\xed\x55\xba"
"""First bytes of a fat binary, the image a host function loads."""


def _replace(owner: object, name: str, value: object) -> None:
    """Set an attribute that type checkers rightly hold to be fixed."""
    setattr(owner, name, value)


def apply(activation: Activation) -> None:
    """Patch the imported `cutlass` for this process."""
    _retarget(activation)
    _answer_hardware_queries(activation)
    keep_ptx(activation.compiles, lambda: _surface_provider_errors(activation))
    _surface_errors(activation)
    _exchange_tensors(activation)


def _retarget(activation: Activation) -> None:
    from cutlass.base_dsl.dsl import DSLSingletonMeta

    dsls = list(DSLSingletonMeta._instances.values())
    for dsl in dsls:
        dsl.envar.arch = activation.arch
        dsl.envar.shared_libs = str(activation.runtime.path)
        dsl.envar.disable_file_caching = True
    keep_lines(dsls, wanted=activation.line_info)


def _answer_hardware_queries(activation: Activation) -> None:
    from cutlass.base_dsl.runtime import cuda as cuda_helpers
    from cutlass.cutlass_dsl import cuda_jit_executor
    from cutlass.utils import HardwareInfo

    module = cuda_jit_executor.CudaDialectJitModule
    compiled = cuda_jit_executor.CudaDialectJitCompiledFunction

    def unload(self: Any) -> None:
        for library in self.cuda_library:
            activation.runtime.unload(int(library))
        self.cuda_library.clear()
        self._unloaded = True

    def get_device_attribute(attribute: Any, device_id: int = 0) -> int:
        return activation.chip.attributes()[int(attribute)]

    def hardware_info(self: Any, device_id: int = 0) -> None:
        count = activation.runtime.device_count
        if not 0 <= device_id < count:
            raise ValueError(f"Device ID {device_id} of {count} devices")
        self.device_id = device_id
        self.driver_version = 13010

    def max_active_clusters(self: Any, cluster_size: int, stream: object = None) -> int:
        if not 0 < cluster_size <= 32:
            raise ValueError(f"cluster size {cluster_size} is not in 1..32")
        return max(1, activation.chip.sms // cluster_size)

    devices = property(lambda self: activation.runtime.device_count)
    _replace(compiled, "num_devices", devices)
    _replace(module, "unload", unload)
    _replace(cuda_helpers, "get_device_attribute", get_device_attribute)
    # The methods, not the class: user modules hold the class by name.
    _replace(HardwareInfo, "__init__", hardware_info)
    _replace(HardwareInfo, "get_max_active_clusters", max_active_clusters)
    _replace(
        HardwareInfo,
        "get_l2_cache_size_in_bytes",
        lambda self: activation.chip.l2_bytes,
    )
    _replace(
        HardwareInfo,
        "get_device_multiprocessor_count",
        lambda self: activation.chip.sms,
    )


def _images(module: Any) -> Iterator[bytes]:
    """Yield the fat binaries among a lowered module's constants."""
    for operation in module.body.operations:
        if operation.operation.name != "llvm.mlir.global":
            continue
        attributes = operation.operation.attributes
        if "value" not in attributes:
            continue
        data = getattr(attributes["value"], "value_bytes", b"")
        if data.startswith(FATBIN_MAGIC):
            yield data


def keep_ptx(compiles: CompileLog, compiled: Callable[[], None]) -> None:
    """Let a log see every compilation of this process, with its PTX.

    Args:
        compiles: The log.
        compiled: Called after each compilation.
    """
    from cutlass.base_dsl.compiler import KeepPTX
    from cutlass.cutlass_dsl.cutlass import CutlassBaseDSL

    original = CutlassBaseDSL.compile_and_cache

    @functools.wraps(original)
    def compile_and_cache(
        self: Any,
        module: Any,
        module_hash: Any,
        function_name: str,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        option = self.compile_options.options[KeepPTX]
        arch = self.compile_options.gpu_arch or self.envar.arch
        with tempfile.TemporaryDirectory(prefix="sidestream-ptx-") as scratch:
            # Options are shared between compilations: leave them as they were.
            before = option.value, option.dump_path, option.full_ptx_path
            if not option.value:
                option.value = True
                option.dump_path = f"{scratch}/module"
                option.full_ptx_path = f"{scratch}/module.{arch}.ptx"
            path = Path(option.full_ptx_path)
            started = time.perf_counter()
            try:
                made = original(
                    self, module, module_hash, function_name, *args, **kwargs
                )
            finally:
                option.value, option.dump_path, option.full_ptx_path = before
            seconds = time.perf_counter() - started
            compiled()
            ptx = path.read_text() if path.exists() else ""
        lowered = getattr(made, "ir_module", None)
        images = list(_images(lowered)) if lowered is not None else []
        compiles.add(
            function=function_name,
            source_name=kwargs.get("original_function_name") or function_name,
            arch=arch,
            seconds=seconds,
            ptx=ptx,
            image=images[0] if len(images) == 1 else b"",
            key=getattr(asked, "key", ""),
        )
        return made

    generate = CutlassBaseDSL.generate_mlir
    asked = threading.local()

    @functools.wraps(generate)
    def generate_mlir(
        self: Any,
        function: Any,
        name: Any,
        attributes: Any,
        args: Any,
        kwargs: Any,
        *more: Any,
        **options: Any,
    ) -> Any:
        arch = self.compile_options.gpu_arch or self.envar.arch
        asked.key = key_of(function, tuple(args), kwargs, arch=arch)
        try:
            return generate(
                self, function, name, attributes, args, kwargs, *more, **options
            )
        finally:
            asked.key = ""

    _replace(CutlassBaseDSL, "compile_and_cache", compile_and_cache)
    _replace(CutlassBaseDSL, "generate_mlir", generate_mlir)


def _surfacing(
    activation: Activation, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap a call of native code that may end with a callback's exception.

    The first argument is what was compiled.
    """

    @functools.wraps(original)
    def call(compiled: Any, *args: Any, **kwargs: Any) -> Any:
        require_bound(compiled)
        activation.forget_raised()
        try:
            result = original(compiled, *args, **kwargs)
        except Exception as error:
            activation.surface(error)
            raise
        activation.surface()
        return result

    return call


def _bound_only(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a compiled function that was compiled here."""

    @functools.wraps(original)
    def call(compiled: Any, *args: Any, **kwargs: Any) -> Any:
        require_bound(compiled)
        return original(compiled, *args, **kwargs)

    return call


def _surface_errors(activation: Activation) -> None:
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction

    mark_made(CudaDialectJitCompiledFunction)
    mark_made(JitExecutor)
    for name in ("__call__", "to"):
        original = getattr(CudaDialectJitCompiledFunction, name)
        _replace(CudaDialectJitCompiledFunction, name, _bound_only(original))
    _replace(
        JitExecutor,
        "run_compiled_program",
        _surfacing(activation, JitExecutor.run_compiled_program),
    )
    _surface_provider_errors(activation)


_PROVIDER = "cutlass.cutlass_dsl.tvm_ffi_provider"
_surfaced: set[type] = set()


def _surface_provider_errors(activation: Activation) -> None:
    """Do the same for functions called through tvm-ffi, once something uses it.

    Only a compilation that asks for tvm-ffi imports the provider, and only its result
    can be called: importing it here would cost every start of Sidestream.
    """
    provider = sys.modules.get(_PROVIDER)
    if provider is None:
        return
    for name in ("TVMFFIJitCompiledFunction", "TVMFFIJitCompiledFunctionWithKwargs"):
        kind = getattr(provider, name)
        if kind not in _surfaced:
            _surfaced.add(kind)
            _replace(kind, "__call__", _surfacing(activation, kind.__call__))


def _exchange_tensors(activation: Activation) -> None:
    """Put the runtime's DLPack table in front of torch's, before anyone caches it."""
    import torch

    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return  # tvm-ffi then goes through Python, where tensors are patched
    name = b"dlpack_exchange_api"
    get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    table = activation.runtime.dlpack_table(get(capsule, name))
    _replace(torch.Tensor, "__dlpack_c_exchange_api__", new(table, name, None))
