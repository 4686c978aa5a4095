"""cuda.bindings on the virtual runtime: the calls that packages make themselves."""

import ctypes
import threading
from contextlib import ExitStack
from unittest import mock

import pytest
from cuda.bindings import driver, runtime

from sidestream.harness.bindings.calls import Calls
from sidestream.harness.bindings.interfaces import answers
from sidestream.harness.bindings.refusals import refusals
from sidestream.harness.cuda.driver_calls import driver_answers
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.errors import UnsupportedError
from sidestream.harness.run.script_refusals import refused
from sidestream.harness.runtime import Landing, Runtime
from sidestream.harness.vtorch.attributes import replaced_attributes

OK = runtime.cudaError_t.cudaSuccess
_HOST = (ctypes.c_uint8 * 96)()
_TO_DEVICE = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
FINE = driver.CUresult.CUDA_SUCCESS


@pytest.fixture
def rt():
    rt = Runtime(landing=Landing.parse("laziest"))
    with ExitStack() as stack:
        for owner, name, value in answers(Calls(runtime=rt)):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield rt


def stream(flags=1):
    status, made = runtime.cudaStreamCreateWithFlags(flags)
    assert status == OK
    return made


@pytest.mark.parametrize(("flags", "blocking"), [(0, True), (1, False)])
def test_a_stream_is_one_of_the_runtimes(rt, flags, blocking):
    made = stream(flags)
    assert rt.stream(int(made)).blocking == blocking
    assert runtime.cudaStreamDestroy(made) == (OK,)
    status, *_ = runtime.cudaStreamSynchronize(made)
    assert status == runtime.cudaError_t.cudaErrorInvalidResourceHandle


def test_a_stream_of_the_driver_is_the_same_kind(rt):
    status, made = driver.cuStreamCreateWithPriority(1, -3)
    assert status == FINE
    assert rt.stream(int(made)).priority == -3
    assert driver.cuStreamDestroy(made) == (FINE,)


def test_arguments_may_be_named_as_the_calls_name_them(rt):
    status, made = runtime.cudaStreamCreateWithFlags(flags=1)
    assert (status, runtime.cudaStreamGetFlags(hStream=made)) == (OK, (OK, 1))
    memory = driver.cuMemAlloc(bytesize=4)[1]
    host = (ctypes.c_uint8 * 4)(*b"abcd")
    done = driver.cuMemcpyHtoDAsync(
        hStream=made, ByteCount=4, srcHost=ctypes.addressof(host), dstDevice=memory
    )
    assert done == (FINE,)
    assert runtime.cudaStreamSynchronize(stream=made) == (OK,)
    assert ctypes.string_at(int(memory), 4) == b"abcd"
    wrong = runtime.cudaError_t(1)
    assert runtime.cudaGetErrorName(error=wrong) == (OK, b"cudaErrorInvalidValue")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: runtime.cudaMalloc(bytes=4), "'size'"),
        (lambda: runtime.cudaMemset(0, 0), "'count'"),
        (lambda: driver.cuMemAlloc(4, 4), "too many"),
    ],
)
def test_arguments_that_a_call_does_not_take_are_an_error(rt, call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_what_a_chip_tells_may_be_asked_for_by_name(rt):
    chip = CHIPS["sm_120a"]
    with replaced_attributes(driver_answers(lambda: chip, rt.not_modelled)):
        processors = runtime.cudaDeviceAttr.cudaDevAttrMultiProcessorCount
        told = runtime.cudaDeviceGetAttribute(device=0, attr=processors)
        assert told == (OK, chip.sms)
        assert driver.cuDeviceGetName(dev=0, length=7) == (FINE, b"NVIDIA")
        attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE
        with pytest.raises(UnsupportedError, match="ATTRIBUTE_CLOCK_RATE has no model"):
            driver.cuDeviceGetAttribute(attribute, 0)


@pytest.mark.parametrize("waits", [True, False])
def test_events_order_copies(rt, waits):
    one, two = stream(), stream()
    memory = runtime.cudaMalloc(64)[1]
    status, event = runtime.cudaEventCreateWithFlags(2)
    assert status == OK
    assert runtime.cudaMemsetAsync(memory, 7, 64, one) == (OK,)
    assert runtime.cudaEventRecord(event, one) == (OK,)
    if waits:
        assert runtime.cudaStreamWaitEvent(two, event, 0) == (OK,)
    host = (ctypes.c_uint8 * 64)()
    copied = runtime.cudaMemcpyAsync(
        ctypes.addressof(host), memory, 64, runtime.cudaMemcpyKind(2), two
    )
    assert copied == (OK,)
    rt.drain()
    assert (bytes(host) == b"\7" * 64) == waits
    assert [race.kind for race in rt.races()] == ([] if waits else ["stream-race"])


def test_a_pageable_source_is_read_at_the_call(rt):
    memory, made = runtime.cudaMalloc(4)[1], stream()
    host = (ctypes.c_uint8 * 4)(*b"abcd")
    place = ctypes.addressof(host)
    runtime.cudaMemcpyAsync(memory, place, 4, runtime.cudaMemcpyKind(1), made)
    host[:] = b"wxyz"
    assert runtime.cudaStreamQuery(made) == (runtime.cudaError_t.cudaErrorNotReady,)
    assert runtime.cudaStreamSynchronize(made) == (OK,)
    assert ctypes.string_at(memory, 4) == b"abcd"
    assert runtime.cudaFree(memory) == (OK,)


def test_a_pinned_source_is_read_when_the_copy_lands(rt):
    memory = driver.cuMemAlloc(4)[1]
    status, host = driver.cuMemHostAlloc(4, 0)
    assert status == FINE
    ctypes.memmove(host, b"abcd", 4)
    assert driver.cuMemcpyHtoDAsync(memory, host, 4, stream()) == (FINE,)
    ctypes.memmove(host, b"wxyz", 4)
    assert driver.cuCtxSynchronize() == (FINE,)
    assert ctypes.string_at(int(memory), 4) == b"wxyz"
    assert driver.cuMemFreeHost(host) == (FINE,)


@pytest.mark.parametrize(("width", "value"), [(1, 7), (2, 0x0102), (4, 0x01020304)])
def test_fills_of_the_driver(rt, width, value):
    memory = driver.cuMemAlloc(64)[1]
    fill = getattr(driver, f"cuMemsetD{8 * width}Async")
    assert fill(memory, value, 3, stream()) == (FINE,)
    driver.cuCtxSynchronize()
    assert (
        ctypes.string_at(int(memory), 3 * width) == value.to_bytes(width, "little") * 3
    )


def test_a_captured_fill_is_replayed(rt):
    made, memory = stream(), runtime.cudaMalloc(8)[1]
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
    assert runtime.cudaStreamBeginCapture(made, mode) == (OK,)
    runtime.cudaMemsetAsync(memory, 9, 8, made)
    active = runtime.cudaStreamCaptureStatus.cudaStreamCaptureStatusActive
    assert runtime.cudaStreamIsCapturing(made) == (OK, active)
    refused = runtime.cudaError_t.cudaErrorStreamCaptureUnsupported
    status, graph = runtime.cudaStreamEndCapture(made)
    assert status == OK
    status, ready = runtime.cudaGraphInstantiate(graph, 0)
    assert status == OK
    assert runtime.cudaGraphLaunch(ready, made) == (OK,)
    assert runtime.cudaDeviceSynchronize() == (OK,)
    assert ctypes.string_at(memory, 8) == b"\t" * 8
    runtime.cudaStreamBeginCapture(made, mode)
    assert runtime.cudaMalloc(8)[0] == refused


def test_what_was_never_made(rt):
    wrong = runtime.cudaError_t.cudaErrorInvalidResourceHandle
    assert runtime.cudaEventRecord(1, 0) == (wrong,)
    assert driver.cuStreamQuery(0xDEAD)[0] == driver.CUresult(400)
    assert runtime.cudaFree(4096) == (runtime.cudaError_t.cudaErrorInvalidValue,)
    assert runtime.cudaFree(0) == (OK,)


@pytest.mark.parametrize("interface", ["runtime", "driver"])
def test_a_host_function_runs_when_its_stream_comes_to_it(rt, interface):
    seen = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    function = kind(lambda data: seen.append(data))
    address = ctypes.cast(function, ctypes.c_void_p).value
    made = stream()
    if interface == "runtime":
        told = runtime.cudaLaunchHostFunc(made, runtime.cudaHostFn_t(address), 5)
    else:
        told = driver.cuLaunchHostFunc(made, driver.CUhostFn(address), 5)
    assert [int(status) for status in told] == [0]
    assert seen == []
    assert runtime.cudaStreamSynchronize(made) == (OK,)
    assert seen == [5]


def test_a_copy_finds_its_direction_out(rt):
    default = runtime.cudaMemcpyKind.cudaMemcpyDefault
    pinned, made = runtime.cudaMallocHost(4)[1], stream()
    status, memory = runtime.cudaMallocAsync(4, made)
    assert status == OK
    ctypes.memmove(pinned, b"abcd", 4)
    assert runtime.cudaMemcpyAsync(memory, pinned, 4, default, made) == (OK,)
    assert runtime.cudaStreamQuery(made) == (runtime.cudaError_t.cudaErrorNotReady,)
    ctypes.memset(pinned, 0, 4)
    back = ctypes.create_string_buffer(4)
    place = ctypes.addressof(back)
    assert runtime.cudaMemcpyAsync(place, memory, 4, default, made) == (OK,)
    assert back.raw == b"\0" * 4  # the host has waited, for the copy of zeros


def test_every_thread_has_a_last_error_of_its_own(rt):
    refused = runtime.cudaError_t.cudaErrorInvalidValue
    other = []
    assert runtime.cudaFree(1) == (refused,)
    thread = threading.Thread(target=lambda: other.append(runtime.cudaGetLastError()))
    thread.start()
    thread.join()
    assert (other, runtime.cudaGetLastError()) == ([(OK,)], (refused,))


@pytest.mark.parametrize("suffix", ["", "Async"])
@pytest.mark.parametrize(
    ("module", "name", "item"),
    [
        (runtime, "cudaMemset2D", b"\x07"),
        (driver, "cuMemsetD2D8", b"\x07"),
        (driver, "cuMemsetD2D16", b"\x07\0"),
        (driver, "cuMemsetD2D32", b"\x07\0\0\0"),
    ],
)
def test_rows_are_filled_a_pitch_apart(rt, module, name, item, suffix):
    stream_of_it = (stream(),) if suffix else ()
    memory = int(runtime.cudaMalloc(64)[1])
    ctypes.memset(memory, 1, 64)
    fill = getattr(module, name + suffix)
    status, *_ = fill(memory + 8, 24, 7, 2, 2, *stream_of_it)
    assert int(status) == 0
    rt.drain()
    row = item * 2 + b"\1" * (24 - 2 * len(item))
    assert ctypes.string_at(memory + 8, 48) == row * 2
    status, *_ = fill(memory + 8, 24, 7, 2, 4, *stream_of_it)
    assert int(status) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda at: runtime.cudaMemset(at, 0, 65),
        lambda at: driver.cuMemsetD32(at + 32, 0, 9),
        lambda at: runtime.cudaMemcpy(at, ctypes.addressof(_HOST), 65, _TO_DEVICE),
        lambda at: driver.cuMemcpyDtoH(ctypes.addressof(_HOST), at + 1, 64),
        lambda at: driver.cuMemcpyDtoD(at, at + 64, 1),
        lambda at: driver.cuMemcpyHtoD(at, 0, 8),
    ],
)
def test_bytes_that_no_allocation_holds_are_refused_and_told(rt, call):
    memory = int(runtime.cudaMalloc(64)[1])
    status, *_ = call(memory)
    assert int(status) == 1
    (found,) = refused(rt.refusals)
    assert (found.kind, found.rule.id) == ("out-of-bounds", "host.bounds")


def test_a_copy_finds_its_direction_from_both_addresses(rt):
    memory = driver.cuMemAlloc(8)[1]
    pinned = driver.cuMemAllocHost(8)[1]
    ctypes.memmove(pinned, b"abcdefgh", 8)
    assert driver.cuMemcpy(memory, pinned, 8) == (FINE,)
    assert driver.cuMemcpyAsync(ctypes.addressof(_HOST), memory, 8, stream()) == (FINE,)
    assert bytes(_HOST)[:8] == b"abcdefgh"
    free, total = driver.cuMemGetInfo()[1:]
    assert total - free == 8


def test_handles_of_nothing_are_refused(rt):
    status = runtime.cudaError_t.cudaErrorInvalidValue
    assert runtime.cudaLaunchHostFunc(stream(), 0, 0) == (status,)
    assert runtime.cudaGraphInstantiate(1, 0) == (status, None)
    assert runtime.cudaGraphLaunch(1, stream()) == (status,)


def test_the_last_error_is_told_once(rt):
    not_ready = runtime.cudaError_t.cudaErrorNotReady
    made = stream()
    runtime.cudaMemsetAsync(runtime.cudaMalloc(4)[1], 0, 4, made)
    assert runtime.cudaStreamQuery(made) == (not_ready,)
    assert runtime.cudaPeekAtLastError() == (not_ready,)
    assert [runtime.cudaGetLastError() for _ in "ab"] == [(not_ready,), (OK,)]
    assert runtime.cudaGetErrorName(not_ready) == (OK, b"cudaErrorNotReady")


def test_a_stream_tells_what_it_was_made_with(rt):
    made = runtime.cudaStreamCreateWithPriority(1, -2)[1]
    assert runtime.cudaStreamGetPriority(made) == (OK, -2)
    assert runtime.cudaStreamGetFlags(made) == (OK, 1)
    assert driver.cuStreamGetFlags(0) == (FINE, 0)


@pytest.mark.parametrize(
    ("module", "name"),
    [(runtime, "cudaGraphCreate"), (driver, "cuModuleLoadData")],
)
def test_what_has_no_model_is_refused_by_its_name(rt, module, name):
    with replaced_attributes(refusals(rt.not_modelled)):
        with pytest.raises(UnsupportedError, match=rf"{name} has no model"):
            getattr(module, name)(0)
        assert isinstance(driver.CUstream(1), driver.CUstream)
    (entry,) = rt.incomplete()
    assert entry.reason.startswith(f"{module.__name__}.{name} ")
