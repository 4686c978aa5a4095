"""Driver calls as CUPTI would report them: decoding, and what the log makes of them."""

import ctypes

import pytest

from sidestream.harness.cuda import driver_audit
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.driver_audit import ENTER, EXIT, DriverAudit
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.errors import UnsupportedError
from sidestream.harness.launch import Launch


class Cupti:
    """CUPTI with one subscriber; `say` is the driver that calls it."""

    def __init__(self, refuses=0):
        self.callback, self.refuses = None, refuses

    def cuptiSubscribe(self, handle, callback, user):
        self.callback = None if self.refuses else callback
        return self.refuses

    def cuptiEnableDomain(self, on, handle, domain):
        assert (on, domain) == (1, 1)
        return 0

    def cuptiUnsubscribe(self, handle):
        self.callback = None

    def say(self, function, params=None, symbol=b"", site=ENTER, status=0):
        if self.callback is None:
            return
        returned = ctypes.c_int(status)
        data = driver_audit._Data(
            site=site,
            function=function,
            params=ctypes.addressof(params) if params is not None else None,
            returned=ctypes.addressof(returned),
            symbol=symbol,
        )
        self.callback(None, 1, 0, ctypes.pointer(data))


def words(*values):
    return (ctypes.c_uint64 * len(values))(*values)


def plain_launch(stream):
    """`cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, shared, stream, params, extra)`."""
    packed = (ctypes.c_uint32 * 16)(*[9, 0, 2, 1, 1, 32, 1, 1, 512], 0, stream)
    return packed


@pytest.mark.parametrize(
    ("function", "name", "kind"),
    [
        (b"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", "read"),
        (b"cuStreamSynchronize_ptsz", "cuStreamSynchronize", "wait"),
        (b"cuMemAlloc_v2", "cuMemAlloc", "alloc"),
        (b"cuMemsetD8Async", "cuMemsetD8Async", "fill"),
        (b"cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", "copy"),
        (b"cuLaunchKernelEx", "cuLaunchKernelEx", "launch"),
        (b"cuCtxGetCurrent", "cuCtxGetCurrent", ""),
    ],
)
def test_calls_are_told_by_name_and_kind(function, name, kind):
    cupti, heard = Cupti(), []
    with DriverAudit(heard.append, cupti):
        cupti.say(function)
    cupti.say(function)
    (call,) = heard
    assert (call.name, call.kind, call.returning) == (name, kind, False)


def test_a_call_that_returns_has_its_status():
    cupti, heard = Cupti(), []
    with DriverAudit(heard.append, cupti):
        cupti.say(b"cuEventQuery", site=EXIT, status=600)
    assert (heard[0].returning, heard[0].status) == (True, 600)


def test_the_stream_of_both_forms_of_a_launch():
    cupti, heard = Cupti(), []
    # grid, block, shared memory; a gap; then the stream.
    config = (ctypes.c_uint32 * 14)(*[2, 1, 1, 32, 1, 1, 512], 0, 0x1234, 0)
    with DriverAudit(lambda call: heard.append(call.launch_stream), cupti):
        cupti.say(b"cuLaunchKernel", plain_launch(0x77))
        cupti.say(b"cuLaunchKernelEx", words(ctypes.addressof(config), 9))
    assert heard == [0x77, 0x1234]


def test_what_the_callback_raises_comes_at_the_end():
    cupti = Cupti()

    def fail(call):
        raise KeyError(call.name)

    with pytest.raises(KeyError, match="cuMemAlloc"), DriverAudit(fail, cupti):
        cupti.say(b"cuMemAlloc_v2")


def test_another_tool_has_cupti():
    with pytest.raises(UnsupportedError, match="refuses a subscriber"):
        DriverAudit(print, Cupti(refuses=1)).__enter__()


def log_with(cupti):
    return CardLog(
        table=AllocationTable(), audit=lambda on_call: DriverAudit(on_call, cupti)
    )


def launch(kernel):
    return Launch(kernel=kernel, ptx="", grid=(1, 1, 1), block=(32, 1, 1), stream=7)


def test_the_log_tells_what_an_execute_call_must_not_do():
    cupti = Cupti()
    log = log_with(cupti)
    with log:
        cupti.say(b"cuMemAlloc_v2")
        cupti.say(b"cuStreamSynchronize")
        cupti.say(b"cuMemsetD8Async")
        cupti.say(b"cuLaunchKernel", plain_launch(5), symbol=b"fill_kernel")
    assert [event.kind for event in log.events] == [
        *("host-alloc", "host-sync", "hidden-launch", "hidden-launch"),
    ]
    assert log.events[-1].detail == "fill_kernel on stream 0x5"
    assert log.driver_calls == 4
    assert log.audited
    assert all("test_driver_audit.py" in event.stack[0] for event in log.events)


def test_launches_of_the_implementation_are_expected_once_each():
    cupti = Cupti()
    log = log_with(cupti)
    with log:
        log.launched(launch("fwd"))
        cupti.say(b"cuLaunchKernel", plain_launch(7), symbol=b"fwd")
        cupti.say(b"cuLaunchKernel", plain_launch(7), symbol=b"fwd")
    (event,) = log.events
    assert event.kind == "hidden-launch"
    assert "fwd" in event.detail


def test_one_deed_at_two_levels_is_told_once():
    cupti = Cupti()
    log = log_with(cupti)
    with log:
        cupti.say(b"cuMemcpyDtoHAsync_v2"), cupti.say(b"cuStreamSynchronize")
    assert [event.operation for event in log.events] == ["cuMemcpyDtoHAsync"]


def test_a_log_without_cupti_says_that_the_driver_was_not_heard():
    log = log_with(Cupti(refuses=39))
    with log:
        pass
    assert not log.audited
    assert "error 39" in log.unaudited
