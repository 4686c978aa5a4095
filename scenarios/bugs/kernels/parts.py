"""Statements that the rebuilt kernels share, beside those of the litmus tests."""

from __future__ import annotations

import itertools

from sidestream.scenarios.litmus.statements import lead

_numbers = itertools.count()

LOADED = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
STORED = "cp.async.bulk.global.shared::cta.bulk_group"
TRY = "mbarrier.try_wait.parity.shared::cta.b64"
MMA = "tcgen05.mma.cta_group::1.kind::f16"
PROXY = "fence.proxy.async.shared::cta;\n"
SENT = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
"""The source of the bulk stores of this thread may be overwritten."""


def arrive(bar: str) -> str:
    """One arrival for the whole warp, after all its lanes have come."""
    return f"bar.warp.sync -1;\n@%one mbarrier.arrive.shared.b64 _, [{bar}];\n"


def wait_lap(register: str, bar: str = "%bar") -> str:
    """Wait for the phase whose parity a register holds."""
    label = f"$LAP{next(_numbers)}"
    return f"{label}: {TRY} %p0, [{bar}], {register};\n@!%p0 bra {label};\n"


def only_if(register: str, statements: str) -> str:
    """Statements that the warp executes if a uniform register is not 0."""
    label = f"$SKIP{next(_numbers)}"
    return f"setp.eq.u32 %p3, {register}, 0;\n@%p3 bra {label};\n{statements}{label}:\n"


def fill_operands() -> str:
    """Zero the operands of `product` by one warp; the tensor core may read them."""
    stores = "".join(
        f"st.shared.v4.b32 [%r15+{512 * k}], {{0, 0, 0, 0}};\n" for k in range(9)
    )
    return f"mad.lo.u32 %r15, %lane, 16, %x;\n{stores}{PROXY}bar.warp.sync -1;\n"


def product(to: str, bar: str) -> str:
    """A product into 16 columns, committed to an mbarrier."""
    return lead(
        "setp.ne.u32 %p2, %lane, %lane;\n"
        f"{MMA} [{to}], %ad, %bd, %idesc, %p2;\n"
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
        f"[{bar}];\n"
    )


def tensor_load(columns: int) -> str:
    """Issue the load of `columns` columns at `%r15` into `%r0` onwards, no wait."""
    registers = ", ".join(f"%r{k}" for k in range(columns))
    return f"{tensor_load_name(columns)} {{{registers}}}, [%r15];\n"


def tensor_load_name(columns: int) -> str:
    """The load as findings spell it."""
    return f"tcgen05.ld.sync.aligned.32x32b.x{columns}.b32"
