/* Bits of floating-point values: flushing, clamping, and f16 and bf16 as patterns. */
#ifndef SIDESTREAM_FBITS_H
#define SIDESTREAM_FBITS_H

#include "core.h"

/* Modifiers of a floating-point operation, in x[0]; lower/checks.py has the same. */
enum {
  F_FTZ = 1, F_SAT = 2, F_RELU = 4, F_NAN = 8, F_XORSIGN = 16, F_ABS = 32,
  F_SATFINITE = 64, F_THREE = 256
};

static inline u32 f32_bits(f32 v) {
  u32 b;
  memcpy(&b, &v, 4);
  return b;
}
static inline f32 bits_f32(u32 b) {
  f32 v;
  memcpy(&v, &b, 4);
  return v;
}
static inline u64 f64_bits(f64 v) {
  u64 b;
  memcpy(&b, &v, 8);
  return b;
}
static inline f64 bits_f64(u64 b) {
  f64 v;
  memcpy(&v, &b, 8);
  return v;
}
/* Subnormals become zero of the same sign. */
static inline u32 ftz_bits(u32 b) { return b & 0x7f800000u ? b : b & 0x80000000u; }
static inline f32 ftz(f32 v) { return bits_f32(ftz_bits(f32_bits(v))); }
/* NaN results of f32 arithmetic; PTX leaves the NaN open, this is the one that
 * hardware makes and that .NaN and .relu call canonical. */
#define CANONICAL_F32 0x7fffffffu
#define CANONICAL_16 0x7fffu
static inline f32 canonical(f32 v) { return v == v ? v : bits_f32(CANONICAL_F32); }
/* .sat clamps to [0, 1] and turns NaN into +0. */
static inline f32 sat(f32 v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
/* .relu turns what is negative, -0 included, into +0 and keeps NaN. */
static inline f32 relu(f32 v) { return v > 0.0f || v != v ? v : 0.0f; }

static inline f32 bf16_f32(u32 h) { return bits_f32(h << 16); }
static inline f32 f16_f32(u32 h) {
  u32 sign = (h & 0x8000u) << 16, e = h >> 10 & 31u, f = h & 0x3ffu;
  /* normal: rebias; subnormal: exact product; inf and NaN keep their payload */
  u32 normal = sign | (e + 112) << 23 | f << 13;
  u32 special = sign | 0x7f800000u | f << 13;
  f32 tiny = (f32)(s32)f * 5.9604644775390625e-8f; /* 2^-24 */
  u32 small = sign | f32_bits(tiny);
  return bits_f32(e == 31 ? special : e ? normal : small);
}
/* Round to nearest even; NaN gives the canonical one. */
static inline u32 f32_bf16(f32 v) {
  u32 b = f32_bits(v);
  u32 r = (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
  return (b & 0x7fffffffu) > 0x7f800000u ? CANONICAL_16 : r;
}
static inline u32 f32_f16(f32 v) {
  u32 b = f32_bits(v), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  /* normal results: rebias and round the 13 bits that drop out */
  u32 normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  /* subnormal results: let an addition round at 2^-24 */
  u32 small = f32_bits(bits_f32(a) + 0.5f) - 0x3f000000u;
  u32 r = a < 0x38800000u ? small : normal;
  r = a >= 0x477ff000u ? 0x7c00u : r;
  return a > 0x7f800000u ? CANONICAL_16 : sign | r;
}
/* Subnormal halves become zero of the same sign. */
static inline u32 ftz_f16(u32 h) { return h & 0x7c00u ? h : h & 0x8000u; }
static inline u32 ftz_bf16(u32 h) { return h & 0x7f80u ? h : h & 0x8000u; }

#endif
