"""The binary interface to the execution core: numpy and ctypes mirrors of `core.h`."""

from __future__ import annotations

import ctypes

import numpy as np

NOREF = -(2**31)
"""Operand reference that stands for `no operand`."""

INSN_DTYPE = np.dtype(
    {
        "names": [
            *("fn", "op", "guard", "guard_neg", "d", "a", "b", "c", "x"),
            *("ext", "n_ext", "pad", "imm"),
        ],
        "formats": [
            *("u8", "u4", "i4", "u4", "i4", "i4", "i4", "i4", ("i4", (4,))),
            *("i4", "i4", "i4", "i8"),
        ],
        "offsets": [0, 8, 12, 16, 20, 24, 28, 32, 36, 52, 56, 60, 64],
        "itemsize": 72,
    }
)
"""One bytecode instruction (`struct Insn`)."""

ALLOC_DTYPE = np.dtype(
    [
        ("va", "u8"),
        ("size", "u8"),
        ("host", "u8"),
        ("init", "u8"),
        ("id", "u4"),
        ("flags", "u4"),
    ]
)
"""One global-memory allocation (`struct Alloc`), sorted by `va`.

`host` is the address of the bytes (0 once freed), `init` the address of one byte per
byte that tells whether it was written, or 0 when all of it counts as written.
"""

ALLOC_READ, ALLOC_WRITE, ALLOC_FREED = 1, 2, 4

FAULT_DTYPE = np.dtype(
    [
        ("kind", "u4"),
        ("pc", "u4"),
        ("cta", "u4", (3,)),
        ("warp", "u4"),
        ("lane", "u4"),
        ("alloc", "u4"),
        ("engine", "u4"),
        ("pad", "u4"),
        ("addr", "u8"),
        ("size", "u8"),
        ("info", "u8"),
        ("count", "u8"),
    ]
)
"""One folded defect (`struct Fault`)."""

BLOCKED_DTYPE = np.dtype(
    [
        ("cta", "u4", (3,)),
        ("warp", "u4"),
        ("pc", "u4"),
        ("mask", "u4"),
        ("kind", "u4"),
        ("pad", "u4"),
        ("addr", "u8"),
        ("info", "u8"),
        ("word", "u8"),
    ]
)
"""One warp that has not exited, and what it waits for (`struct Blocked`)."""

LEDGER_DTYPE = np.dtype(
    [
        ("cta", "u4", (3,)),
        ("by", "u4", (3,)),
        *((name, "u4") for name in ("at", "pc", "warp", "op")),
        *((name, "u4") for name in ("last", "phases", "phase", "pad")),
        ("amount", "u8"),
        ("before", "u8"),
    ]
)
"""One instruction of one warp at one mbarrier (`struct LedgerLine` of `ledger.h`)."""

MBAR_ARRIVE, MBAR_DROP, MBAR_COMPLETE_TX = 2, 3, 5
MBAR_TESTS = (6, 7)
"""Of `enum MbarOp` of `mbarrier.h`."""

FAULT_KINDS = (
    "",
    "oob-read",
    "oob-write",
    "misaligned",
    "freed",
    "readonly",
    "uninit",
    "smem-oob",
    "smem-misaligned",
    "local-oob",
    "param-oob",
    "mbarrier",
    "named-barrier",
    "tensormap",
    "bulk",
    "setmaxnreg",
    "trap",
    "illegal",
    "tmem-alloc",
    "tmem",
    "tcgen05",
    "cluster",
    "clc",
    "tmem-uninit",
)
"""Names of `enum FaultKind`, by number."""

STATUSES = (
    "running",
    "done",
    "steps",
    "budget",
    "deadlock",
    "unsupported",
    "trap",
    "divergent-sync",
    "internal",
)
"""Names of `enum Status`, by number."""

BLOCK_KINDS = (
    "",
    "mbarrier",
    "barrier",
    "warp-sync",
    "async-group",
    "cluster-barrier",
    "setmaxnreg",
    "other",
    "tmem-alloc",
    "tcgen05",
    "grid",
)
"""Names of `enum BlockKind`, by number."""


class CostUnit(ctypes.Structure):
    """`struct CostUnit` of `cost.h`."""

    _fields_ = [(n, ctypes.c_uint32) for n in ("rate", "latency")]


class CostTable(ctypes.Structure):
    """`struct CostTable` of `cost.h`."""

    _fields_ = [("rows", ctypes.c_void_p), ("unit", CostUnit * 7)]


POLICIES = ("random", "pct", "given")
"""Names of `enum Policy` of `schedule.h`, by number."""

CHOICE_PAIR = np.uint32
"""Two of them are a decision that was not the usual one (`struct Choice`)."""


class Config(ctypes.Structure):
    """`struct Config` of `machine.c`."""

    _fields_ = [
        *((n, ctypes.c_void_p) for n in ("code", "ext", "consts", "params", "allocs")),
        ("seed", ctypes.c_uint64),
        ("budget", ctypes.c_uint64),
        *(
            (n, ctypes.c_uint32)
            for n in ("n_code", "n_ext", "n_consts", "n_params", "n_allocs")
        ),
        *((n, ctypes.c_uint32) for n in ("rf_bytes", "smem_size", "local_bytes")),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        *(
            (n, ctypes.c_uint32)
            for n in (
                *("n_sms", "ctas_per_sm", "quantum"),
                *("smem_fill", "reg_fill", "tmem_fill"),
                *("arch", "regs_per_thread", "tensor_memory"),
                *("tmem_check", "isa_order"),
            )
        ),
        ("policy", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("horizon", ctypes.c_uint64),
        ("choices", ctypes.c_void_p),
        ("n_choices", ctypes.c_uint64),
        ("observer", ctypes.c_void_p),
    ]


class Stats(ctypes.Structure):
    """`struct Stats` of `machine.c`."""

    _fields_ = [
        *(
            (n, ctypes.c_uint64)
            for n in (
                "executed",
                "mma_flops",
                "tma_bytes",
                "dropped_faults",
                "unfinished",
            )
        ),
        *(
            (n, ctypes.c_uint32)
            for n in ("status", "stop_pc", "n_faults", "live_warps")
        ),
    ]
