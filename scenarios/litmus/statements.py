"""Statements that litmus tests share: waits, copies, products."""

from __future__ import annotations

import itertools

_numbers = itertools.count()


def wait(parity: int = 0, bar: str = "%bar", sem: str = "") -> str:
    """Wait for a phase of one of the CTA's own mbarriers; `sem` as `.relaxed.cta`."""
    label = f"$WAIT{next(_numbers)}"
    return (
        f"{label}: mbarrier.try_wait.parity{sem}.shared::cta.b64 %p0, [{bar}], "
        f"{parity};\n@!%p0 bra {label};\n"
    )


def lead(statements: str) -> str:
    """Statements of lane 0 alone."""
    label = f"$LEAD{next(_numbers)}"
    return f"@!%one bra {label};\n{statements}\n{label}: bar.warp.sync 0xffffffff;\n"


def until(load: str, value: int = 1) -> str:
    """Repeat a load into `%r1` until it gives `value`."""
    label = f"$UNTIL{next(_numbers)}"
    return f"{label}: {load}\nsetp.ne.u32 %p1, %r1, {value};\n@%p1 bra {label};\n"


ARRIVE = "mbarrier.arrive.shared.b64 _, [%bar];\n"


def expect(size: int, bar: str = "%bar") -> str:
    """Arrive and expect bytes."""
    return f"mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], {size};\n"


def bulk_load(to: str = "%x", size: int = 256, bar: str = "%bar") -> str:
    """Copy from global memory, completing at an mbarrier."""
    return (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
        f"[{to}], [%g], {size}, [{bar}];\n"
    )


def bulk_store(source: str = "%x", size: int = 256, to: str = "%g") -> str:
    """Copy to global memory, completing in a bulk group."""
    return f"cp.async.bulk.global.shared::cta.bulk_group [{to}], [{source}], {size};\n"


def mma(to: str = "%tm", a: str = "%ad", b: str = "%bd") -> str:
    """A product into 16 columns of all lanes, instead of what is there."""
    return (
        "setp.ne.u32 %p2, %lane, %lane;\n"
        f"tcgen05.mma.cta_group::1.kind::f16 [{to}], {a}, {b}, %idesc, %p2;\n"
    )


def commit(bar: str = "%bar") -> str:
    """An arrival once what this thread gave to the tensor core is complete."""
    return (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
        f"[{bar}];\n"
    )


TMEM_LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%tq];\n"
TMEM_STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%tq], {%r2};\n"
WAIT_LOAD = "tcgen05.wait::ld.sync.aligned;\n"
WAIT_STORE = "tcgen05.wait::st.sync.aligned;\n"
BEFORE = "tcgen05.fence::before_thread_sync;\n"
AFTER = "tcgen05.fence::after_thread_sync;\n"
