/* Single-precision arithmetic (PTX ISA, Floating-Point Instructions: add, sub, mul,
 * fma, div, rcp, sqrt), in every rounding mode, and the f32x2 forms of it.
 *
 * An operation is named by its rounding mode unless that is the nearest: `add.f32`,
 * `add.f32.rm`. An f32x2 row is 64 numbers in lane order, so that both forms share one
 * loop. x[0] holds the F_ flags.
 */
#include "directed.h"
#include "lanes.h"

#define ROWS(name, params, next, expr)                                        \
  static void name(f32 *d, params, u32 n) {                                   \
    for (u32 left = n; left; left -= LANES, d += LANES, next) {               \
      _Pragma("GCC ivdep") for (int k = 0; k < LANES; k++) d[k] = canonical(expr); \
    }                                                                         \
  }
#define ONE(name, expr) ROWS(name, const f32 *a, a += LANES, expr)
#define TWO(name, expr) \
  ROWS(name, const f32 *a COMMA const f32 *b, (a += LANES, b += LANES), expr)
#define THREE(name, expr)                                              \
  ROWS(name, const f32 *a COMMA const f32 *b COMMA const f32 *c,       \
       (a += LANES, b += LANES, c += LANES), expr)
#define COMMA ,
typedef void (*Op1)(f32 *d, const f32 *a, u32 n);
typedef void (*Op2)(f32 *d, const f32 *a, const f32 *b, u32 n);
typedef void (*Op3)(f32 *d, const f32 *a, const f32 *b, const f32 *c, u32 n);

/* Without modifiers and with all lanes an operation writes its destination itself;
 * otherwise its sources are flushed and its results clamped in rows aside. */
#define PLAIN (!i->x[0] && m == FULL)
typedef struct Aside {
  f32 v[2 * LANES];
} Aside;

static const f32 *flushed(Aside *to, const f32 *from, u32 flags, u32 n) {
  if (!(flags & F_FTZ)) return from;
  for (u32 k = 0; k < n; k++) to->v[k] = ftz(from[k]);
  return to->v;
}
/* .ftz flushes what comes out too; .sat and .relu follow. */
static int finish(Warp *w, const Insn *i, u32 m, Aside *r, u32 n) {
  u32 flags = (u32)i->x[0];
  if (flags & F_FTZ)
    for (u32 k = 0; k < n; k++) r->v[k] = ftz(r->v[k]);
  if (flags & F_SAT)
    for (u32 k = 0; k < n; k++) r->v[k] = sat(r->v[k]);
  if (flags & F_RELU)
    for (u32 k = 0; k < n; k++) r->v[k] = relu(r->v[k]);
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
  Aside x, r;
  op(r.v, flushed(&x, RF32(i->a), (u32)i->x[0], n), n);
  return finish(w, i, m, &r, n);
}
static int run2(Warp *w, const Insn *i, u32 m, Op2 op, u32 n) {
  u32 flags = (u32)i->x[0];
  Aside x, y, r;
  op(r.v, flushed(&x, RF32(i->a), flags, n), flushed(&y, RF32(i->b), flags, n), n);
  return finish(w, i, m, &r, n);
}
static int run3(Warp *w, const Insn *i, u32 m, Op3 op, u32 n) {
  u32 flags = (u32)i->x[0];
  Aside x, y, z, r;
  op(r.v, flushed(&x, RF32(i->a), flags, n), flushed(&y, RF32(i->b), flags, n),
     flushed(&z, RF32(i->c), flags, n), n);
  return finish(w, i, m, &r, n);
}
#define HANDLE1(name, op, n)                                            \
  static int name(Warp *w, const Insn *i, u32 m) {                      \
    if (!PLAIN) return run1(w, i, m, op, n);                            \
    op(RF32(i->d), RF32(i->a), n);                                      \
    return STEP_NEXT;                                                   \
  }
#define HANDLE2(name, op, n)                                            \
  static int name(Warp *w, const Insn *i, u32 m) {                      \
    if (!PLAIN) return run2(w, i, m, op, n);                            \
    op(RF32(i->d), RF32(i->a), RF32(i->b), n);                          \
    return STEP_NEXT;                                                   \
  }
#define HANDLE3(name, op, n)                                            \
  static int name(Warp *w, const Insn *i, u32 m) {                      \
    if (!PLAIN) return run3(w, i, m, op, n);                            \
    op(RF32(i->d), RF32(i->a), RF32(i->b), RF32(i->c), n);              \
    return STEP_NEXT;                                                   \
  }

#define MODE(mode, R)                                                    \
  TWO(adds_##mode, add32(a[k], b[k], R))                           \
  TWO(subs_##mode, add32(a[k], -b[k], R))                          \
  TWO(muls_##mode, mul32(a[k], b[k], R))                           \
  TWO(divs_##mode, div32(a[k], b[k], R))                           \
  THREE(fmas_##mode, fma32(a[k], b[k], c[k], R))                   \
  ONE(rcps_##mode, div32(1.0f, a[k], R))                           \
  ONE(sqrts_##mode, sqrt32(a[k], R))                               \
  HANDLE2(add_##mode, adds_##mode, LANES)                                \
  HANDLE2(sub_##mode, subs_##mode, LANES)                                \
  HANDLE2(mul_##mode, muls_##mode, LANES)                                \
  HANDLE2(div_##mode, divs_##mode, LANES)                                \
  HANDLE3(fma_##mode, fmas_##mode, LANES)                                \
  HANDLE1(rcp_##mode, rcps_##mode, LANES)                                \
  HANDLE1(sqrt_##mode, sqrts_##mode, LANES)                              \
  HANDLE2(add2_##mode, adds_##mode, 2 * LANES)                           \
  HANDLE2(sub2_##mode, subs_##mode, 2 * LANES)                           \
  HANDLE2(mul2_##mode, muls_##mode, 2 * LANES)                           \
  HANDLE3(fma2_##mode, fmas_##mode, 2 * LANES)
MODE(rn, RN)
MODE(rz, RZ)
MODE(rm, RM)
MODE(rp, RP)

/* div.approx is a * (1 / b): past 2^126 the reciprocal is flushed to zero, and an
 * infinite a makes that NaN. */
static inline f32 div_fast(f32 a, f32 b) {
  f32 huge = __builtin_fabsf(b);
  f32 q = a / b, zero = a * (b > 0.0f ? 0.0f : -0.0f);
  return huge > 8.507059173023462e37f && huge <= 3.4028234663852886e38f ? zero : q;
}
TWO(divs_approx, div_fast(a[k], b[k]))
HANDLE2(div_approx, divs_approx, LANES)

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
