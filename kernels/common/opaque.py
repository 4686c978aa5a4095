"""A value that the compiler must not see through."""

from typing import Any

from cutlass import Int32
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import T, dsl_user_op


@dsl_user_op
def opaque(value: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """`value`, computed anew wherever this is called.

    What depends only on the lane is the same in every turn of a loop, so the compiler
    computes it once before the loop; dozens of addresses then wait in registers for
    their turn, and are spilled. Addresses derived from an opaque value stay where they
    are used.
    """
    return Int32(
        llvm.inline_asm(
            T.i32(),
            [Int32(value).ir_value(loc=loc, ip=ip)],
            "mov.b32 $0, $1;",
            "=r,r",
            has_side_effects=True,
            is_align_stack=False,
            asm_dialect=llvm.AsmDialect.AD_ATT,
            loc=loc,
            ip=ip,
        )
    )
