/* Conversions to and from 16-bit formats and smaller ones (PTX ISA, cvt; Alternate
 * Floating-Point Data Formats).
 *
 * Pairs: of two f32 sources, a gives the upper part of the result and b the lower one.
 * To nearest, f16 and bf16 have loops of their own; everything else is rounded by
 * soft.c from the f64 that equals the source. x[1] = rounding mode.
 */
#include "lanes.h"
#include "soft.h"

#define OUT(v) (i->x[0] & F_RELU ? relu(v) : (v))
UN(f32_of_f16, u32, u32, R32, R32, f32_bits(canonical(f16_f32(a[l] & 0xffffu))))
UN(f32_of_bf16, u32, u32, R32, R32, a[l] << 16) /* NaN payloads too */
UN(f16_of_f32, u32, f32, R32, RF32, f32_f16(OUT(a[l])))
UN(bf16_of_f32, u32, f32, R32, RF32, f32_bf16(OUT(a[l])))
BIN(f16x2_of_f32, u32, f32, R32, RF32, f32_f16(OUT(a[l])) << 16 | f32_f16(OUT(b[l])))
static int bf16x2_of_f32(Warp *w, const Insn *i, u32 m) { /* hot: no relu inside */
  const f32 *a = RF32(i->a), *b = RF32(i->b);
  u32 *d = R32(i->d);
  if (!i->x[0]) LANE_LOOP(u32, d, f32_bf16(a[l]) << 16 | f32_bf16(b[l]));
  LANE_LOOP(u32, d, f32_bf16(relu(a[l])) << 16 | f32_bf16(relu(b[l])));
}

/* The order of lower/narrow.py. */
static const Format *const formats[] = {
    &FMT_F64, &FMT_F32, &FMT_F16, &FMT_BF16, &FMT_TF32, &FMT_E4M3,
    &FMT_E5M2, &FMT_E2M3, &FMT_E3M2, &FMT_E2M1,
};

/* x[0] = F_ flags, x[1] = mode, x[2] = format. */
static inline u32 round_to(f64 v, const Insn *i) {
  const Format *f = formats[i->x[2]];
  if (i->x[0] & F_FTZ) v = (f64)ftz((f32)v);
  if (i->x[0] & F_RELU) v = v > 0.0 || v != v ? v : 0.0;
  if (i->x[0] & F_SAT) v = v > 0.0 ? (v < 1.0 ? v : 1.0) : 0.0;
  return (u32)soft_from_f64(f, v, (u32)i->x[1], i->x[0] & F_SATFINITE);
}
UN(round_f32, u32, f32, R32, RF32, round_to((f64)a[l], i))
UN(round_f64, u32, f64, R32, RF64, round_to(a[l], i))
/* x[3] = distance of the upper part from the lower one */
BIN(pair_f32, u32, f32, R32, RF32,
    round_to((f64)a[l], i) << i->x[3] | round_to((f64)b[l], i))

/* Formats of at most 8 bits, to nearest even and clamped to their largest value, as
 * PTX demands of them; a NaN becomes theirs, or the largest value where they have none.
 */
typedef struct Small {
  u32 frac, drop, sign_at, largest, nan;
  u32 inf, first_nan; /* magnitudes; ~0 where the format has none */
  u32 rebias;  /* exponent biases' difference, in place */
  u32 lowest;  /* f32 pattern of the smallest normal number */
  u32 magic;   /* f32 pattern whose last place is that of subnormal numbers */
} Small;
static Small small(const Format *f) {
  u32 lowest = (u32)(128 - f->bias) << 23, drop = 23u - f->frac;
  return (Small){.frac = f->frac, .drop = drop, .sign_at = f->bits - 1u,
                 .largest = (u32)f->inf - 1, .nan = (u32)f->nan,
                 .inf = f->has_inf ? (u32)f->inf : ~0u,
                 .first_nan = f->nan < f->inf ? ~0u : (u32)f->inf + f->has_inf,
                 .rebias = (u32)(127 - f->bias) << 23, .lowest = lowest,
                 .magic = lowest + (drop << 23)};
}
static inline u32 to_small(u32 b, Small f) {
  u32 sign = b >> 31 << f.sign_at, a = b & 0x7fffffffu;
  u32 normal = (a - f.rebias + (1u << (f.drop - 1)) - 1 + (a >> f.drop & 1)) >> f.drop;
  u32 tiny = f32_bits(bits_f32(a) + bits_f32(f.magic)) - f.magic;
  u32 r = a < f.lowest ? tiny : normal;
  r = r > f.largest ? f.largest : r;
  return a > 0x7f800000u ? f.nan : r | sign;
}
/* Rows hi and lo of f32, x[0] = F_RELU, x[2] = format, x[3] = distance of the parts */
static int put_small(Warp *w, const Insn *i, u32 m, const f32 *hi, const f32 *lo) {
  Small f = small(formats[i->x[2]]);
  u32 v[LANES], up = (u32)i->x[3];
  if (i->x[0] & F_RELU) {
    for (int l = 0; l < LANES; l++)
      v[l] = to_small(f32_bits(relu(hi[l])), f) << up | to_small(f32_bits(relu(lo[l])), f);
  } else {
    for (int l = 0; l < LANES; l++)
      v[l] = to_small(f32_bits(hi[l]), f) << up | to_small(f32_bits(lo[l]), f);
  }
  put32(R32(i->d), v, m);
  return STEP_NEXT;
}
static int small_f32(Warp *w, const Insn *i, u32 m) {
  return put_small(w, i, m, RF32(i->a), RF32(i->b));
}
#define FROM_PAIR(name, f32_of)                        \
  static int name(Warp *w, const Insn *i, u32 m) {     \
    const u32 *a = R32(i->a);                          \
    f32 hi[LANES], lo[LANES];                          \
    for (int l = 0; l < LANES; l++) {                  \
      hi[l] = f32_of(a[l] >> 16);                      \
      lo[l] = f32_of(a[l] & 0xffffu);                  \
    }                                                  \
    return put_small(w, i, m, hi, lo);                 \
  }
FROM_PAIR(small_f16x2, f16_f32)
FROM_PAIR(small_bf16x2, bf16_f32)

/* tf32 keeps the f32 layout with the low 13 bits zero; .rna only cuts a NaN, even to
 * an infinity, as an H200 does. */
static inline u32 tf32(f32 v, const Insn *i) {
  if (v != v && i->x[1] == 4 /* rna */) return f32_bits(v) & ~0x1fffu;
  return round_to((f64)v, i) << 13;
}
UN(tf32_f32, u32, f32, R32, RF32, tf32(a[l], i))

/* Widening: every small format is exact in f32. */
static inline f32 widen(u32 v, Small f) {
  u32 mag = v & ((1u << f.sign_at) - 1), sign = v >> f.sign_at << 31;
  u32 normal = (mag << f.drop) + f.rebias;
  f32 last = bits_f32(f.lowest - (f.frac << 23)); /* of subnormal numbers */
  u32 r = mag >> f.frac ? normal : f32_bits((f32)(s32)mag * last);
  r = mag == f.inf ? 0x7f800000u : r;
  return bits_f32(mag >= f.first_nan ? CANONICAL_F32 : r | sign);
}
/* x[0] = F_ flags, x[1] = 1 for bf16x2, x[2] = format, x[3] = distance of the parts;
 * b = row of two ue8m0 scale factors, or NOREF. Products with a power of two round
 * once, in f64. */
static inline u32 scaled(f32 v, u32 scale, const Insn *i) {
  if (scale == 255) return CANONICAL_16; /* the NaN of ue8m0 */
  f64 p = (f64)v * bits_f64((u64)(1023 + (s32)scale - 127) << 52);
  return (u32)soft_from_f64(&FMT_BF16, p, RN, i->x[0] & F_SATFINITE);
}
static int wide_pair(Warp *w, const Insn *i, u32 m) {
  const Format *format = formats[i->x[2]];
  Small f = small(format);
  u32 keep = (1u << format->bits) - 1, out[LANES] = {0};
  const u32 *a = R32(i->a), *b = i->b == NOREF ? NULL : R32(i->b);
  for (u32 part = 0; part < 2; part++) {
    f32 v[LANES];
    for (int l = 0; l < LANES; l++)
      v[l] = widen(a[l] >> (part ? i->x[3] : 0) & keep, f);
    if (i->x[0] & F_RELU)
      for (int l = 0; l < LANES; l++) v[l] = relu(v[l]);
    if (!i->x[1])
      for (int l = 0; l < LANES; l++) out[l] |= f32_f16(v[l]) << (16 * part);
    else
      for (int l = 0; l < LANES; l++)
        out[l] |= scaled(v[l], b ? b[l] >> (8 * part) & 255u : 127, i) << (16 * part);
  }
  put32(R32(i->d), out, m);
  return STEP_NEXT;
}

/* ue8m0: an exponent alone, 2^(v - 127); 255 is NaN. Magnitudes are rounded towards
 * zero or up; x[1] = mode, x[0] = F_SATFINITE. */
static inline u32 exponent(f32 v, const Insn *i) {
  u32 b = f32_bits(v) & 0x7fffffffu, up = i->x[1] == RP;
  if (b > 0x7f800000u) return 255;
  u32 e = b >> 23, rest = b & 0x7fffffu;
  /* below 2^-126 the fraction itself says how far up it is: 2^-127 is its half */
  if (!e) return up && rest > 0x400000u ? 1 : 0;
  e += up && rest;
  return e >= 255 ? (i->x[0] & F_SATFINITE ? 254 : 255) : e;
}
BIN(ue8m0_f32, u32, f32, R32, RF32, exponent(a[l], i) << 8 | exponent(b[l], i))
UN(ue8m0_bf16, u32, u32, R32, R32,
   exponent(bf16_f32(a[l] >> 16), i) << 8 | exponent(bf16_f32(a[l] & 0xffffu), i))
static inline u32 power(u32 e) { return e == 255 ? CANONICAL_16 : e ? e << 7 : 0x40; }
UN(bf16_ue8m0, u32, u32, R32, R32, power(a[l] >> 8 & 255u) << 16 | power(a[l] & 255u))

/* cvt.pack: two clamped integers below what c brings. x[0] = bits, x[1] = signed,
 * x[2] = 1 if there is a c */
static inline u32 clamp_pack(s32 v, u32 bits, u32 sign) {
  s32 hi = sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, lo = sign ? -hi - 1 : 0;
  return (u32)(v > hi ? hi : v < lo ? lo : v) & ((1u << bits) - 1);
}
static int pack_sat(Warp *w, const Insn *i, u32 m) {
  const s32 *a = RS32(i->a), *b = RS32(i->b);
  const u32 *c = i->x[2] ? R32(i->c) : NULL;
  u32 bits = (u32)i->x[0], sign = (u32)i->x[1], v[LANES];
  for (int l = 0; l < LANES; l++) {
    v[l] = clamp_pack(a[l], bits, sign) << bits | clamp_pack(b[l], bits, sign);
    if (c) v[l] |= c[l] << (2 * bits);
  }
  put32(R32(i->d), v, m);
  return STEP_NEXT;
}

const OpEntry ops_narrow[] = {
    {"cvt.f32.f16", f32_of_f16}, {"cvt.f32.bf16", f32_of_bf16},
    {"cvt.f16.f32", f16_of_f32}, {"cvt.bf16.f32", bf16_of_f32},
    {"cvt.f16x2.f32", f16x2_of_f32}, {"cvt.bf16x2.f32", bf16x2_of_f32},
    {"cvt.round.f32", round_f32}, {"cvt.round.f64", round_f64},
    {"cvt.pair.f32", pair_f32}, {"cvt.small.f32", small_f32},
    {"cvt.small.f16x2", small_f16x2}, {"cvt.small.bf16x2", small_bf16x2},
    {"cvt.tf32.f32", tf32_f32},
    {"cvt.wide.pair", wide_pair}, {"cvt.ue8m0x2.f32", ue8m0_f32},
    {"cvt.ue8m0x2.bf16x2", ue8m0_bf16}, {"cvt.bf16x2.ue8m0x2", bf16_ue8m0},
    {"cvt.pack", pack_sat}, {0, 0},
};
