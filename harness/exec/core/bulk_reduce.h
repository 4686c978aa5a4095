/* Element-wise reductions of bulk copies into memory. */
#ifndef SIDESTREAM_BULK_REDUCE_H
#define SIDESTREAM_BULK_REDUCE_H

#include "core.h"

/* The order is that of exec/lower/bulk.py. */
enum RedOp { RED_NONE = 0, RED_ADD, RED_MIN, RED_MAX, RED_INC, RED_DEC, RED_AND, RED_OR, RED_XOR };
enum RedType {
  RED_U32 = 0, RED_S32, RED_U64, RED_S64, RED_F16, RED_BF16, RED_F32, RED_F64, RED_B32,
  RED_B64,
  RED_F32_FTZ, /* subnormals become zero: maps of type f32.ftz */
  RED_TYPES
};

/* Bytes of an element, or 0 if PTX has no such reduction. */
u32 reduce_bytes(u32 op, u32 type);
/* to[k] = op(to[k], from[k]) for `bytes` bytes of whole elements; neither need be
 * aligned on the host. */
void reduce_elements(u32 op, u32 type, u8 *to, const u8 *from, u64 bytes);

#endif
