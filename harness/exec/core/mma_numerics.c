/* Scalar tensor-core arithmetic: the complete statement, used for special values and
 * extreme exponents; mma_sync.c has the vector form of the ordinary case. */
#include "mma_numerics.h"

/* One number taken apart: mant * 2^(e - bits). */
typedef struct Part {
  int neg, e, bits;
  u32 mant;
  int nan, inf;
} Part;

static const struct {
  u32 width, frac;
  int bias, has_inf;
} format[] = {
    [MMA_F16] = {16, 10, 15, 1}, [MMA_BF16] = {16, 7, 127, 1},
    [MMA_TF32] = {19, 10, 127, 1}, [MMA_E4M3] = {8, 3, 7, 0},
    [MMA_E5M2] = {8, 2, 15, 1},
};

MmaModel mma_model(u32 arch, u32 type) {
  MmaModel model = {25, 32, 0};
  if (arch < 90) { /* Ampere and Ada: half the step, one bit less */
    model.frac = 24;
    model.step = 16;
  }
  model.via_f16 = arch >= 90 && arch < 100 && (type == MMA_E4M3 || type == MMA_E5M2);
  return model;
}

u32 mma_e4m3_f16(u32 raw) {
  u32 sign = (raw & 0x80u) << 8, mag = raw & 0x7fu;
  if (mag == 0x7f) return sign | MMA_NAN16;
  if (mag >= 8) return sign | ((mag << 7) + 0x2000u); /* rebias by 8 */
  if (!mag) return sign;
  int top = 31 - __builtin_clz(mag); /* 2^(top - 9), normal in f16 */
  return sign | (u32)(top + 6) << 10 | (mag << (10 - top) & 0x3ffu);
}

static Part take(u32 raw, u32 width, u32 frac, int bias, int has_inf) {
  Part p = {0};
  u32 field = (raw >> frac) & ((1u << (width - 1 - frac)) - 1);
  u32 top = (1u << (width - 1 - frac)) - 1;
  p.bits = (int)frac;
  p.neg = (int)((raw >> (width - 1)) & 1u);
  p.mant = raw & ((1u << frac) - 1);
  if (has_inf && field == top) {
    p.nan = p.mant != 0;
    p.inf = !p.nan;
  } else if (!has_inf && field == top && p.mant == (1u << frac) - 1) {
    p.nan = 1;
  }
  if (field) p.mant |= 1u << frac;
  p.e = (field ? (int)field : 1) - bias;
  if (!p.mant) p.e = MMA_ZERO;
  return p;
}

static Part operand(u32 type, u32 raw) {
  if (type == MMA_TF32) raw >>= 13; /* the low bits of the register are not read */
  return take(raw, format[type].width, format[type].frac, format[type].bias,
              format[type].has_inf);
}

/* mant * 2^(e - bits) cut behind `frac` bits of 2^at. */
static s64 aligned(u64 mant, int e, int bits, int at, int frac, int neg) {
  int shift = frac - bits - (at - e);
  u64 v = shift >= 0 ? mant << shift : shift > -64 ? mant >> -shift : 0;
  return neg ? -(s64)v : (s64)v;
}

u32 mma_round_f32(s64 sum, int e, int frac) {
  if (!sum) return 0;
  u32 sign = sum < 0 ? 0x80000000u : 0;
  u64 mag = sum < 0 ? 0ull - (u64)sum : (u64)sum;
  int top = 63 - __builtin_clzll(mag);
  int biased = top + e - frac + 127;
  u32 mant = top >= 23 ? (u32)(mag >> (top - 23)) : (u32)(mag << (23 - top));
  if (biased >= 255) return sign | 0x7f800000u;
  if (biased > 0) return sign | (u32)biased << 23 | (mant & 0x7fffffu);
  int shift = 1 - biased;
  mant = shift > 23 ? 0 : mant >> shift;
  return mant ? sign | mant : 0; /* what is cut to nothing is +0 */
}

u32 mma_round_f16(s64 sum, int e, int frac) {
  if (!sum) return 0;
  u32 sign = sum < 0 ? 0x8000u : 0;
  u64 mag = sum < 0 ? 0ull - (u64)sum : (u64)sum;
  int top = 63 - __builtin_clzll(mag);
  int biased = top + e - frac + 15;
  if (biased >= 31) return sign | 0x7c00u;
  /* bits below the last kept one: 10 under the top, more for a subnormal */
  int drop = top - 10 + (biased > 0 ? 0 : 1 - biased);
  u64 kept = mag;
  if (drop > 0) {
    if (drop > 62) return 0;
    u64 half = 1ull << (drop - 1), rest = mag & ((1ull << drop) - 1);
    kept = mag >> drop;
    kept += rest > half || (rest == half && (kept & 1));
  } else {
    kept = mag << -drop;
  }
  /* a carry out of the mantissa runs into the exponent, as it should */
  u64 value = biased > 0 ? ((u64)(biased - 1) << 10) + kept : kept;
  if (!value) return 0;
  return sign | (value >= 0x7c00 ? 0x7c00u : (u32)value);
}

u32 mma_fused_step(MmaModel model, u32 ta, u32 tb, int half, u32 n, const u32 *a,
                   const u32 *b, u32 c) {
  Part pc = half ? take(c, 16, 10, 15, 1) : take(c, 32, 23, 127, 1);
  int nan = pc.nan, plus = pc.inf && !pc.neg, minus = pc.inf && pc.neg;
  int at = pc.mant ? pc.e : 2 * MMA_ZERO;
  for (u32 k = 0; k < n; k++) {
    Part x = operand(ta, a[k]), y = operand(tb, b[k]);
    if (x.nan || y.nan || (x.inf && !y.mant && !y.inf) || (y.inf && !x.mant && !x.inf)) {
      nan = 1;
    } else if (x.inf || y.inf) {
      if (x.neg ^ y.neg) minus = 1;
      else plus = 1;
    }
    if (x.mant && y.mant && x.e + y.e > at) at = x.e + y.e;
  }
  if (nan || (plus && minus)) return half ? MMA_NAN16 : MMA_NAN32;
  if (plus || minus) {
    u32 inf = half ? 0x7c00u : 0x7f800000u;
    return minus ? inf | (half ? 0x8000u : 0x80000000u) : inf;
  }
  s64 sum = pc.mant ? aligned(pc.mant, pc.e, pc.bits, at, model.frac, pc.neg) : 0;
  for (u32 k = 0; k < n; k++) {
    Part x = operand(ta, a[k]), y = operand(tb, b[k]);
    if (x.mant && y.mant)
      sum += aligned((u64)x.mant * y.mant, x.e + y.e, x.bits + y.bits, at, model.frac,
                     x.neg ^ y.neg);
  }
  return half ? mma_round_f16(sum, at, model.frac) : mma_round_f32(sum, at, model.frac);
}
