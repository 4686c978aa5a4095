"""Launches of CuTe DSL host functions arrive as data; failures reach the caller."""

import ctypes
import struct
import threading

import cuda.bindings.driver as drv
import cutlass
import pytest
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor

from sidestream.harness.dsl.activation import activate
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.dsl.chip import chip
from sidestream.harness.errors import ContractError, UnsupportedError, UsageError


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, n: cutlass.Int32):
    tid, _, _ = cute.arch.thread_idx()
    cta, _, _ = cute.arch.block_idx()
    y[cta * 32 + tid] = x[cta * 32 + tid] + n


@cute.jit
def add(
    x: cute.Tensor,
    y: cute.Tensor,
    n: cutlass.Int32,
    ctas: cutlass.Int32,
    smem: cutlass.Constexpr,
    stream: drv.CUstream,
):
    add_kernel(x, y, n).launch(
        grid=(ctas, 1, 1), block=(32, 1, 1), smem=smem, stream=stream
    )


@cute.jit
def add_clustered(x: cute.Tensor, y: cute.Tensor, ctas: cutlass.Int32):
    add_kernel(x, y, cutlass.Int32(1)).launch(
        grid=(ctas, 2, 1), block=(32, 1, 1), cluster=(2, 1, 1), use_pdl=True
    )


@cute.jit
def twice(x: cute.Tensor, y: cute.Tensor):
    add_kernel(x, y, cutlass.Int32(1)).launch(grid=(1, 1, 1), block=(32, 1, 1))
    add_kernel(x, y, cutlass.Int32(2)).launch(grid=(1, 1, 1), block=(32, 1, 1))


@pytest.fixture(scope="module")
def device():
    return activate(arch="sm_120a")


@pytest.fixture(scope="module")
def tensors():
    return torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)


def fake():
    return make_fake_compact_tensor(cutlass.Int32, (64,), assumed_align=16)


@pytest.fixture(scope="module")
def compiled(device):
    return cute.compile(
        add, fake(), fake(), cutlass.Int32(0), cutlass.Int32(1), 0, drv.CUstream(0)
    )


def dlpack(*tensors):
    return [from_dlpack(t, assumed_align=16) for t in tensors]


def test_a_launch_arrives_with_all_that_the_host_asked_for(device, tensors, compiled):
    got = []
    with Capture(got.append):
        compiled(*dlpack(*tensors), 7, 2, drv.CUstream(0x1234))
    (launch,) = got
    assert launch.grid == (2, 1, 1)
    assert launch.block == (32, 1, 1)
    assert launch.cluster == (1, 1, 1)
    assert launch.dynamic_smem == 0
    assert launch.stream == 0x1234
    assert not launch.pdl
    x, y = tensors
    assert launch.params[:2] == (
        struct.pack("<Q", x.data_ptr()),
        struct.pack("<Q", y.data_ptr()),
    )
    assert launch.params[2] == struct.pack("<i", 7)
    assert f".entry {launch.kernel}" in launch.ptx
    assert ".target sm_120a" in launch.ptx
    assert "test_capture.py" in launch.ptx, "line info names the kernel's source"


def test_cluster_and_programmatic_launch_attributes(device, tensors):
    got = []
    with Capture(got.append):
        made = cute.compile(add_clustered, fake(), fake(), cutlass.Int32(2))
        made(*dlpack(*tensors), 4)
    assert got[0].cluster == (2, 1, 1)
    assert got[0].grid == (4, 2, 1)
    assert got[0].pdl


def test_a_callback_exception_reaches_the_caller_unchanged(device, tensors, compiled):
    wanted = KeyError("from the callback")

    def refuse(launch):
        raise wanted

    args = (*dlpack(*tensors), 7, 2, drv.CUstream(0))
    with Capture(refuse), pytest.raises(KeyError) as caught:
        compiled(*args)
    assert caught.value is wanted
    got = []
    with Capture(got.append):
        compiled(*args)
    assert len(got) == 1, "the failure left nothing behind"


def test_no_launch_is_delivered_after_a_failure(device, tensors):
    made = cute.compile(twice, fake(), fake())
    seen = []

    def first_fails(launch):
        seen.append(launch)
        raise ValueError("stop")

    with Capture(first_fails), pytest.raises(ValueError, match="stop"):
        made(*dlpack(*tensors))
    assert len(seen) == 1
    got = []
    with Capture(got.append):
        made(*dlpack(*tensors))
    assert len(got) == 2


def test_a_launch_outside_of_a_capture_is_an_error(device, tensors, compiled):
    with pytest.raises(ContractError, match="outside of any capture"):
        compiled(*dlpack(*tensors), 7, 2, drv.CUstream(0))


def test_nested_captures_shadow_outer_ones(device, tensors, compiled):
    outer, inner = [], []
    args = (*dlpack(*tensors), 7, 2, drv.CUstream(0))
    with Capture(outer.append):
        with Capture(inner.append):
            compiled(*args)
        compiled(*args)
    assert (len(outer), len(inner)) == (1, 1)


@pytest.mark.parametrize(
    ("ctas", "message"),
    [(0, "is zero"), (-1, "passes the device's limits")],
)
def test_a_grid_that_cuda_refuses(device, tensors, compiled, ctas, message):
    with Capture(lambda launch: None), pytest.raises(ContractError, match=message):
        compiled(*dlpack(*tensors), 7, ctas, drv.CUstream(0))


def test_a_grid_must_be_whole_clusters(device, tensors):
    made = cute.compile(add_clustered, fake(), fake(), cutlass.Int32(2))
    with (
        Capture(lambda launch: None),
        pytest.raises(ContractError, match="not a multiple of cluster"),
    ):
        made(*dlpack(*tensors), 3)


def test_shared_memory_beyond_the_chip_is_refused(device, tensors):
    got = []
    with Capture(got.append):
        fits = cute.compile(
            *(add, fake(), fake(), cutlass.Int32(0), cutlass.Int32(1)),
            *(101376, drv.CUstream(0)),
        )
        fits(*dlpack(*tensors), 7, 2, drv.CUstream(0))
        assert got[0].dynamic_smem == 101376
        with pytest.raises(ContractError, match=r"101377 .*101376"):
            cute.compile(
                *(add, fake(), fake(), cutlass.Int32(0), cutlass.Int32(1)),
                *(101377, drv.CUstream(0)),
            )(*dlpack(*tensors), 7, 2, drv.CUstream(0))


def test_tvm_ffi_builds_are_caught_and_fail_alike(device, tensors):
    pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    host = cute.compile(
        *(add_host, make_fake_cpu(), make_fake_cpu(), cutlass.Int32(3)),
        options="--enable-tvm-ffi",
    )
    got = []
    with Capture(got.append):
        host(tensors[0], tensors[1], 9)
    assert got[0].params[2] == struct.pack("<i", 9)
    wanted = KeyError("through tvm-ffi")

    def refuse(launch):
        raise wanted

    with Capture(refuse), pytest.raises(KeyError) as caught:
        host(tensors[0], tensors[1], 9)
    assert caught.value is wanted


@cute.jit
def add_host(x: cute.Tensor, y: cute.Tensor, n: cutlass.Int32):
    add_kernel(x, y, n).launch(grid=(2, 1, 1), block=(32, 1, 1))


def make_fake_cpu():
    return from_dlpack(torch.zeros(64, dtype=torch.int32), assumed_align=16)


def test_compilations_leave_no_files_and_no_options_behind(
    device, tensors, tmp_path, monkeypatch
):
    monkeypatch.setattr(cutlass.cutlass_dsl.CuTeDSL().envar, "dump_dir", str(tmp_path))
    for _ in range(2):
        cute.compile(twice, fake(), fake())
    assert list(tmp_path.iterdir()) == []
    keep = f"--keep-ptx --dump-dir={tmp_path}"
    kept = cute.compile(twice, fake(), fake(), options=keep)
    assert [path.suffix for path in tmp_path.iterdir()] == [".ptx"]
    assert device.compiles.records[-1].ptx == kept.artifacts.PTX


def test_a_library_of_unknown_origin_is_refused_by_name(device):
    runtime = ctypes.CDLL(str(device.runtime.path))
    image = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 4) + b"body"
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    load = runtime._cudaLibraryLoadData
    assert load(ctypes.byref(library), image, None, None, 0, None, None, 0) == 0
    assert runtime._cudaLibraryGetKernel(ctypes.byref(kernel), library, b"fwd") == 500
    with pytest.raises(UnsupportedError, match="fwd comes from a library"):
        device.surface()


def test_every_compilation_is_logged_with_its_ptx(device, tensors):
    mark = device.compiles.mark()
    cute.compile(twice, fake(), fake())
    (record,) = device.compiles.since(mark)
    assert record.source_name == "twice"
    assert record.arch == "sm_120a"
    assert record.seconds > 0
    assert len(record.kernels) == 2
    assert record.image_sha256
    assert all(f".entry {name}" in record.ptx for name in record.kernels)


def test_a_call_without_a_model_is_unsupported_by_name(device):
    runtime = ctypes.CDLL(str(device.runtime.path))
    assert runtime._cudaMallocAsync() == 801
    with pytest.raises(UnsupportedError, match="_cudaMallocAsync has no model"):
        device.surface()
    device.surface()


def test_a_blocking_call_of_the_host_is_told(device):
    runtime = ctypes.CDLL(str(device.runtime.path))
    calls = []
    with Capture(
        lambda launch: None, lambda call, stream: calls.append((call, stream))
    ):
        assert runtime._cudaStreamSynchronize(ctypes.c_void_p(0x77)) == 0
    assert calls == [("cudaStreamSynchronize", 0x77)]


def test_stale_and_foreign_handles_are_refused(device):
    runtime = ctypes.CDLL(str(device.runtime.path))
    out = ctypes.c_void_p()
    junk = ctypes.c_void_p(0xDEAD0000)
    assert runtime._cudaLibraryGetKernel(ctypes.byref(out), junk, b"k") == 400
    assert runtime._cudaFuncSetAttribute(junk, 8, 1) == 400
    assert runtime._cudaLaunchKernel(junk, 1, 1, 1, 1, 1, 1, None, 0, None) == 400
    assert device.runtime.take_note()[0] == 400


def test_device_attributes_come_from_the_chip(device):
    runtime = ctypes.CDLL(str(device.runtime.path))
    out = ctypes.c_int()
    assert runtime._cudaDeviceGetAttribute(ctypes.byref(out), 97, 0) == 0
    assert out.value == chip("sm_120a").smem_per_block == 101376
    assert runtime._cudaDeviceGetAttribute(ctypes.byref(out), 200, 0) == 801
    assert "attribute 200" in device.runtime.take_note()[1]
    assert cutlass.utils.HardwareInfo().get_max_active_clusters(2) == 2
    activate(arch="sm_120a", sms=6)
    assert cutlass.utils.HardwareInfo().get_max_active_clusters(2) == 3
    assert cutlass.utils.HardwareInfo().get_device_multiprocessor_count() == 6
    activate(arch="sm_120a")


def test_threads_do_not_see_each_others_failures(device, tensors, compiled):
    args = (*dlpack(*tensors), 7, 2, drv.CUstream(0))
    main = threading.get_ident()

    def only_main_fails(launch):
        if threading.get_ident() == main:
            raise ValueError("main")

    outcome = []

    def other():
        compiled(*args)
        outcome.append("fine")

    with Capture(only_main_fails):
        thread = threading.Thread(target=other)
        with pytest.raises(ValueError, match="main"):
            compiled(*args)
        thread.start()
        thread.join()
    assert outcome == ["fine"]


def test_one_process_one_architecture(device):
    with pytest.raises(UsageError, match="bound to sm_120a"):
        activate(arch="sm_90a")
    with pytest.raises(UsageError, match="unknown target 'sm_75'"):
        activate(arch="sm_75")
