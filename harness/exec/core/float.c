/* Single- and double-precision arithmetic, round to nearest even (PTX ISA,
 * Floating-Point Instructions). Directed rounding is in round.c.
 * x[0] holds the F_ flags. */
#include <math.h>

#include "fbits.h"
#include "lanes.h"

/* One loop for the common case and one for the modifiers. */
#define F32_2(name, expr)                                                  \
  static int name(Warp *w, const Insn *i, u32 m) {                         \
    const f32 *pa = RF32(i->a), *pb = RF32(i->b);                          \
    f32 *d = RF32(i->d);                                                   \
    u32 flags = (u32)i->x[0];                                              \
    if (!flags) {                                                          \
      const f32 *A = pa, *B = pb;                                          \
      LANE_LOOP(f32, d, canonical(({ f32 a = A[l], b = B[l]; expr; })));    \
    }                                                                      \
    f32 v[LANES];                                                          \
    for (int l = 0; l < LANES; l++) {                                      \
      f32 a = pa[l], b = pb[l];                                            \
      if (flags & F_FTZ) a = ftz(a), b = ftz(b);                           \
      f32 r = canonical(expr);                                             \
      if (flags & F_FTZ) r = ftz(r);                                       \
      if (flags & F_SAT) r = sat(r);                                       \
      v[l] = r;                                                            \
    }                                                                      \
    LANE_LOOP(f32, d, v[l]);                                               \
  }
F32_2(add_f32, a + b)
F32_2(sub_f32, a - b)
F32_2(mul_f32, a *b)
F32_2(div_f32, a / b)

static int fma_f32(Warp *w, const Insn *i, u32 m) {
  const f32 *a = RF32(i->a), *b = RF32(i->b), *c = RF32(i->c);
  f32 *d = RF32(i->d);
  u32 flags = (u32)i->x[0];
  if (!flags) LANE_LOOP(f32, d, canonical(__builtin_fmaf(a[l], b[l], c[l])));
  f32 v[LANES];
  for (int l = 0; l < LANES; l++) {
    f32 x = a[l], y = b[l], z = c[l];
    if (flags & F_FTZ) x = ftz(x), y = ftz(y), z = ftz(z);
    f32 r = canonical(__builtin_fmaf(x, y, z));
    if (flags & F_FTZ) r = ftz(r);
    if (flags & F_SAT) r = sat(r);
    if (flags & F_RELU) r = r > 0.0f ? r : r == r ? 0.0f : r;
    v[l] = r;
  }
  LANE_LOOP(f32, d, v[l]);
}

BIN(add_f64, f64, f64, RF64, RF64, a[l] + b[l])
BIN(sub_f64, f64, f64, RF64, RF64, a[l] - b[l])
BIN(mul_f64, f64, f64, RF64, RF64, a[l] * b[l])
BIN(div_f64, f64, f64, RF64, RF64, a[l] / b[l])
TRI(fma_f64, f64, f64, f64, RF64, RF64, RF64, __builtin_fma(a[l], b[l], c[l]))
UN(rcp_f64, f64, f64, RF64, RF64, 1.0 / a[l])
UN(sqrt_f64, f64, f64, RF64, RF64, sqrt(a[l]))
UN(neg_f64, u64, u64, R64, R64, a[l] ^ 1ull << 63)
UN(abs_f64, u64, u64, R64, R64, a[l] & ~(1ull << 63))

/* min and max: a NaN loses unless .NaN asks for it; -0 is less than +0. */
static inline f32 min1(f32 a, f32 b) {
  f32 r = a < b ? a : b < a ? b : bits_f32(f32_bits(a) | f32_bits(b));
  return a != a ? b : b != b ? a : r;
}
static inline f32 max1(f32 a, f32 b) {
  f32 r = a > b ? a : b > a ? b : bits_f32(f32_bits(a) & f32_bits(b));
  return a != a ? b : b != b ? a : r;
}
#define MINMAX(name, one)                                                   \
  static int name(Warp *w, const Insn *i, u32 m) {                          \
    const f32 *a = RF32(i->a), *b = RF32(i->b);                             \
    f32 *d = RF32(i->d);                                                    \
    u32 flags = (u32)i->x[0];                                               \
    const f32 *c = flags & 256 ? RF32(i->c) : NULL;                         \
    if (!flags) LANE_LOOP(f32, d, canonical(one(a[l], b[l])));              \
    f32 v[LANES];                                                           \
    for (int l = 0; l < LANES; l++) {                                       \
      f32 x = a[l], y = b[l], z = c ? c[l] : y;                             \
      u32 sign = (f32_bits(x) ^ f32_bits(y)) & 0x80000000u;                 \
      if (c) sign ^= f32_bits(z) & 0x80000000u;                             \
      if (flags & F_XORSIGN) {                                              \
        x = fabsf(x), y = fabsf(y), z = fabsf(z);                           \
      }                                                                     \
      if (flags & F_FTZ) x = ftz(x), y = ftz(y), z = ftz(z);                \
      f32 r = one(x, y);                                                    \
      int nan = x != x || y != y;                                           \
      if (c) r = one(r, z), nan |= z != z;                                  \
      if ((flags & F_NAN) && nan) r = bits_f32(CANONICAL_F32);              \
      r = canonical(r);                                                     \
      if ((flags & F_XORSIGN) && r == r)                                    \
        r = bits_f32((f32_bits(r) & 0x7fffffffu) | sign);                   \
      v[l] = r;                                                             \
    }                                                                       \
    LANE_LOOP(f32, d, v[l]);                                                \
  }
MINMAX(min_f32, min1)
MINMAX(max_f32, max1)
static inline f64 min2(f64 a, f64 b) {
  f64 r = a < b ? a : b < a ? b : bits_f64(f64_bits(a) | f64_bits(b));
  return a != a ? b : b != b ? a : r;
}
static inline f64 max2(f64 a, f64 b) {
  f64 r = a > b ? a : b > a ? b : bits_f64(f64_bits(a) & f64_bits(b));
  return a != a ? b : b != b ? a : r;
}
BIN(min_f64, f64, f64, RF64, RF64, min2(a[l], b[l]))
BIN(max_f64, f64, f64, RF64, RF64, max2(a[l], b[l]))

/* neg and abs change the sign bit; with .ftz subnormals are flushed. */
static inline u32 maybe_ftz(u32 b, u32 on) {
  return on && !(b & 0x7f800000u) ? b & 0x80000000u : b;
}
UN(neg_f32, u32, u32, R32, R32, maybe_ftz(a[l] ^ 0x80000000u, (u32)i->x[0]))
UN(abs_f32, u32, u32, R32, R32, maybe_ftz(a[l] & 0x7fffffffu, (u32)i->x[0]))
BIN(copysign_f32, u32, u32, R32, R32, (b[l] & 0x7fffffffu) | (a[l] & 0x80000000u))
BIN(copysign_f64, u64, u64, R64, R64, (b[l] & ~(1ull << 63)) | (a[l] & 1ull << 63))

/* testp: x[0] = 0 finite 1 infinite 2 number 3 notanumber 4 normal 5 subnormal */
static int testp_f32(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a);
  u32 bits = 0;
  for (int l = 0; l < LANES; l++) {
    u32 v = a[l] & 0x7fffffffu;
    u32 is[6] = {v < 0x7f800000u, v == 0x7f800000u, v <= 0x7f800000u, v > 0x7f800000u,
                 v >= 0x00800000u && v < 0x7f800000u, v && v < 0x00800000u};
    bits |= is[i->x[0]] << l;
  }
  set_pred(w, i->d, bits, m);
  return STEP_NEXT;
}

const OpEntry ops_float[] = {
    {"add.f32", add_f32}, {"sub.f32", sub_f32}, {"mul.f32", mul_f32},
    {"div.f32", div_f32}, {"fma.f32", fma_f32}, {"add.f64", add_f64},
    {"sub.f64", sub_f64}, {"mul.f64", mul_f64}, {"div.f64", div_f64},
    {"fma.f64", fma_f64}, {"rcp.f64", rcp_f64}, {"sqrt.f64", sqrt_f64},
    {"min.f32", min_f32}, {"max.f32", max_f32}, {"min.f64", min_f64},
    {"max.f64", max_f64}, {"neg.f32", neg_f32}, {"abs.f32", abs_f32},
    {"neg.f64", neg_f64}, {"abs.f64", abs_f64}, {"copysign.f32", copysign_f32},
    {"copysign.f64", copysign_f64}, {"testp.f32", testp_f32}, {0, 0},
};
