/* Correctly rounded f32 results in every rounding mode, by way of f64.
 *
 * The exact result of an f32 operation is formed as an f64 rounded to odd: truncated,
 * with the last bit set when something was lost. An odd f64 never sits on a boundary
 * between f32 neighbours, so that rounding it again, in any mode, gives what rounding
 * the exact value would (Boldo and Melquiond, "When double rounding is odd"; f64 has
 * more than the 24 + 2 bits that needs). No f32 operation leaves f64's normal range.
 */
#ifndef SIDESTREAM_DIRECTED_H
#define SIDESTREAM_DIRECTED_H

#include <math.h>

#include "fbits.h"

enum Rounding { RN = 0, RZ, RM, RP, RNA };

/* s is the nearest f64 to s + e exactly, |e| at most half its last place. */
static inline f64 odd(f64 s, f64 e) {
  u64 b = f64_bits(s), other = (f64_bits(e) ^ b) >> 63; /* inwards of s */
  u64 moved = b + (~b & 1) * (1 - 2 * other);
  return bits_f64(e == 0.0 ? b : moved);
}

/* a + b: the rounding error of a floating-point addition is itself a number (TwoSum). */
static inline f64 odd_sum(f64 a, f64 b) {
  f64 s = a + b, t = s - a;
  f64 e = (a - (s - t)) + (b - t);
  return odd(s, s - s == 0.0 ? e : 0.0); /* infinities have no error */
}

/* An f64 as f32 in mode `r`; the f64 is exact or odd. The nearest f32 is at most one
 * step from the directed one. The step is counted in f64, where the comparison is, and
 * then converted: vector loops cannot carry a truth value from 64 to 32 bits. */
static inline f32 narrow(f64 v, u32 r) {
  f32 f = (f32)v;
  if (r == RN) return f;
  u32 b = f32_bits(f);
  f64 g = (f64)f, step = 0.0;
  if (r == RZ) step = fabs(g) > fabs(v) ? 1.0 : 0.0;
  if (r == RM) step = g > v ? 1.0 : 0.0;
  if (r == RP) step = g < v ? 1.0 : 0.0;
  u32 k = (u32)(s32)step, negative = b >> 31;
  if (r == RZ) return bits_f32(b - k);
  return bits_f32(negative == (r == RM) ? b + k : b - k);
}
/* The same rounded to odd, for a third rounding to a 16-bit format. */
static inline f32 narrow_odd(f64 v) {
  f32 f = (f32)v;
  u32 b = f32_bits(f);
  f64 g = (f64)f;
  f64 past = fabs(g) > fabs(v) ? 1.0 : 0.0, lost = (g < v) | (g > v) ? 1.0 : 0.0;
  return bits_f32((b - (u32)(s32)past) | (u32)(s32)lost);
}

/* An exact zero sum of operands that are not both +0 is -0 when rounding down. */
static inline f64 zero_sum(f64 s, f64 a, f64 b, u32 r) {
  if (r != RM) return s;
  u64 any = f64_bits(a) | f64_bits(b);
  f64 zero = any ? -0.0 : 0.0;
  return s == 0.0 ? zero : s;
}

static inline f32 add32(f32 a, f32 b, u32 r) {
  if (r == RN) return a + b;
  f64 x = (f64)a, y = (f64)b;
  return narrow(zero_sum(odd_sum(x, y), x, y, r), r);
}
static inline f32 sub32(f32 a, f32 b, u32 r) { return add32(a, -b, r); }
static inline f32 mul32(f32 a, f32 b, u32 r) {
  if (r == RN) return a * b;
  return narrow((f64)a * (f64)b, r); /* 48 bits: exact */
}
static inline f32 fma32(f32 a, f32 b, f32 c, u32 r) {
  if (r == RN) return __builtin_fmaf(a, b, c);
  f64 p = (f64)a * (f64)b, z = (f64)c;
  return narrow(zero_sum(odd_sum(p, z), p, z, r), r);
}
/* Quotient and root: the remainder tells on which side the exact value lies. */
static inline f32 div32(f32 a, f32 b, u32 r) {
  if (r == RN) return a / b;
  f64 x = (f64)a, y = (f64)b, q = x / y;
  f64 rest = __builtin_fma(-q, y, x); /* exact */
  f64 side = rest == rest ? rest * (y < 0.0 ? -1.0 : 1.0) : 0.0;
  return narrow(odd(q, q - q == 0.0 ? side : 0.0), r);
}
static inline f32 rcp32(f32 a, u32 r) { return div32(1.0f, a, r); }
static inline f32 sqrt32(f32 a, u32 r) {
  if (r == RN) return __builtin_sqrtf(a);
  f64 x = (f64)a, s = __builtin_sqrt(x);
  f64 rest = __builtin_fma(-s, s, x);
  return narrow(odd(s, s - s == 0.0 ? rest : 0.0), r);
}

#endif
