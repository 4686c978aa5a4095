/* Half-precision arithmetic (PTX ISA, Half Precision Floating-Point Instructions).
 *
 * Each half of a row is widened to f32, computed, clamped and narrowed, in passes over
 * whole rows. Results round once, to nearest even:
 *   f16 add, sub, mul   one f32 operation, whose 24 bits are enough for 11
 *   f16 fma             the product is exact in f32; the sum is rounded to odd there
 *   bf16 add, sub       one f32 operation (8 bits from 24)
 *   bf16 mul, fma       f32 may underflow, so the result is rounded to odd from f64
 * x[0] = F_ flags, x[1] = 1 for a pair of numbers, 0 for one in the low half.
 */
#include "directed.h"
#include "lanes.h"
#include "transcendental.h"

/* The f32 sum rounded to odd; operands are f16 and products of f16. */
static inline f32 odd_sum32(f32 a, f32 b) {
  f32 s = a + b, t = s - a;
  f32 e = (a - (s - t)) + (b - t);
  e = s - s == 0.0f ? e : 0.0f;
  u32 v = f32_bits(s), other = (f32_bits(e) ^ v) >> 31;
  u32 moved = v + (~v & 1) * (1 - 2 * other);
  return bits_f32(e == 0.0f ? v : moved);
}
static inline f32 fma_bf16(f32 a, f32 b, f32 c) {
  return narrow_odd(odd_sum((f64)a * (f64)b, (f64)c));
}

/* Sources that an operation does not have are rows of zeros. */
typedef void (*Op)(f32 *d, const f32 *a, const f32 *b, const f32 *c);
#define ROWS(name, expr)                                                     \
  static void name(f32 *d, const f32 *a, const f32 *b, const f32 *c) {       \
    (void)b, (void)c;                                                        \
    for (int l = 0; l < LANES; l++) d[l] = expr;                             \
  }
ROWS(adds, a[l] + b[l])
ROWS(subs, a[l] - b[l])
ROWS(muls, a[l] * b[l])
ROWS(fmas, odd_sum32(a[l] * b[l], c[l]))
ROWS(bf16_muls, narrow_odd((f64)a[l] * (f64)b[l]))
ROWS(bf16_fmas, fma_bf16(a[l], b[l], c[l]))
ROWS(ex2s, ex2(a[l]))
ROWS(tanhs, tanh32(a[l]))

static void load(f32 *d, const u32 *a, u32 shift, u32 flush, u32 brain) {
  u32 h[LANES];
  for (int l = 0; l < LANES; l++) h[l] = a[l] >> shift & 0xffffu;
  if (flush && brain)
    for (int l = 0; l < LANES; l++) h[l] = ftz_bf16(h[l]);
  else if (flush)
    for (int l = 0; l < LANES; l++) h[l] = ftz_f16(h[l]);
  if (brain)
    for (int l = 0; l < LANES; l++) d[l] = bf16_f32(h[l]);
  else
    for (int l = 0; l < LANES; l++) d[l] = f16_f32(h[l]);
}
/* Clamping comes before rounding: the bounds 0 and 1 are numbers of both formats. */
static void store(u32 *d, f32 *v, u32 shift, u32 flags, u32 brain) {
  u32 h[LANES];
  if (flags & F_SAT)
    for (int l = 0; l < LANES; l++) v[l] = sat(v[l]);
  if (flags & F_RELU)
    for (int l = 0; l < LANES; l++) v[l] = relu(v[l]);
  if (brain)
    for (int l = 0; l < LANES; l++) h[l] = f32_bf16(v[l]);
  else
    for (int l = 0; l < LANES; l++) h[l] = f32_f16(v[l]);
  if (flags & F_FTZ && brain)
    for (int l = 0; l < LANES; l++) h[l] = ftz_bf16(h[l]);
  else if (flags & F_FTZ)
    for (int l = 0; l < LANES; l++) h[l] = ftz_f16(h[l]);
  for (int l = 0; l < LANES; l++) d[l] |= h[l] << shift;
}

static int run(Warp *w, const Insn *i, u32 m, Op op, u32 brain) {
  u32 flags = (u32)i->x[0], flush = flags & F_FTZ, out[LANES] = {0};
  f32 src[3][LANES] = {{0}}, r[LANES];
  s32 refs[3] = {i->a, i->b, i->c};
  for (u32 shift = 0; shift <= (i->x[1] ? 16u : 0u); shift += 16) {
    for (int k = 0; k < 3; k++)
      if (refs[k] != NOREF) load(src[k], R32(refs[k]), shift, flush, brain);
    op(r, src[0], src[1], src[2]);
    store(out, r, shift, flags, brain);
  }
  put32(R32(i->d), out, m);
  return STEP_NEXT;
}
#define HANDLE(name, op, brain) \
  static int name(Warp *w, const Insn *i, u32 m) { return run(w, i, m, op, brain); }
HANDLE(add_f16, adds, 0)
HANDLE(sub_f16, subs, 0)
HANDLE(mul_f16, muls, 0)
HANDLE(fma_f16, fmas, 0)
HANDLE(ex2_f16, ex2s, 0)
HANDLE(tanh_f16, tanhs, 0)
HANDLE(add_bf16, adds, 1)
HANDLE(sub_bf16, subs, 1)
HANDLE(mul_bf16, bf16_muls, 1)
HANDLE(fma_bf16_, bf16_fmas, 1)
HANDLE(ex2_bf16, ex2s, 1)
HANDLE(tanh_bf16, tanhs, 1)

/* Flushed halves, for comparisons. */
UN(ftz_half, u32, u32, R32, R32, ftz_f16(a[l] & 0xffffu) | ftz_f16(a[l] >> 16) << 16)

const OpEntry ops_half[] = {
    {"add.f16", add_f16}, {"sub.f16", sub_f16}, {"mul.f16", mul_f16},
    {"fma.f16", fma_f16}, {"ex2.f16", ex2_f16}, {"tanh.f16", tanh_f16},
    {"add.bf16", add_bf16}, {"sub.bf16", sub_bf16}, {"mul.bf16", mul_bf16},
    {"fma.bf16", fma_bf16_}, {"ex2.bf16", ex2_bf16}, {"tanh.bf16", tanh_bf16},
    {"ftz.f16x2", ftz_half}, {0, 0},
};
