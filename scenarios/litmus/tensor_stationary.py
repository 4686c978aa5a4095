"""Products with a stationary matrix (`.ws`): pipelines, collector buffers, sources."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT_LOAD,
    WAIT_STORE,
    bulk_load,
    commit,
    expect,
    lead,
    mma,
    wait,
)
from sidestream.scenarios.litmus.twin import Found, Twin, proxy, smem, tmem

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_PIPES = f"{_MODEL}: Pipelined tcgen05 Instructions"
_SHARED = f"{_MODEL}: Shared Memory Accesses"
_OTHERS = f"{_MODEL}: Non-pipelined instructions, different thread"
_COMMIT = "TensorCore 5th Generation Instructions: tcgen05.commit"
_MMA = "tcgen05.mma.cta_group::1.kind::f16"
_PLAIN = "tcgen05.mma.ws.cta_group::1.kind::f16"
_FILL, _LAST = (
    f"{_PLAIN}.collector::b0::fill",
    f"{_PLAIN}.collector::b0::lastuse",
)
_CP = "tcgen05.cp.cta_group::1.128x256b"
_IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_COPY = f"{_CP} [%tm], %ad;\n"
_SMALLER = "mov.b32 %idesc, 0x04100010;\n"
"""64 x 64: as many halves of `%y` as there are."""
_END = commit("%bar+8") + wait(0, "%bar+8")
_OVER = wait(0, "%bar+8")
_BAR = "bar.sync 1, 64;\n"
_PROXY = "fence.proxy.async.shared::cta;\n"
_WRITE_B = "st.shared.b32 [%y], 1;\n"


def _ws(name: str = _PLAIN, to: str = "%tm") -> str:
    """A product of 64 x 64 into 32 columns of all lanes."""
    return (
        "setp.ne.u32 %p2, %lane, %lane;\n"
        f"{name} [{to}], %ad, %bd, %idesc, %p2;\n"
    )  # fmt: skip


def _one(
    name: str,
    rule: str,
    title: str,
    warps: tuple[str, ...],
    op: str,
    broken: str,
    found: tuple[Found, ...],
    broken_in: tuple[str, ...] = ("practice", "isa"),
) -> Twin:
    return Twin(
        name=name,
        rule=rule,
        title=title,
        setup=_SMALLER + "add.u32 %r4, %tm, 4;\n",
        warps=warps,
        op=op,
        broken=broken,
        found=found,
        broken_in=broken_in,
        bars=(1, 1),
        tensor=64,
    )


TWINS = (
    _one(
        "product_is_awaited",
        "T4",
        _COMMIT,
        (lead(_ws() + commit("%bar+8")) + "<op>",),
        _OVER + AFTER + TMEM_LOAD + WAIT_LOAD,
        AFTER + TMEM_LOAD + WAIT_LOAD + _OVER,
        tmem(_PLAIN, _LD, "T4"),
    ),
    _one(
        "product_then_copy",
        "T2",
        _PIPES,
        (lead("<op>" + _END),),
        _COPY + _ws(),
        _ws() + _COPY,
        tmem(_PLAIN, _CP, "T4"),
    ),
    _one(
        "products_of_other_columns_in_part",
        "T2",
        _PIPES,
        (lead(_ws() + _ws(to="<op>") + _END),),
        "%tm",
        "%r4",
        tmem(_PLAIN, _PLAIN, "T2"),
        ("isa",),
    ),
    _one(
        "another_shape_of_product",
        "T2",
        _PIPES,
        (lead(_ws() + "<op>" + "mov.b32 %idesc, 0x08040010;\n" + mma() + _END),),
        commit("%bar"),
        "",
        tmem(_PLAIN, _MMA, "T2"),
        ("isa",),
    ),
    _one(
        "kept_matrix_is_free_after_its_last_use",
        "T9",
        _SHARED,
        (
            lead(
                _ws(_FILL)
                + commit("%bar")
                + wait()
                + _ws(_LAST)
                + commit("%bar+8")
                + "<op>"
            ),
        ),
        _OVER + _WRITE_B,
        _WRITE_B + _OVER,
        smem(_LAST, "st.shared.b32", "T4"),
    ),
    _one(
        "stored_matrix_crosses_the_proxy",
        "T9",
        _SHARED,
        (lead(_WRITE_B + "<op>" + _ws() + _END),),
        _PROXY,
        "",
        proxy("st.shared.b32", _PLAIN),
    ),
    _one(
        "matrix_is_refilled_after_the_product",
        "T9",
        _SHARED,
        (
            lead(
                _ws()
                + commit("%bar+8")
                + "<op>"
                + expect(256)
                + bulk_load("%y")
                + wait()
            ),
            _OVER,
        ),
        _OVER,
        "",
        smem(_PLAIN, _IN, "T4"),
    ),
    _one(
        "columns_stored_by_another_warp",
        "T7",
        _OTHERS,
        (
            TMEM_STORE + "<op>" + BEFORE + _BAR + WAIT_STORE,
            _BAR + AFTER + lead(_ws() + _END),
        ),
        WAIT_STORE,
        "",
        tmem(_ST, _PLAIN, "T5"),
    ),
)
