"""Classes of PTX instructions, as a kernel's author counts them."""

from __future__ import annotations

import functools

from sidestream.harness.exec.registers import MOVES
from sidestream.harness.ptx import ir

MOVE = "move"
"""Instructions that no chip executes: the assembler renames registers."""
SPECIAL = "special"
"""What the special function unit executes."""
MMA, TMEM_LOAD, TMEM_STORE = "mma", "tmem load", "tmem store"
BULK_LOAD, BULK_STORE, CP_ASYNC = "bulk load", "bulk store", "cp.async"
GLOBAL_LOAD, GLOBAL_STORE = "global load", "global store"
LAUNCH_CONTROL = "launch control"

_SPECIAL = frozenset({"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"})
_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_ARITHMETIC = frozenset(
    {
        *("add", "sub", "mul", "fma", "mad", "max", "min", "max3", "min3"),
        *("neg", "abs", "div", "copysign"),
    }
)
_BULK = (
    *("cp.async.bulk", "cp.async.bulk.tensor"),
    *("cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor"),
)
# The first that the opcode begins with, at a word's end, gives the class.
_FAMILIES = (
    ("tcgen05.mma", MMA),
    ("tcgen05.cp", MMA),
    ("tcgen05.shift", MMA),
    ("mma", MMA),
    ("wgmma", MMA),
    ("tcgen05.ld", TMEM_LOAD),
    ("tcgen05.st", TMEM_STORE),
    ("tcgen05.commit", "commit"),
    ("tcgen05", "tmem sync"),
    ("mbarrier.try_wait", "mbarrier wait"),
    ("mbarrier.test_wait", "mbarrier wait"),
    ("mbarrier", "mbarrier"),
    ("barrier.cluster", "cluster barrier"),
    ("bar.warp", "warp"),
    ("barrier", "barrier"),
    ("cp.async.bulk", "bulk group"),
    ("cp.async", CP_ASYNC),
    ("st.async", "remote"),
    ("red.async", "remote"),
    ("clusterlaunchcontrol", LAUNCH_CONTROL),
    ("fence", "fence"),
    ("ldmatrix", "shared load"),
    ("stmatrix", "shared store"),
    ("shfl", "warp"),
    ("vote", "warp"),
    ("match", "warp"),
    ("elect", "warp"),
    ("redux", "warp"),
    ("activemask", "warp"),
    ("setp", "compare"),
    ("selp", "select"),
    ("slct", "select"),
    ("cvta", "integer"),
    ("cvt", "convert"),
    ("bra", "control"),
    ("brx", "control"),
    ("ret", "control"),
    ("exit", "control"),
)


def class_of(ins: ir.Instruction) -> str:
    """Name the class of an instruction."""
    mods = ins.mods
    if ins.op in _BULK:
        return BULK_STORE if mods["dst"] == "global" else BULK_LOAD
    return _class(ins.op, mods.get("type"), mods.get("space"))


@functools.cache
def _class(op: str, kind: str | None, space: str | None) -> str:
    if op in MOVES:
        return MOVE
    if op in _SPECIAL:
        return SPECIAL
    if op in ("ld", "ldu", "st", "atom", "red"):
        where = (space or "generic").partition("::")[0]
        if where in ("param", "const"):
            return "parameter"
        return f"{where} {'load' if op.startswith('ld') else 'store'}"
    for family, name in _FAMILIES:
        if op == family or op.startswith((f"{family}.", f"{family}:")):
            return name
    if op in _ARITHMETIC and kind in _FLOATS:
        return "float"
    return "integer"
