/* ex2, lg2 and tanh of one f32, written so that a loop over lanes vectorises. */
#ifndef SIDESTREAM_TRANSCENDENTAL_H
#define SIDESTREAM_TRANSCENDENTAL_H

#include <math.h>

#include "fbits.h"

/* 2^f for |f| <= 1/2: the Taylor series to f^7, whose remainder is below 2^-27. It is
 * exactly 1 at 0. */
static inline f32 ex2_fraction(f32 f) {
  f32 p = 1.525273380e-5f;
  p = __builtin_fmaf(p, f, 1.540353039e-4f);
  p = __builtin_fmaf(p, f, 1.333355815e-3f);
  p = __builtin_fmaf(p, f, 9.618129108e-3f);
  p = __builtin_fmaf(p, f, 5.550410866e-2f);
  p = __builtin_fmaf(p, f, 2.402265070e-1f);
  p = __builtin_fmaf(p, f, 6.931471806e-1f);
  return __builtin_fmaf(p, f, 1.0f);
}

/* 2^x = 2^n 2^(x - n): n goes straight into the exponent. At the upper clamp the
 * exponent field becomes that of infinity, at the lower one that of zero. */
static inline f32 ex2_ftz(f32 x) {
  f32 v = x > 128.0f ? 128.0f : x;
  v = v < -127.0f ? -127.0f : v;
  f32 n = rintf(v), p = ex2_fraction(v - n);
  u32 r = f32_bits(p) + ((u32)(s32)n << 23);
  return x == x ? bits_f32(ftz_bits(r)) : bits_f32(CANONICAL_F32);
}
/* Subnormal results are made 2^64 times too large and scaled back, rounding once. */
static inline f32 ex2(f32 x) {
  f32 v = x > 128.0f ? 128.0f : x;
  v = v < -152.0f ? -152.0f : v;
  f32 n = rintf(v), p = ex2_fraction(v - n);
  u32 small = n < -60.0f;
  u32 r = f32_bits(p) + ((u32)((s32)n + (small ? 64 : 0)) << 23);
  f32 s = bits_f32(r) * (small ? 5.421010862427522e-20f : 1.0f);
  return x == x ? s : bits_f32(CANONICAL_F32);
}

/* log2 x = e + log2 m with m in [sqrt(1/2), sqrt(2)), by the series of atanh in
 * s = (m - 1) / (m + 1), |s| < 0.172; the remainder is below 2^-27 of the value. */
static inline f32 lg2(f32 x) {
  u32 tiny = x < 1.1754943508222875e-38f;
  f32 scaled = tiny ? x * 16777216.0f : x; /* 2^24 */
  u32 b = f32_bits(scaled), off = b - 0x3f3504f3u;
  s32 e = (s32)off >> 23;
  f32 m = bits_f32((off & 0x007fffffu) + 0x3f3504f3u);
  f32 s = (m - 1.0f) / (m + 1.0f), q = s * s;
  f32 p = 0.320598898f; /* 2 / (9 ln 2), and the smaller odd numbers */
  p = __builtin_fmaf(p, q, 0.412198584f);
  p = __builtin_fmaf(p, q, 0.577078016f);
  p = __builtin_fmaf(p, q, 0.961796694f);
  /* 2 / ln 2 in two parts: near 1 the result is all in this product */
  f32 whole = (f32)(e - (tiny ? 24 : 0));
  f32 low = __builtin_fmaf(s * q, p, s * 3.8519260e-8f);
  f32 r = __builtin_fmaf(s, 2.88539004f, low) + whole;
  r = x == 0.0f ? -INFINITY : r;
  r = x == INFINITY ? x : r;
  return x >= 0.0f ? r : bits_f32(CANONICAL_F32); /* negative or NaN */
}

/* tanh x = 1 - 2 / (e^2x + 1), or the odd series where that would cancel. */
static inline f32 tanh32(f32 x) {
  f32 a = __builtin_fabsf(x), q = a * a;
  f32 big = 1.0f - 2.0f / (ex2(a * 2.885390082f) + 1.0f);
  f32 p = -0.0539682540f; /* -17/315, 2/15, -1/3 */
  p = __builtin_fmaf(p, q, 0.133333333f);
  p = __builtin_fmaf(p, q, -0.333333333f);
  f32 small = __builtin_fmaf(a * q, p, a);
  f32 r = a < 0.25f ? small : big;
  r = bits_f32(f32_bits(r) | (f32_bits(x) & 0x80000000u));
  return x == x ? r : bits_f32(CANONICAL_F32);
}

#endif
