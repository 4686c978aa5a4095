"""Forms of mbarriers, named and cluster barriers, fences and cluster launch control.

PTX ISA chapter "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_OWN = "space=shared|shared::cta?"
_SCOPE = "scope=cta|cluster|gpu|sys"
_SHORT_SCOPE = "scope=cta|cluster"
_ALIGNED = {"aligned": "aligned"}
_MBARRIER = "completion=mbarrier::complete_tx::bytes"


def _section(name: str) -> str:
    return f"Parallel Synchronization and Communication Instructions: {name}"


def _no_state(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """An arrive on another CTA's barrier returns nothing."""
    return mods["space"] != "shared::cluster" or isinstance(args["state"], ir.Sink)


def _with_order(words: str, sems: str) -> tuple[str, str]:
    """The words with and without an order; semantics and scope go together."""
    before, after = words.split("/")
    return (
        f"{before} {after}",
        f"{before} sem={sems} {_SHORT_SCOPE} {after}",
    )


def _arrive(spelling: str, operands: str) -> Family:
    forms: list[Form] = []
    for words in _with_order(f"/{_OWN} type=b64", "release|relaxed"):
        forms.append(Form(words, f"=state:b64 [addr]{operands}"))
    for words in _with_order("/space=shared::cluster type=b64", "release|relaxed"):
        forms.append(Form(words, f"=state:b64 [addr]{operands}", rule=_no_state))
    return Family(spelling, _section(spelling), tuple(forms))


def _no_complete(spelling: str) -> Family:
    return Family(
        spelling,
        _section(spelling.rsplit(".", 1)[0]),
        (
            Form(f"{_OWN} type=b64", "=state:b64 [addr] count:b32"),
            Form(
                f"sem=release scope=cta {_OWN} type=b64",
                "=state:b64 [addr] count:b32",
            ),
        ),
    )


def _transaction(spelling: str) -> Family:
    space = "space=shared|shared::cta|shared::cluster?"
    return Family(
        spelling,
        _section(spelling),
        tuple(
            Form(words, "[addr] tx:b32")
            for words in _with_order(f"/{space} type=b64", "relaxed")
        ),
    )


def _wait(spelling: str, hint: str) -> Family:
    forms: list[Form] = []
    for words in _with_order(f"parity/{_OWN} type=b64", "acquire|relaxed"):
        forms.append(Form(words, f"=p [addr] parity:b32{hint}"))
    for words in _with_order(f"/{_OWN} type=b64", "acquire|relaxed"):
        forms.append(Form(words, f"=p [addr] state:b64{hint}"))
    return Family(spelling, _section(spelling), tuple(forms))


def _barrier(spelling: str) -> tuple[Family, ...]:
    """`bar` is `barrier` with `.aligned`; both may say `.cta`."""
    implied = _ALIGNED if spelling.startswith("bar.") or spelling == "bar" else {}
    flag = "" if implied else "aligned?"
    where = _section("bar, barrier")
    return (
        Family(
            f"{spelling}.sync",
            where,
            (
                Form(
                    flag, "barrier:b32 threads:b32?", op="barrier.sync", implied=implied
                ),
            ),
        ),
        Family(
            f"{spelling}.arrive",
            where,
            (
                Form(
                    flag,
                    "barrier:b32 threads:b32",
                    op="barrier.arrive",
                    implied=implied,
                ),
            ),
        ),
        Family(
            f"{spelling}.red",
            where,
            (
                Form(
                    f"op=popc {flag} type=u32",
                    "=d:b32 barrier:b32 threads:b32? c:pred",
                    op="barrier.red",
                    implied=implied,
                ),
                Form(
                    f"op=and|or {flag} type=pred",
                    "=p barrier:b32 threads:b32? c:pred",
                    op="barrier.red",
                    implied=implied,
                ),
            ),
        ),
    )


_FENCES: tuple[Family, ...] = (
    Family(
        "fence",
        _section("membar, fence"),
        (
            Form(f"sem=sc|acq_rel|acquire|release? {_SCOPE}", ""),
            Form(
                "sem=acquire sync_restrict=sync_restrict::shared::cluster"
                " scope=cluster",
                "",
                op="fence.sync_restrict",
            ),
            Form(
                "sem=release sync_restrict=sync_restrict::shared::cta scope=cluster",
                "",
                op="fence.sync_restrict",
            ),
        ),
    ),
    Family(
        "fence.mbarrier_init",
        _section("membar, fence"),
        (Form("sem=release scope=cluster", ""),),
    ),
    Family(
        "fence.proxy",
        _section("membar, fence"),
        (
            Form("proxy=alias", ""),
            Form("proxy=async space=global|shared::cta|shared::cluster?", ""),
            Form(f"proxy=tensormap::generic sem=release {_SCOPE}", ""),
            Form(f"proxy=tensormap::generic sem=acquire {_SCOPE}", "[addr] $size"),
            Form(
                "proxy=async::generic sem=acquire"
                " sync_restrict=sync_restrict::shared::cluster scope=cluster",
                "",
            ),
            Form(
                "proxy=async::generic sem=release"
                " sync_restrict=sync_restrict::shared::cta scope=cluster",
                "",
            ),
        ),
    ),
    Family(
        "membar",
        _section("membar, fence"),
        (Form("scope=cta|gl>gpu|sys", "", op="fence", implied={"sem": "sc"}),),
    ),
    Family(
        "membar.proxy",
        _section("membar, fence"),
        (Form("proxy=alias|async", "", op="fence.proxy"),),
    ),
)

_LAUNCH_CONTROL: tuple[Family, ...] = (
    Family(
        "clusterlaunchcontrol.try_cancel",
        _section("clusterlaunchcontrol.try_cancel"),
        (
            Form(
                f"async space=shared::cta? {_MBARRIER}"
                " multicast=multicast::cluster::all? type=b128",
                "[addr] [mbar]",
            ),
        ),
    ),
    Family(
        "clusterlaunchcontrol.query_cancel",
        _section("clusterlaunchcontrol.query_cancel"),
        (
            Form("query=is_canceled dtype=pred type=b128", "=p a:type"),
            Form(
                "query=get_first_ctaid vec=v4 dtype=b32 type=b128", "=#d:dtype a:type"
            ),
            Form(
                "query=get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z"
                " dtype=b32 type=b128",
                "=d:dtype a:type",
            ),
        ),
    ),
)

FAMILIES: tuple[Family, ...] = (
    Family(
        "mbarrier.init",
        _section("mbarrier.init"),
        (Form(f"{_OWN} type=b64", "[addr] count:b32"),),
    ),
    Family(
        "mbarrier.inval",
        _section("mbarrier.inval"),
        (Form(f"{_OWN} type=b64", "[addr]"),),
    ),
    _transaction("mbarrier.expect_tx"),
    _transaction("mbarrier.complete_tx"),
    *(
        family
        for arrive in ("mbarrier.arrive", "mbarrier.arrive_drop")
        for family in (
            _arrive(arrive, " count:b32?"),
            _arrive(f"{arrive}.expect_tx", " tx:b32"),
            _no_complete(f"{arrive}.noComplete"),
        )
    ),
    _wait("mbarrier.test_wait", ""),
    _wait("mbarrier.try_wait", " time_hint:b32?"),
    Family(
        "mbarrier.pending_count",
        _section("mbarrier.pending_count"),
        (Form("type=b64", "=d:b32 state:b64"),),
    ),
    *_barrier("bar"),
    *_barrier("bar.cta"),
    *_barrier("barrier"),
    *_barrier("barrier.cta"),
    Family(
        "barrier.cluster.arrive",
        _section("barrier.cluster"),
        (Form("sem=release|relaxed? aligned?", ""),),
    ),
    Family(
        "barrier.cluster.wait",
        _section("barrier.cluster"),
        (Form("sem=acquire? aligned?", ""),),
    ),
    Family("bar.warp.sync", _section("bar.warp.sync"), (Form("", "membermask:b32"),)),
    *_FENCES,
    *_LAUNCH_CONTROL,
)
