/* Single-precision arithmetic (PTX ISA, Floating-Point Instructions: add, sub, mul,
 * fma, div, rcp, sqrt), in every rounding mode, and the f32x2 forms of it.
 *
 * An operation is named by its rounding mode unless that is the nearest: `add.f32`,
 * `add.f32.rm`. An f32x2 row is 64 numbers in lane order, so that both forms share one
 * loop. x[0] holds the F_ flags.
 */
#include "directed.h"
#include "lanes.h"

/* Loops over n numbers; `f` takes them and a rounding mode. The second of each pair
 * flushes what goes in and what comes out (.ftz). */
#define LOOP(step, expr)                                                            \
  for (u32 left = n; left; left -= LANES, d += LANES, step) {                       \
    _Pragma("GCC ivdep") for (int k = 0; k < LANES; k++) d[k] = expr;               \
  }
#define ONE(name, f, R)                                                             \
  static void name(f32 *d, const f32 *a, u32 n) {                                   \
    LOOP(a += LANES, canonical(f(a[k], R)))                                         \
  }                                                                                 \
  static void name##_ftz(f32 *d, const f32 *a, u32 n) {                             \
    LOOP(a += LANES, ftz(canonical(f(ftz(a[k]), R))))                               \
  }
#define TWO(name, f, R)                                                             \
  static void name(f32 *d, const f32 *a, const f32 *b, u32 n) {                     \
    LOOP((a += LANES, b += LANES), canonical(f(a[k], b[k], R)))                     \
  }                                                                                 \
  static void name##_ftz(f32 *d, const f32 *a, const f32 *b, u32 n) {               \
    LOOP((a += LANES, b += LANES), ftz(canonical(f(ftz(a[k]), ftz(b[k]), R))))      \
  }
#define THREE(name, f, R)                                                           \
  static void name(f32 *d, const f32 *a, const f32 *b, const f32 *c, u32 n) {       \
    LOOP((a += LANES, b += LANES, c += LANES), canonical(f(a[k], b[k], c[k], R)))   \
  }                                                                                 \
  static void name##_ftz(f32 *d, const f32 *a, const f32 *b, const f32 *c, u32 n) { \
    LOOP((a += LANES, b += LANES, c += LANES),                                      \
         ftz(canonical(f(ftz(a[k]), ftz(b[k]), ftz(c[k]), R))))                     \
  }
typedef void (*Op1)(f32 *d, const f32 *a, u32 n);
typedef void (*Op2)(f32 *d, const f32 *a, const f32 *b, u32 n);
typedef void (*Op3)(f32 *d, const f32 *a, const f32 *b, const f32 *c, u32 n);

/* With all lanes an operation writes its destination itself; otherwise, and with .sat,
 * its results are finished in a row aside. */
#define DIRECT (m == FULL && !(i->x[0] & ~F_FTZ))
typedef struct Aside {
  f32 v[2 * LANES];
} Aside;

static int finish(Warp *w, const Insn *i, u32 m, Aside *r, u32 n) {
  if (i->x[0] & F_SAT)
    for (u32 k = 0; k < n; k++) r->v[k] = sat(r->v[k]);
  if (n == LANES) {
    put32(R32(i->d), (const u32 *)(const void *)r->v, m);
  } else {
    u64 v[LANES];
    memcpy(v, r->v, sizeof v);
    put64(R64(i->d), v, m);
  }
  return STEP_NEXT;
}
static int run1(Warp *w, const Insn *i, u32 m, Op1 op, u32 n) {
  Aside r;
  op(DIRECT ? RF32(i->d) : r.v, RF32(i->a), n);
  return DIRECT ? STEP_NEXT : finish(w, i, m, &r, n);
}
static int run2(Warp *w, const Insn *i, u32 m, Op2 op, u32 n) {
  Aside r;
  op(DIRECT ? RF32(i->d) : r.v, RF32(i->a), RF32(i->b), n);
  return DIRECT ? STEP_NEXT : finish(w, i, m, &r, n);
}
static int run3(Warp *w, const Insn *i, u32 m, Op3 op, u32 n) {
  Aside r;
  op(DIRECT ? RF32(i->d) : r.v, RF32(i->a), RF32(i->b), RF32(i->c), n);
  return DIRECT ? STEP_NEXT : finish(w, i, m, &r, n);
}
#define HANDLE(name, run, op, n)                                         \
  static int name(Warp *w, const Insn *i, u32 m) {                       \
    return run(w, i, m, i->x[0] & F_FTZ ? op##_ftz : op, n);             \
  }

#define MODE(mode, R)                                                    \
  TWO(adds_##mode, add32, R)                                             \
  TWO(subs_##mode, sub32, R)                                             \
  TWO(muls_##mode, mul32, R)                                             \
  TWO(divs_##mode, div32, R)                                             \
  THREE(fmas_##mode, fma32, R)                                           \
  ONE(rcps_##mode, rcp32, R)                                             \
  ONE(sqrts_##mode, sqrt32, R)                                           \
  HANDLE(add_##mode, run2, adds_##mode, LANES)                           \
  HANDLE(sub_##mode, run2, subs_##mode, LANES)                           \
  HANDLE(mul_##mode, run2, muls_##mode, LANES)                           \
  HANDLE(div_##mode, run2, divs_##mode, LANES)                           \
  HANDLE(fma_##mode, run3, fmas_##mode, LANES)                           \
  HANDLE(rcp_##mode, run1, rcps_##mode, LANES)                           \
  HANDLE(sqrt_##mode, run1, sqrts_##mode, LANES)                         \
  HANDLE(add2_##mode, run2, adds_##mode, 2 * LANES)                      \
  HANDLE(sub2_##mode, run2, subs_##mode, 2 * LANES)                      \
  HANDLE(mul2_##mode, run2, muls_##mode, 2 * LANES)                      \
  HANDLE(fma2_##mode, run3, fmas_##mode, 2 * LANES)
MODE(rn, RN)
MODE(rz, RZ)
MODE(rm, RM)
MODE(rp, RP)

/* div.approx is a * (1 / b): past 2^126 the reciprocal is flushed to zero, and an
 * infinite a makes that NaN. */
static inline f32 div_fast(f32 a, f32 b, u32 r) {
  (void)r;
  f32 huge = __builtin_fabsf(b);
  f32 q = a / b, zero = a * (b > 0.0f ? 0.0f : -0.0f);
  return huge > 8.507059173023462e37f && huge <= 3.4028234663852886e38f ? zero : q;
}
TWO(divs_approx, div_fast, RN)
HANDLE(div_approx, run2, divs_approx, LANES)

#define OPS(mode, s)                                                         \
  {"add.f32" s, add_##mode}, {"sub.f32" s, sub_##mode},                      \
  {"mul.f32" s, mul_##mode}, {"div.f32" s, div_##mode},                      \
  {"fma.f32" s, fma_##mode}, {"rcp.f32" s, rcp_##mode},                      \
  {"sqrt.f32" s, sqrt_##mode}, {"add.f32x2" s, add2_##mode},                 \
  {"sub.f32x2" s, sub2_##mode}, {"mul.f32x2" s, mul2_##mode},                \
  {"fma.f32x2" s, fma2_##mode}

const OpEntry ops_float[] = {
    OPS(rn, ""), OPS(rz, ".rz"), OPS(rm, ".rm"), OPS(rp, ".rp"),
    {"div.approx.f32", div_approx}, {0, 0},
};
