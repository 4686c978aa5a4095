/* Comparisons into predicates (PTX ISA, Comparison and Selection Instructions: setp). */
#include "fbits.h"
#include "lanes.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#elif defined(__AVX2__)
#include <immintrin.h>
#endif

/* One bit a lane from a row of 0 and ~0. */
static inline u32 mask_of(const u32 *hit) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  u32 lo = _mm512_movepi32_mask(_mm512_loadu_si512(hit));
  return lo | (u32)_mm512_movepi32_mask(_mm512_loadu_si512(hit + 16)) << 16;
#elif defined(__AVX2__)
  u32 bits = 0;
  for (int k = 0; k < LANES; k += 8) {
    __m256 v = _mm256_loadu_ps((const f32 *)(const void *)(hit + k));
    bits |= (u32)_mm256_movemask_ps(v) << k;
  }
  return bits;
#else
  u32 bits = 0;
  for (int l = 0; l < LANES; l++) bits |= (hit[l] & 1u) << l;
  return bits;
#endif
}

/* x[0] = boolean operation (0 none, 1 and, 2 or, 3 xor); c = its predicate;
 * x[1] = second destination, the boolean of the complement. */
static int put(Warp *w, const Insn *i, u32 m, u32 bits) {
  u32 other = ~bits;
  if (i->x[0]) {
    u32 c = RP(i->c);
    switch (i->x[0]) {
      case 1: bits &= c; other &= c; break;
      case 2: bits |= c; other |= c; break;
      default: bits ^= c; other ^= c;
    }
  }
  set_pred(w, i->d, bits, m);
  set_pred(w, i->x[1], other, m);
  return STEP_NEXT;
}

#define CMP(name, T, ROW, expr)                                   \
  static int name(Warp *w, const Insn *i, u32 m) {                \
    const T *a = (const T *)ROW(i->a), *b = (const T *)ROW(i->b); \
    u32 hit[LANES];                                               \
    for (int l = 0; l < LANES; l++) hit[l] = (expr) ? ~0u : 0u;   \
    return put(w, i, m, mask_of(hit));                            \
  }
#define ORDER(suffix, T, ROW, x, y)            \
  CMP(eq_##suffix, T, ROW, x == y)             \
  CMP(ne_##suffix, T, ROW, x != y)             \
  CMP(lt_##suffix, T, ROW, x < y)              \
  CMP(le_##suffix, T, ROW, x <= y)             \
  CMP(gt_##suffix, T, ROW, x > y)              \
  CMP(ge_##suffix, T, ROW, x >= y)

ORDER(u32, u32, R32, a[l], b[l])
ORDER(s32, s32, RS32, a[l], b[l])
ORDER(u64, u64, R64, a[l], b[l])
ORDER(s64, s64, RS64, a[l], b[l])
ORDER(u16, u32, R32, (u16)a[l], (u16)b[l])
ORDER(s16, u32, R32, (s16)a[l], (s16)b[l])

/* Ordered comparisons are false with a NaN operand, the u forms are true; `ne` is an
 * ordered comparison in PTX, unlike in C. */
#define FLOAT(suffix, T, ROW, x, y)                                        \
  CMP(eq_##suffix, T, ROW, x == y)                                         \
  CMP(ne_##suffix, T, ROW, (x < y) | (x > y))                              \
  CMP(lt_##suffix, T, ROW, x < y)                                          \
  CMP(le_##suffix, T, ROW, x <= y)                                         \
  CMP(gt_##suffix, T, ROW, x > y)                                          \
  CMP(ge_##suffix, T, ROW, x >= y)                                         \
  CMP(equ_##suffix, T, ROW, !((x < y) | (x > y)))                          \
  CMP(neu_##suffix, T, ROW, x != y)                                        \
  CMP(ltu_##suffix, T, ROW, !(x >= y))                                     \
  CMP(leu_##suffix, T, ROW, !(x > y))                                      \
  CMP(gtu_##suffix, T, ROW, !(x <= y))                                     \
  CMP(geu_##suffix, T, ROW, !(x < y))                                      \
  CMP(num_##suffix, T, ROW, (x == x) & (y == y))                           \
  CMP(nan_##suffix, T, ROW, (x != x) | (y != y))

FLOAT(f32, f32, RF32, a[l], b[l])
FLOAT(f32ftz, f32, RF32, ftz(a[l]), ftz(b[l]))
FLOAT(f64, f64, RF64, a[l], b[l])

#define ORDER_OPS(s, t)                                                      \
  {"setp.eq." t, eq_##s}, {"setp.ne." t, ne_##s}, {"setp.lt." t, lt_##s},    \
  {"setp.le." t, le_##s}, {"setp.gt." t, gt_##s}, {"setp.ge." t, ge_##s}
#define FLOAT_OPS(s, t)                                                      \
  ORDER_OPS(s, t), {"setp.equ." t, equ_##s}, {"setp.neu." t, neu_##s},       \
  {"setp.ltu." t, ltu_##s}, {"setp.leu." t, leu_##s}, {"setp.gtu." t, gtu_##s}, \
  {"setp.geu." t, geu_##s}, {"setp.num." t, num_##s}, {"setp.nan." t, nan_##s}

const OpEntry ops_compare[] = {
    ORDER_OPS(u32, "u32"), ORDER_OPS(s32, "s32"), ORDER_OPS(u64, "u64"),
    ORDER_OPS(s64, "s64"), ORDER_OPS(u16, "u16"), ORDER_OPS(s16, "s16"),
    FLOAT_OPS(f32, "f32"), FLOAT_OPS(f32ftz, "f32.ftz"), FLOAT_OPS(f64, "f64"),
    {0, 0},
};
