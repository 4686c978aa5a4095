/* Integer arithmetic (PTX ISA, Integer Arithmetic Instructions).
 *
 * Values of 8 and 16 bits live zero-extended in 32-bit rows: operands are narrowed on
 * reading and results on writing, so that a row is always in that canonical form.
 */
#include "lanes.h"

#define BOTH(name, expr)                              \
  BIN(name##_32, u32, u32, R32, R32, expr)            \
  BIN(name##_64, u64, u64, R64, R64, expr)
#define MINMAX(name, op)                              \
  BIN(name##_u32, u32, u32, R32, R32, a[l] op b[l] ? a[l] : b[l])   \
  BIN(name##_s32, s32, s32, RS32, RS32, a[l] op b[l] ? a[l] : b[l]) \
  BIN(name##_u64, u64, u64, R64, R64, a[l] op b[l] ? a[l] : b[l])   \
  BIN(name##_s64, s64, s64, RS64, RS64, a[l] op b[l] ? a[l] : b[l]) \
  BIN(name##_s16, u32, u32, R32, R32,                               \
      (u16)((s16)a[l] op (s16)b[l] ? a[l] : b[l]))

BOTH(add, a[l] + b[l])
BOTH(sub, a[l] - b[l])
BOTH(mul, a[l] * b[l])
BIN(add_16, u32, u32, R32, R32, (u16)(a[l] + b[l]))
BIN(sub_16, u32, u32, R32, R32, (u16)(a[l] - b[l]))
BIN(mul_16, u32, u32, R32, R32, (u16)(a[l] * b[l]))
MINMAX(min, <)
MINMAX(max, >)

static inline s32 clamp32(s64 v) {
  return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s32)v;
}
BIN(add_sat, s32, s32, RS32, RS32, clamp32((s64)a[l] + b[l]))
BIN(sub_sat, s32, s32, RS32, RS32, clamp32((s64)a[l] - b[l]))

UN(neg_32, u32, u32, R32, R32, 0u - a[l])
UN(neg_64, u64, u64, R64, R64, 0ull - a[l])
UN(neg_16, u32, u32, R32, R32, (u16)(0u - a[l]))
UN(abs_32, u32, s32, R32, RS32, a[l] < 0 ? 0u - (u32)a[l] : (u32)a[l])
UN(abs_64, u64, s64, R64, RS64, a[l] < 0 ? 0ull - (u64)a[l] : (u64)a[l])
UN(abs_16, u32, u32, R32, R32, (u16)((s16)a[l] < 0 ? 0u - a[l] : a[l]))

BIN(wide_u32, u64, u32, R64, R32, (u64)a[l] * b[l])
BIN(wide_s32, s64, s32, RS64, RS32, (s64)a[l] * b[l])
BIN(wide_u16, u32, u32, R32, R32, (u32)(u16)a[l] * (u16)b[l])
BIN(wide_s16, u32, u32, R32, R32, (u32)((s32)(s16)a[l] * (s16)b[l]))
BIN(hi_u32, u32, u32, R32, R32, (u32)(((u64)a[l] * b[l]) >> 32))
BIN(hi_s32, s32, s32, RS32, RS32, (s32)(((s64)a[l] * b[l]) >> 32))
BIN(hi_u64, u64, u64, R64, R64, (u64)(((unsigned __int128)a[l] * b[l]) >> 64))
BIN(hi_s64, s64, s64, RS64, RS64, (s64)(((__int128)a[l] * b[l]) >> 64))
BIN(hi_u16, u32, u32, R32, R32, ((u32)(u16)a[l] * (u16)b[l]) >> 16)
BIN(hi_s16, u32, u32, R32, R32, (u16)(((s32)(s16)a[l] * (s16)b[l]) >> 16))

TRI(mad_32, u32, u32, u32, R32, R32, R32, a[l] * b[l] + c[l])
TRI(mad_64, u64, u64, u64, R64, R64, R64, a[l] * b[l] + c[l])
TRI(mad_16, u32, u32, u32, R32, R32, R32, (u16)(a[l] * b[l] + c[l]))
TRI(madwide_u32, u64, u32, u64, R64, R32, R64, (u64)a[l] * b[l] + c[l])
TRI(madwide_s32, u64, s32, u64, R64, RS32, R64, (u64)((s64)a[l] * b[l]) + c[l])
TRI(madwide_u16, u32, u32, u32, R32, R32, R32, (u32)(u16)a[l] * (u16)b[l] + c[l])
TRI(madwide_s16, u32, u32, u32, R32, R32, R32,
    (u32)((s32)(s16)a[l] * (s16)b[l]) + c[l])
TRI(madhi_u32, u32, u32, u32, R32, R32, R32, (u32)(((u64)a[l] * b[l]) >> 32) + c[l])
TRI(madhi_s32, u32, s32, u32, R32, RS32, R32,
    (u32)(((s64)a[l] * b[l]) >> 32) + c[l])

/* Division by zero: PTX leaves the value unspecified; hardware gives all ones, and the
 * dividend as the remainder. INT_MIN / -1 wraps. */
static inline u32 divu32(u32 a, u32 b) { return b ? a / b : FULL; }
static inline u32 remu32(u32 a, u32 b) { return b ? a % b : a; }
static inline u64 divu64(u64 a, u64 b) { return b ? a / b : ~0ull; }
static inline u64 remu64(u64 a, u64 b) { return b ? a % b : a; }
static inline s32 divs32(s32 a, s32 b) {
  return !b ? -1 : b == -1 ? (s32)(0u - (u32)a) : a / b;
}
static inline s32 rems32(s32 a, s32 b) { return !b ? a : b == -1 ? 0 : a % b; }
static inline s64 divs64(s64 a, s64 b) {
  return !b ? -1 : b == -1 ? (s64)(0ull - (u64)a) : a / b;
}
static inline s64 rems64(s64 a, s64 b) { return !b ? a : b == -1 ? 0 : a % b; }
BIN(div_u32, u32, u32, R32, R32, divu32(a[l], b[l]))
BIN(rem_u32, u32, u32, R32, R32, remu32(a[l], b[l]))
BIN(div_s32, s32, s32, RS32, RS32, divs32(a[l], b[l]))
BIN(rem_s32, s32, s32, RS32, RS32, rems32(a[l], b[l]))
BIN(div_u64, u64, u64, R64, R64, divu64(a[l], b[l]))
BIN(rem_u64, u64, u64, R64, R64, remu64(a[l], b[l]))
BIN(div_s64, s64, s64, RS64, RS64, divs64(a[l], b[l]))
BIN(rem_s64, s64, s64, RS64, RS64, rems64(a[l], b[l]))
BIN(div_u16, u32, u32, R32, R32, (u16)divu32((u16)a[l], (u16)b[l]))
BIN(rem_u16, u32, u32, R32, R32, (u16)remu32((u16)a[l], (u16)b[l]))
BIN(div_s16, u32, u32, R32, R32, (u16)divs32((s16)a[l], (s16)b[l]))
BIN(rem_s16, u32, u32, R32, R32, (u16)rems32((s16)a[l], (s16)b[l]))

const OpEntry ops_integer[] = {
    {"add.b32", add_32}, {"add.b64", add_64}, {"add.b16", add_16},
    {"sub.b32", sub_32}, {"sub.b64", sub_64}, {"sub.b16", sub_16},
    {"mul.b32", mul_32}, {"mul.b64", mul_64}, {"mul.b16", mul_16},
    {"add.sat.s32", add_sat}, {"sub.sat.s32", sub_sat},
    {"min.u32", min_u32}, {"min.s32", min_s32}, {"min.u64", min_u64},
    {"min.s64", min_s64}, {"min.s16", min_s16}, {"min.u16", min_u32},
    {"max.u32", max_u32}, {"max.s32", max_s32}, {"max.u64", max_u64},
    {"max.s64", max_s64}, {"max.s16", max_s16}, {"max.u16", max_u32},
    {"neg.b32", neg_32}, {"neg.b64", neg_64}, {"neg.b16", neg_16},
    {"abs.s32", abs_32}, {"abs.s64", abs_64}, {"abs.s16", abs_16},
    {"mul.wide.u32", wide_u32}, {"mul.wide.s32", wide_s32},
    {"mul.wide.u16", wide_u16}, {"mul.wide.s16", wide_s16},
    {"mul.hi.u32", hi_u32}, {"mul.hi.s32", hi_s32}, {"mul.hi.u64", hi_u64},
    {"mul.hi.s64", hi_s64}, {"mul.hi.u16", hi_u16}, {"mul.hi.s16", hi_s16},
    {"mad.b32", mad_32}, {"mad.b64", mad_64}, {"mad.b16", mad_16},
    {"mad.wide.u32", madwide_u32}, {"mad.wide.s32", madwide_s32},
    {"mad.wide.u16", madwide_u16}, {"mad.wide.s16", madwide_s16},
    {"mad.hi.u32", madhi_u32}, {"mad.hi.s32", madhi_s32},
    {"div.u32", div_u32}, {"div.s32", div_s32}, {"div.u64", div_u64},
    {"div.s64", div_s64}, {"div.u16", div_u16}, {"div.s16", div_s16},
    {"rem.u32", rem_u32}, {"rem.s32", rem_s32}, {"rem.u64", rem_u64},
    {"rem.s64", rem_s64}, {"rem.u16", rem_u16}, {"rem.s16", rem_s16}, {0, 0},
};
