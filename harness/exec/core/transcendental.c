/* Approximations (PTX ISA, Floating-Point Instructions: ex2, lg2, rsqrt, sin, cos, tanh).
 *
 * PTX bounds their error and leaves the bits open:
 *   ex2         2 ulp
 *   lg2         2^-22, absolute in (0.5, 2) and relative elsewhere
 *   rsqrt       2^-22.9 relative
 *   sin, cos    2^-20.5 absolute in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi]
 *   tanh        2^-11 relative
 * Ours stay well inside, and are exact where the result is a power of two. rcp, sqrt
 * and div approximate by rounding correctly (float.c). x[0] = F_ flags.
 */
#include "transcendental.h"
#include "lanes.h"

#define APPROX(name, plain, flushed)                 \
  static int name(Warp *w, const Insn *i, u32 m) {   \
    const f32 *a = RF32(i->a);                       \
    f32 *d = RF32(i->d);                             \
    if (i->x[0] & F_FTZ) LANE_LOOP(f32, d, flushed); \
    LANE_LOOP(f32, d, plain);                        \
  }
static inline f32 rsqrt1(f32 x) {
  return canonical((f32)(1.0 / __builtin_sqrt((f64)x)));
}
APPROX(ex2_f32, ex2(a[l]), ex2_ftz(a[l]))
APPROX(lg2_f32, lg2(a[l]), ftz(lg2(ftz(a[l]))))
APPROX(rsqrt_f32, rsqrt1(a[l]), ftz(rsqrt1(ftz(a[l]))))
APPROX(tanh_f32, tanh32(a[l]), tanh32(a[l]))

/* x - k pi/2 in two parts of pi/2: good to 2^-60 while k has at most 20 bits. */
#define NEAR 1.0e6
typedef struct Angle {
  f64 r;
  s32 k;
} Angle;
static inline Angle reduce(f64 x) {
  f64 inside = __builtin_fabs(x) < NEAR ? x : 0.0;
  f64 n = rint(inside * 0.63661977236758134308);
  f64 r = __builtin_fma(-n, 1.5707963267948965580, inside);
  return (Angle){__builtin_fma(-n, 6.1232339957367658e-17, r), (s32)n};
}
/* Taylor series on [-pi/4, pi/4]; both remainders are below 2^-35. */
static inline f64 sin_part(f64 r) {
  f64 q = r * r;
  f64 p = 1.0 / 362880;
  p = __builtin_fma(p, -q, 1.0 / 5040);
  p = __builtin_fma(p, -q, 1.0 / 120);
  p = __builtin_fma(p, -q, 1.0 / 6);
  return __builtin_fma(r * -q, p, r);
}
static inline f64 cos_part(f64 r) {
  f64 q = r * r;
  f64 p = 1.0 / 3628800;
  p = __builtin_fma(p, -q, 1.0 / 40320);
  p = __builtin_fma(p, -q, 1.0 / 720);
  p = __builtin_fma(p, -q, 1.0 / 24);
  p = __builtin_fma(p, -q, 0.5);
  return __builtin_fma(-q, p, 1.0);
}
/* sin of x + quarter * pi/2 */
static inline f32 circular(f32 x, s32 quarter) {
  Angle a = reduce((f64)x);
  s32 k = a.k + quarter;
  f64 v = k & 1 ? cos_part(a.r) : sin_part(a.r);
  v = k & 2 ? -v : v;
  return x == 0.0f && !quarter ? x : (f32)v; /* the reduction loses the sign of -0 */
}
static int circle(Warp *w, const Insn *i, u32 m, s32 quarter) {
  const u32 *a = R32(i->a);
  u32 v[LANES];
  u32 far = 0;
  for (int l = 0; l < LANES; l++) {
    u32 x = i->x[0] & F_FTZ ? ftz_bits(a[l]) : a[l];
    v[l] = f32_bits(circular(bits_f32(x), quarter));
    far |= !(__builtin_fabsf(bits_f32(x)) < (f32)NEAR);
  }
  if (far) { /* PTX promises nothing here; infinity and NaN give NaN */
    for (int l = 0; l < LANES; l++) {
      f32 x = bits_f32(a[l]);
      if (__builtin_fabsf(x) < (f32)NEAR) continue;
      v[l] = f32_bits(canonical((f32)(quarter ? cos((f64)x) : sin((f64)x))));
    }
  }
  if (i->x[0] & F_FTZ)
    for (int l = 0; l < LANES; l++) v[l] = ftz_bits(v[l]);
  put32(R32(i->d), v, m);
  return STEP_NEXT;
}
static int sin_f32(Warp *w, const Insn *i, u32 m) { return circle(w, i, m, 0); }
static int cos_f32(Warp *w, const Insn *i, u32 m) { return circle(w, i, m, 1); }

const OpEntry ops_transcendental[] = {
    {"ex2.f32", ex2_f32}, {"lg2.f32", lg2_f32}, {"rsqrt.f32", rsqrt_f32},
    {"sin.f32", sin_f32}, {"cos.f32", cos_f32}, {"tanh.f32", tanh_f32}, {0, 0},
};
