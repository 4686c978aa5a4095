/* Packed integers and dot products (PTX ISA, Integer Arithmetic Instructions: add, sub,
 * neg, min, max of u16x2, s16x2, u8x4 and s8x4; dp4a, dp2a).
 */
#include "lanes.h"

/* x[0]: bits of a part, x[1]: 1 if signed, x[2]: 1 to clamp (.sat), 2 for .relu */
enum { CLAMP = 1, RELU = 2 };

static inline s32 part(u32 v, u32 at, u32 bits, u32 sign) {
  u32 up = v << (32 - bits - at);
  return sign ? (s32)up >> (32 - bits) : (s32)(up >> (32 - bits));
}
static inline s32 limit(s32 v, u32 bits, u32 sign) {
  s32 hi = sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, lo = sign ? -hi - 1 : 0;
  return v > hi ? hi : v < lo ? lo : v;
}

#define PARTS(name, expr)                                               \
  static int name(Warp *w, const Insn *i, u32 m) {                      \
    const u32 *a = R32(i->a), *b = R32(i->b);                           \
    u32 bits = (u32)i->x[0], sign = (u32)i->x[1], how = (u32)i->x[2];   \
    u32 v[LANES];                                                       \
    for (int l = 0; l < LANES; l++) {                                   \
      u32 r = 0;                                                        \
      for (u32 at = 0; at < 32; at += bits) {                           \
        s32 x = part(a[l], at, bits, sign), y = part(b[l], at, bits, sign); \
        s32 t = expr;                                                   \
        if (how & CLAMP) t = limit(t, bits, sign);                      \
        if (how & RELU) t = t < 0 ? 0 : t;                              \
        r |= ((u32)t & ((1u << bits) - 1)) << at;                       \
      }                                                                 \
      v[l] = r;                                                         \
    }                                                                   \
    put32(R32(i->d), v, m);                                             \
    return STEP_NEXT;                                                   \
  }
PARTS(add_parts, x + y)
PARTS(sub_parts, x - y)
PARTS(min_parts, x < y ? x : y)
PARTS(max_parts, x > y ? x : y)

/* x[0], x[1]: 1 if the parts of a, of b are signed */
static inline u32 dot4(u32 a, u32 b, u32 c, u32 sa, u32 sb) {
  for (u32 at = 0; at < 32; at += 8)
    c += (u32)(part(a, at, 8, sa) * part(b, at, 8, sb));
  return c;
}
/* x[2]: first bit of the bytes of b */
static inline u32 dot2(u32 a, u32 b, u32 c, u32 sa, u32 sb, u32 from) {
  for (u32 k = 0; k < 2; k++)
    c += (u32)(part(a, 16 * k, 16, sa) * part(b, from + 8 * k, 8, sb));
  return c;
}
TRI(dp4a, u32, u32, u32, R32, R32, R32,
    dot4(a[l], b[l], c[l], (u32)i->x[0], (u32)i->x[1]))
TRI(dp2a, u32, u32, u32, R32, R32, R32,
    dot2(a[l], b[l], c[l], (u32)i->x[0], (u32)i->x[1], (u32)i->x[2]))

const OpEntry ops_packed[] = {
    {"add.parts", add_parts}, {"sub.parts", sub_parts}, {"min.parts", min_parts},
    {"max.parts", max_parts}, {"dp4a", dp4a}, {"dp2a", dp2a}, {0, 0},
};
