/* Approximations (PTX ISA, Floating-Point Instructions: ex2, lg2, rcp, sqrt, rsqrt, sin,
 * cos, tanh). PTX bounds their error and leaves the bits open:
 *   ex2 2^-22.5 relative     lg2 2^-22.6 absolute in (0.5, 2), relative elsewhere
 *   rcp 1 ulp                rsqrt 2^-22.9 relative       sqrt 2^-23 relative
 *   sin, cos 2^-20.9 absolute in [-pi, pi]                tanh 2^-11 relative
 * Ours are inside these bounds, and exact where the exact result is a power of two.
 * x[0] = F_ flags.
 */
#include <math.h>

#include "fbits.h"
#include "lanes.h"

static inline f32 pow2i(s32 n) { return bits_f32((u32)(n + 127) << 23); }

/* 2^x = 2^n 2^f with |f| <= 1/2: Taylor series of 2^f to f^7, remainder below 2^-27. */
static inline f32 ex2_1(f32 x, u32 flush) {
  if (flush) x = ftz(x);
  f32 lo = x < -160.0f ? -160.0f : x; /* NaN passes */
  f32 v = lo > 129.0f ? 129.0f : lo;
  f32 n = rintf(v == v ? v : 0.0f);
  f32 f = v - n;
  f32 p = 1.525273380e-5f;
  p = __builtin_fmaf(p, f, 1.540353039e-4f);
  p = __builtin_fmaf(p, f, 1.333355815e-3f);
  p = __builtin_fmaf(p, f, 9.618129108e-3f);
  p = __builtin_fmaf(p, f, 5.550410866e-2f);
  p = __builtin_fmaf(p, f, 2.402265070e-1f);
  p = __builtin_fmaf(p, f, 6.931471806e-1f);
  p = __builtin_fmaf(p, f, 1.0f);
  s32 k = (s32)n, half = k >> 1;
  f32 r = p * pow2i(half) * pow2i(k - half); /* two steps: subnormal results */
  r = canonical(r);
  return flush ? ftz(r) : r;
}
static int ex2_f32(Warp *w, const Insn *i, u32 m) {
  const f32 *a = RF32(i->a);
  f32 *d = RF32(i->d);
  if (i->x[0] & F_FTZ) LANE_LOOP(f32, d, ex2_1(a[l], 1));
  LANE_LOOP(f32, d, ex2_1(a[l], 0));
}

#define APPROX(name, expr)                                     \
  static int name(Warp *w, const Insn *i, u32 m) {             \
    const f32 *a = RF32(i->a);                                 \
    f32 *d = RF32(i->d);                                       \
    f32 v[LANES];                                              \
    u32 flush = (u32)i->x[0] & F_FTZ;                          \
    for (int l = 0; l < LANES; l++) {                          \
      f32 x = flush ? ftz(a[l]) : a[l];                        \
      f32 r = canonical((f32)(expr));                          \
      v[l] = flush ? ftz(r) : r;                               \
    }                                                          \
    LANE_LOOP(f32, d, v[l]);                                   \
  }
APPROX(lg2_f32, log2((f64)x))
APPROX(rcp_f32, 1.0f / x)
APPROX(sqrt_f32, sqrtf(x))
APPROX(rsqrt_f32, 1.0 / sqrt((f64)x))
APPROX(sin_f32, sin((f64)x))
APPROX(cos_f32, cos((f64)x))
APPROX(tanh_f32, tanh((f64)x))
UN(rsqrt_f64, f64, f64, RF64, RF64, 1.0 / sqrt(a[l]))

const OpEntry ops_transcendental[] = {
    {"ex2.f32", ex2_f32}, {"lg2.f32", lg2_f32}, {"rcp.f32", rcp_f32},
    {"sqrt.f32", sqrt_f32}, {"rsqrt.f32", rsqrt_f32}, {"sin.f32", sin_f32},
    {"cos.f32", cos_f32}, {"tanh.f32", tanh_f32}, {"rsqrt.f64", rsqrt_f64}, {0, 0},
};
