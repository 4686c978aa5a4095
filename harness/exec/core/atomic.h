/* Read-modify-write arithmetic, for atomics and asynchronous reductions. */
#ifndef SIDESTREAM_ATOMIC_H
#define SIDESTREAM_ATOMIC_H

#include "core.h"

/* The orders of exec/lower/atomic.py. */
enum AtomicOp { AT_ADD, AT_MIN, AT_MAX, AT_INC, AT_DEC, AT_AND, AT_OR, AT_XOR, AT_EXCH,
                AT_CAS };
enum AtomicType { TY_B16, TY_B32, TY_B64, TY_B128, TY_S32, TY_S64, TY_F32, TY_F64,
                  TY_F16, TY_BF16, TY_F16X2, TY_BF16X2 };

/* New value of a cell of 4 bytes, or of 8 if `wide`. */
u64 atomic_word(u32 op, u32 type, int wide, u64 old, u64 b);

#endif
