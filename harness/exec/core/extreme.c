/* Minimum, maximum and the sign (PTX ISA, Floating-Point Instructions and Half
 * Precision Floating-Point Instructions: min, max, neg, abs, copysign, testp).
 *
 * A NaN loses unless .NaN asks for it, and -0 is less than +0. Only the two formats of
 * the host compare; halves are compared as the f32 they equal. x[0] = F_ flags.
 */
#include "fbits.h"
#include "lanes.h"

static inline f32 min1(f32 a, f32 b) {
  f32 r = a < b ? a : b < a ? b : bits_f32(f32_bits(a) | f32_bits(b));
  return a != a ? b : b != b ? a : r;
}
static inline f32 max1(f32 a, f32 b) {
  f32 r = a > b ? a : b > a ? b : bits_f32(f32_bits(a) & f32_bits(b));
  return a != a ? b : b != b ? a : r;
}
static inline f64 min64(f64 a, f64 b) {
  f64 r = a < b ? a : b < a ? b : bits_f64(f64_bits(a) | f64_bits(b));
  return a != a ? b : b != b ? a : r;
}
static inline f64 max64(f64 a, f64 b) {
  f64 r = a > b ? a : b > a ? b : bits_f64(f64_bits(a) & f64_bits(b));
  return a != a ? b : b != b ? a : r;
}
BIN(min_f64, f64, f64, RF64, RF64, min64(a[l], b[l]))
BIN(max_f64, f64, f64, RF64, RF64, max64(a[l], b[l]))

/* Two operands with any modifiers, in passes over the row: flushing, magnitudes, the
 * choice, NaN and the sign. `x` becomes the result. */
static void choose(f32 *x, const f32 *with, u32 flags, u32 largest) {
  f32 y[LANES], r[LANES];
  u32 sign[LANES];
  for (int l = 0; l < LANES; l++)
    sign[l] = (f32_bits(x[l]) ^ f32_bits(with[l])) & 0x80000000u;
  u32 keep = flags & (F_ABS | F_XORSIGN) ? 0x7fffffffu : ~0u;
  for (int l = 0; l < LANES; l++) {
    x[l] = bits_f32(f32_bits(x[l]) & keep);
    y[l] = bits_f32(f32_bits(with[l]) & keep);
  }
  if (largest)
    for (int l = 0; l < LANES; l++) r[l] = canonical(max1(x[l], y[l]));
  else
    for (int l = 0; l < LANES; l++) r[l] = canonical(min1(x[l], y[l]));
  if (flags & F_NAN)
    for (int l = 0; l < LANES; l++) r[l] = canonical(y[l] == y[l] ? r[l] : y[l]);
  if (flags & F_NAN)
    for (int l = 0; l < LANES; l++) r[l] = canonical(x[l] == x[l] ? r[l] : x[l]);
  if (flags & F_XORSIGN)
    for (int l = 0; l < LANES; l++)
      r[l] = r[l] == r[l] ? bits_f32(f32_bits(r[l]) | sign[l]) : r[l];
  memcpy(x, r, sizeof r);
}

#define EXTREME(name, one, largest)                                             \
  static int name(Warp *w, const Insn *i, u32 m) {                              \
    const f32 *a = RF32(i->a), *b = RF32(i->b);                                 \
    f32 *d = RF32(i->d);                                                        \
    u32 flags = (u32)i->x[0];                                                   \
    if (!flags) LANE_LOOP(f32, d, canonical(one(a[l], b[l])));                  \
    if (flags == F_FTZ) LANE_LOOP(f32, d, canonical(one(ftz(a[l]), ftz(b[l])))); \
    if (flags == F_THREE) {                                                     \
      const f32 *c = RF32(i->c);                                                \
      LANE_LOOP(f32, d, canonical(one(one(a[l], b[l]), c[l])));                 \
    }                                                                           \
    s32 refs[3] = {i->a, i->b, i->c};                                           \
    f32 in[3][LANES];                                                           \
    int n = flags & F_THREE ? 3 : 2;                                            \
    for (int k = 0; k < n; k++) {                                               \
      memcpy(in[k], R32(refs[k]), sizeof in[k]);                                \
      if (flags & F_FTZ)                                                        \
        for (int l = 0; l < LANES; l++) in[k][l] = ftz(in[k][l]);               \
    }                                                                           \
    for (int k = 1; k < n; k++) choose(in[0], in[k], flags, largest);           \
    put32(R32(i->d), (const u32 *)(const void *)in[0], m);                      \
    return STEP_NEXT;                                                           \
  }
EXTREME(min_f32, min1, 0)
EXTREME(max_f32, max1, 1)

/* Halves. x[1] = 1 for a pair, 0 for one number in the low half. */
static void widen(f32 *d, const u32 *a, u32 shift, u32 flush, u32 brain) {
  u32 h[LANES];
  for (int l = 0; l < LANES; l++) h[l] = a[l] >> shift & 0xffffu;
  if (flush)
    for (int l = 0; l < LANES; l++) h[l] = ftz_f16(h[l]);
  if (brain)
    for (int l = 0; l < LANES; l++) d[l] = bf16_f32(h[l]);
  else
    for (int l = 0; l < LANES; l++) d[l] = f16_f32(h[l]);
}
static int half(Warp *w, const Insn *i, u32 m, u32 largest, u32 brain) {
  u32 v[LANES] = {0}, flags = (u32)i->x[0];
  f32 x[LANES], y[LANES];
  for (u32 shift = 0; shift <= (i->x[1] ? 16u : 0u); shift += 16) {
    widen(x, R32(i->a), shift, flags & F_FTZ, brain);
    widen(y, R32(i->b), shift, flags & F_FTZ, brain);
    choose(x, y, flags, largest);
    if (brain)
      for (int l = 0; l < LANES; l++) v[l] |= f32_bf16(x[l]) << shift;
    else
      for (int l = 0; l < LANES; l++) v[l] |= f32_f16(x[l]) << shift;
  }
  put32(R32(i->d), v, m);
  return STEP_NEXT;
}
#define HALF(name, largest, brain) \
  static int name(Warp *w, const Insn *i, u32 m) { return half(w, i, m, largest, brain); }
HALF(min_f16, 0, 0)
HALF(max_f16, 1, 0)
HALF(min_bf16, 0, 1)
HALF(max_bf16, 1, 1)

/* neg and abs change the sign bit alone, but for NaN, which becomes the canonical one
 * (f64 excepted; as recorded on an H200); with .ftz subnormals become zero. */
static inline u32 flush1(u32 b, s32 on) { return on ? ftz_bits(b) : b; }
static inline u32 flush2(u32 b, s32 on) {
  return on ? ftz_f16(b & 0xffffu) | ftz_f16(b >> 16) << 16 : b;
}
static inline u32 quiet1(u32 b) {
  return (b & 0x7fffffffu) > 0x7f800000u ? CANONICAL_F32 : b;
}
/* x[1] = the format's infinity, 0x7c00 or 0x7f80 */
static inline u32 quiet_half(u32 h, u32 inf) { return (h & 0x7fffu) > inf ? 0x7fffu : h; }
static inline u32 quiet2(u32 b, s32 inf) {
  return quiet_half(b & 0xffffu, (u32)inf) | quiet_half(b >> 16, (u32)inf) << 16;
}
UN(neg_f32, u32, u32, R32, R32, quiet1(flush1(a[l] ^ 0x80000000u, i->x[0])))
UN(abs_f32, u32, u32, R32, R32, quiet1(flush1(a[l] & 0x7fffffffu, i->x[0])))
UN(neg_f64, u64, u64, R64, R64, a[l] ^ 1ull << 63)
UN(abs_f64, u64, u64, R64, R64, a[l] & ~(1ull << 63))
UN(neg_half, u32, u32, R32, R32, quiet2(flush2((a[l] ^ 0x8000u) & 0xffffu, i->x[0]), i->x[1]))
UN(abs_half, u32, u32, R32, R32, quiet2(flush2(a[l] & 0x7fffu, i->x[0]), i->x[1]))
UN(neg_pair, u32, u32, R32, R32, quiet2(flush2(a[l] ^ 0x80008000u, i->x[0]), i->x[1]))
UN(abs_pair, u32, u32, R32, R32, quiet2(flush2(a[l] & 0x7fff7fffu, i->x[0]), i->x[1]))
BIN(copysign_f32, u32, u32, R32, R32, (b[l] & 0x7fffffffu) | (a[l] & 0x80000000u))
BIN(copysign_f64, u64, u64, R64, R64, (b[l] & ~(1ull << 63)) | (a[l] & 1ull << 63))

/* testp: x[0] = 0 finite 1 infinite 2 number 3 notanumber 4 normal 5 subnormal.
 * A zero counts as normal. */
static u32 property(u64 v, u64 least, u64 inf, s32 which) {
  switch (which) {
    case 0: return v < inf;
    case 1: return v == inf;
    case 2: return v <= inf;
    case 3: return v > inf;
    case 4: return (v >= least && v < inf) || !v;
    default: return v && v < least;
  }
}
static int testp_f32(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a);
  u32 bits = 0;
  for (int l = 0; l < LANES; l++)
    bits |= property(a[l] & 0x7fffffffu, 0x00800000u, 0x7f800000u, i->x[0]) << l;
  set_pred(w, i->d, bits, m);
  return STEP_NEXT;
}
static int testp_f64(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a), inf = 0x7ffull << 52;
  u32 bits = 0;
  for (int l = 0; l < LANES; l++)
    bits |= property(a[l] & ~(1ull << 63), 1ull << 52, inf, i->x[0]) << l;
  set_pred(w, i->d, bits, m);
  return STEP_NEXT;
}

const OpEntry ops_extreme[] = {
    {"min.f32", min_f32}, {"max.f32", max_f32}, {"min.f64", min_f64},
    {"max.f64", max_f64}, {"min.f16", min_f16}, {"max.f16", max_f16},
    {"min.bf16", min_bf16}, {"max.bf16", max_bf16}, {"neg.f32", neg_f32},
    {"abs.f32", abs_f32}, {"neg.f64", neg_f64}, {"abs.f64", abs_f64},
    {"neg.half", neg_half}, {"abs.half", abs_half}, {"neg.pair", neg_pair},
    {"abs.pair", abs_pair}, {"copysign.f32", copysign_f32},
    {"copysign.f64", copysign_f64}, {"testp.f32", testp_f32},
    {"testp.f64", testp_f64}, {0, 0},
};
