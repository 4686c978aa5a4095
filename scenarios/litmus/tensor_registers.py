"""Registers that `tcgen05.ld` gives: whose read ends the load, by practice.

The scoreboard of the chip holds an instruction back until the registers that it reads
have arrived. The PTX ISA promises that of their values alone; that the memory has been
read by then is a relaxation.
"""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    ARRIVE,
    BEFORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT_LOAD,
    WAIT_STORE,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, tmem

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_REGISTERS = f"{_MODEL}: Register dependencies, same thread"
_USE = "add.u32 %r3, %r2, 1;\n"
_FRESH = TMEM_STORE.replace("%r2", "%r5")
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_SPLIT_LD = "tcgen05.ld.sync.aligned.16x32bx2.x1.b32"
_BAR = "bar.sync 1, 64;\n"
_RELAXED = "mbarrier.arrive.relaxed.cta.shared.b64 _, [%bar];\n"
_TOLD = BEFORE + ARRIVE
_COPY = "mov.b32 %r6, %r2;\n"
_PACK = "mov.b64 %rd0, {%r2, %r7};\n"
_UNPACK = "mov.b64 {%r8, %r9}, %rd0;\n"


def _two(first: str, second: str) -> tuple[str, ...]:
    """Warps 0 and 4, which see the same lanes of tensor memory."""
    return (first, "", "", "", second)


_REUSE = wait() + AFTER + TMEM_STORE + WAIT_STORE


TWINS = (
    Twin(
        name="registers_are_used_before_the_memory_is",
        rule="T8",
        title=_REGISTERS,
        warps=(TMEM_LOAD + "<op>" + _FRESH + WAIT_STORE + WAIT_LOAD,),
        tensor=32,
        op=_USE,
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="writing_a_register_is_no_use_of_it",
        rule="T8",
        title=_REGISTERS,
        warps=(TMEM_LOAD + "<op>" + _FRESH + WAIT_STORE + WAIT_LOAD,),
        tensor=32,
        op=_USE,
        broken="mov.u32 %r2, 1;\n",
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="registers_of_the_last_load_are_used",
        rule="T8",
        title=_REGISTERS,
        warps=(
            TMEM_LOAD + "<op>" + TMEM_LOAD + _USE + _FRESH + WAIT_STORE + WAIT_LOAD,
        ),
        tensor=32,
        op=_USE,
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="a_load_of_a_loop_is_used_each_time",
        rule="T8",
        title=_REGISTERS,
        warps=(
            "mov.u32 %r4, 0;\n$LOOP:\n"
            + TMEM_LOAD
            + "<op>add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, 2;\n@%p0 bra $LOOP;\n"
            + _USE
            + _FRESH
            + WAIT_STORE
            + WAIT_LOAD,
        ),
        tensor=32,
        op=_USE,
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="one_register_stands_for_both_places_of_a_load",
        rule="T8",
        title=_REGISTERS,
        warps=(
            f"{_SPLIT_LD} {{%r2}}, [%tq], 8;\n<op>" + _FRESH + WAIT_STORE + WAIT_LOAD,
        ),
        tensor=32,
        op=_USE,
        found=tmem(_SPLIT_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="registers_are_used_before_the_hand_over",
        rule="T8",
        title=_REGISTERS,
        warps=_two(
            TMEM_LOAD + "<op>" + WAIT_LOAD, _BAR + AFTER + TMEM_STORE + WAIT_STORE
        ),
        tensor=32,
        op=_USE + BEFORE + _BAR,
        broken=BEFORE + _BAR + _USE,
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="registers_are_used_before_a_relaxed_arrival",
        rule="T8",
        title=_REGISTERS,
        warps=_two(
            TMEM_LOAD + "<op>" + WAIT_LOAD, wait() + AFTER + TMEM_STORE + WAIT_STORE
        ),
        bars=(32,),
        tensor=32,
        op=_USE + BEFORE + _RELAXED,
        broken=BEFORE + _RELAXED + _USE,
        found=tmem(_LD, _ST),
        clean_in=("practice",),
    ),
    Twin(
        name="packed_registers_are_waited_for_before_the_hand_over",
        rule="T8",
        title=_REGISTERS,
        warps=_two(TMEM_LOAD + _PACK + "<op>" + _TOLD + WAIT_LOAD, _REUSE),
        bars=(32,),
        tensor=32,
        op=WAIT_LOAD,
        found=tmem(_LD, _ST, "T5"),
    ),
    Twin(
        name="packed_registers_are_used_before_the_hand_over",
        rule="T8",
        title=_REGISTERS,
        warps=_two(TMEM_LOAD + _PACK + _UNPACK + "<op>" + WAIT_LOAD, _REUSE),
        bars=(32,),
        tensor=32,
        op="add.u32 %r3, %r8, 1;\n" + _TOLD,
        broken=_TOLD + "add.u32 %r3, %r8, 1;\n",
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="other_half_of_a_packed_register_is_used",
        rule="T8",
        title=_REGISTERS,
        warps=_two(
            TMEM_LOAD + _PACK + _UNPACK + "add.u32 %r3, <op>, 1;\n" + _TOLD + WAIT_LOAD,
            _REUSE,
        ),
        bars=(32,),
        tensor=32,
        op="%r8",
        broken="%r9",
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="copy_of_a_register_is_used_before_the_hand_over",
        rule="T8",
        title=_REGISTERS,
        warps=_two(TMEM_LOAD + _COPY + "<op>" + WAIT_LOAD, _REUSE),
        bars=(32,),
        tensor=32,
        op="add.u32 %r3, %r6, 1;\n" + _TOLD,
        broken=_TOLD + "add.u32 %r3, %r6, 1;\n",
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
    Twin(
        name="copy_is_used_though_its_source_is_written",
        rule="T8",
        title=_REGISTERS,
        warps=_two(
            TMEM_LOAD
            + _COPY
            + "mov.u32 %r2, 1;\nadd.u32 %r3, <op>, 1;\n"
            + _TOLD
            + WAIT_LOAD,
            _REUSE,
        ),
        bars=(32,),
        tensor=32,
        op="%r6",
        broken="%r2",
        found=tmem(_LD, _ST, "T5"),
        clean_in=("practice",),
    ),
)
