"""Statements that tests of clusters share: ranks, barriers, remote addresses."""

from __future__ import annotations

from tensor_case import only_thread

RANK = ".reg .b32 %rank, %to, %there, %n;\nmov.u32 %rank, %cluster_ctarank;\n"
SYNC = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"


def barriers(*counts: int) -> str:
    """Thread 0 of every CTA initialises `bars`, and the cluster learns of it."""
    made = "\n".join(
        f"mbarrier.init.shared.b64 [%bar+{8 * k}], {count};"
        for k, count in enumerate(counts)
    )
    made += "\nfence.mbarrier_init.release.cluster;"
    return only_thread(0, made, "MADE") + SYNC


def expect(number: int, size: int) -> str:
    """One arrival at the CTA's own barrier `number` that expects `size` bytes."""
    return f"mbarrier.arrive.expect_tx.shared.b64 _, [%bar+{8 * number}], {size};\n"


def wait(number: int, parity: int, label: str) -> str:
    """All threads wait for a phase of the CTA's own barrier `number`."""
    return (
        f"{label}: mbarrier.try_wait.parity.shared.b64 %p2, [%bar+{8 * number}], "
        f"{parity};\n@!%p2 bra {label};\n"
    )


def only_rank(rank: int, statements: str, label: str) -> str:
    """Statements for thread 0 of one CTA; nobody waits for it."""
    return (
        f"setp.ne.u32 %p1, %rank, {rank};\nsetp.ne.or.u32 %p1, %t, 0, %p1;\n"
        f"@%p1 bra {label};\n{statements}\n{label}:\n"
    )
