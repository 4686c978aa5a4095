"""Tensor memory is allocated, used and given back."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    TMEM_STORE,
    WAIT_STORE,
    bulk_load,
    expect,
    lead,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, fault, smem, tmem

_TITLE = (
    "TensorCore 5th Generation Instructions: "
    "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit"
)
_ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
_DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32"
_GIVE_UP = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_KNOW = "bar.warp.sync -1;\nld.shared.b32 %tm, [%slot];\nmov.b32 %tq, %tm;\n"


def _take(columns: int | str = 32, at: str = "%slot") -> str:
    return f"{_ALLOC} [{at}], {columns};\n"


def _give(columns: int | str = 32, what: str = "%tm") -> str:
    return f"{_DEALLOC} {what}, {columns};\n"


def _one(name: str, body: str, op: str, broken: str, kind: str, site: str) -> Twin:
    """One warp that does all."""
    rule = {"tmem-alloc": "tmem.alloc", "out-of-bounds": "tmem.access"}[kind]
    return Twin(
        name=name,
        rule="T11",
        title=_TITLE,
        warps=(body,),
        op=op,
        broken=broken,
        found=fault(kind, rule, site),
    )


_BAR = "bar.sync 1, 64;\n"
_AGAIN = "ld.shared.b32 %r3, [%slot+4];\n"

TWINS = (
    _one(
        "given_back_at_the_end",
        _take() + _KNOW + "<op>",
        _give(),
        "",
        "tmem-alloc",
        _ALLOC,
    ),
    _one(
        "columns_as_they_were_taken",
        _take(64) + _KNOW + "<op>" + _give(64),
        "",
        _give(32),
        "tmem-alloc",
        _DEALLOC,
    ),
    _one(
        "columns_are_a_power_of_two",
        "mov.u32 %r4, <op>;\n"
        + _take("%r4")
        + "setp.ne.u32 %p1, %r4, 64;\n@%p1 bra $E;\n"
        + _KNOW
        + _give("%r4")
        + "$E:\n",
        "64",
        "48",
        "tmem-alloc",
        _ALLOC,
    ),
    _one(
        "allocation_after_the_permit_was_given_up",
        _take() + _KNOW + "<op>" + _give(),
        _take(32, "%slot+4")
        + "bar.warp.sync -1;\n"
        + _AGAIN
        + _give(32, "%r3")
        + _GIVE_UP,
        _GIVE_UP + _take(32, "%slot+4"),
        "tmem-alloc",
        _ALLOC,
    ),
    _one(
        "later_allocations_are_no_larger",
        _take("<op>")
        + _KNOW
        + _take(64, "%slot+4")
        + "bar.warp.sync -1;\n"
        + _AGAIN
        + _give("<op>")
        + _give(64, "%r3"),
        "64",
        "32",
        "tmem-alloc",
        _ALLOC,
    ),
    _one(
        "twice_given_back",
        _take() + _KNOW + "<op>" + _give(),
        "",
        _give(),
        "tmem-alloc",
        _DEALLOC,
    ),
    _one(
        "use_after_it_was_given_back",
        _take() + _KNOW + "<op>",
        TMEM_STORE + WAIT_STORE + _give(),
        _give() + TMEM_STORE + WAIT_STORE,
        "out-of-bounds",
        _ST,
    ),
    _one(
        "columns_of_nobody",
        _take()
        + _KNOW
        + "add.u32 %tq, %tq, <op>;\n"
        + TMEM_STORE
        + WAIT_STORE
        + _give(),
        "31",
        "32",
        "out-of-bounds",
        _ST,
    ),
    Twin(
        name="given_back_behind_another_warps_store",
        rule="T11",
        title=_TITLE,
        warps=(
            # The bytes of a copy tell when, and nothing of what its issuer did.
            _take() + _BAR + _KNOW + lead(expect(256)) + wait() + "<op>" + _give(),
            *("", "", ""),
            _BAR + _KNOW + TMEM_STORE + WAIT_STORE + lead(bulk_load()) + "<op>",
        ),
        bars=(1,),
        op="bar.sync 2, 64;\n",
        found=tmem(_ST, _DEALLOC),
        broken_in=("isa",),  # it was over when the copy was issued
    ),
    Twin(
        name="address_is_read_behind_a_barrier",
        rule="T11",
        title=_TITLE,
        warps=(
            _take() + "<op>" + _KNOW + "bar.sync 2, 64;\n" + _give(),
            "<op>ld.shared.b32 %r3, [%slot];\nbar.sync 2, 64;\n",
        ),
        op="bar.sync 1, 64;\n",
        found=smem(_ALLOC, "ld.shared.b32"),
    ),
)
