/* Reductions of bulk copies (PTX ISA, "cp.reduce.async.bulk",
 * "cp.reduce.async.bulk.tensor": tables of operations and element types). */
#include "bulk_reduce.h"

#include "fbits.h"

u32 reduce_bytes(u32 op, u32 type) {
  static const u8 bytes[] = {4, 4, 8, 8, 2, 2, 4, 8, 4, 8, 4};
  u32 ok;
  switch (op) {
    case RED_ADD: ok = type != RED_S64 && type != RED_B32 && type != RED_B64; break;
    case RED_MIN: case RED_MAX: ok = type <= RED_BF16; break;
    case RED_INC: case RED_DEC: ok = type == RED_U32; break;
    case RED_AND: case RED_OR: case RED_XOR: ok = type == RED_B32 || type == RED_B64; break;
    default: ok = 0;
  }
  return ok && type < RED_TYPES ? bytes[type] : 0;
}

#define EACH(T, expr)                                  \
  for (u64 at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) { \
    T a, b, r;                                         \
    memcpy(&a, to + at, sizeof(T));                    \
    memcpy(&b, from + at, sizeof(T));                  \
    r = (T)(expr);                                     \
    memcpy(to + at, &r, sizeof(T));                    \
  }                                                    \
  return

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* min and max of two 16-bit floats, as the min and max instructions: a number wins
 * over NaN, two NaNs give the canonical one, -0 is less than +0. */
static u16 pick16(u16 a, u16 b, f32 x, f32 y, int largest) {
  if (x != x) return y != y ? 0x7fff : b;
  if (y != y) return a;
  if (x == y) return largest ? (u16)(a & b) : (u16)(a | b); /* differ in sign of 0 */
  return (x < y) == !largest ? a : b;
}

static void add(u32 type, u8 *to, const u8 *from, u64 bytes) {
  switch (type) {
    case RED_U32: case RED_S32: EACH(u32, a + b);
    case RED_U64: EACH(u64, a + b);
    case RED_F16: EACH(u16, f32_f16(f16_f32(a) + f16_f32(b)));
    case RED_BF16: EACH(u16, f32_bf16(bf16_f32(a) + bf16_f32(b)));
    /* PTX says that .add.f32 flushes subnormals; an H200 does so for .f32.ftz only */
    case RED_F32: EACH(f32, canonical(a + b));
    case RED_F32_FTZ: EACH(f32, canonical(ftz(ftz(a) + ftz(b))));
    case RED_F64: EACH(f64, a + b);
    default: return;
  }
}

static void extreme(u32 type, int largest, u8 *to, const u8 *from, u64 bytes) {
  switch (type) {
    case RED_U32: EACH(u32, largest ? LARGER(a, b) : SMALLER(a, b));
    case RED_S32: EACH(s32, largest ? LARGER(a, b) : SMALLER(a, b));
    case RED_U64: EACH(u64, largest ? LARGER(a, b) : SMALLER(a, b));
    case RED_S64: EACH(s64, largest ? LARGER(a, b) : SMALLER(a, b));
    case RED_F16: EACH(u16, pick16(a, b, f16_f32(a), f16_f32(b), largest));
    case RED_BF16: EACH(u16, pick16(a, b, bf16_f32(a), bf16_f32(b), largest));
    default: return;
  }
}

void reduce_elements(u32 op, u32 type, u8 *to, const u8 *from, u64 bytes) {
  int wide = type == RED_B64;
  switch (op) {
    case RED_ADD: add(type, to, from, bytes); return;
    case RED_MIN: extreme(type, 0, to, from, bytes); return;
    case RED_MAX: extreme(type, 1, to, from, bytes); return;
    case RED_INC: EACH(u32, a >= b ? 0 : a + 1);
    case RED_DEC: EACH(u32, a == 0 || a > b ? b : a - 1);
    case RED_AND: if (wide) { EACH(u64, a & b); } else { EACH(u32, a & b); }
    case RED_OR: if (wide) { EACH(u64, a | b); } else { EACH(u32, a | b); }
    case RED_XOR: if (wide) { EACH(u64, a ^ b); } else { EACH(u32, a ^ b); }
    default: return;
  }
}
