/* Integer arithmetic on one number a lane (PTX ISA, Integer Arithmetic Instructions:
 * add, sub, neg, abs, min, max, sad, div, rem).
 *
 * Values of 8 and 16 bits live zero-extended in 32-bit rows: operands are narrowed on
 * reading and results on writing, so that a row is always in that canonical form.
 */
#include "lanes.h"

#define BOTH(name, expr)                    \
  BIN(name##_32, u32, u32, R32, R32, expr)  \
  BIN(name##_64, u64, u64, R64, R64, expr)
#define EXTREME(name, op)                                                    \
  BIN(name##_u32, u32, u32, R32, R32, a[l] op b[l] ? a[l] : b[l])            \
  BIN(name##_s32, s32, s32, RS32, RS32, a[l] op b[l] ? a[l] : b[l])          \
  BIN(name##_u64, u64, u64, R64, R64, a[l] op b[l] ? a[l] : b[l])            \
  BIN(name##_s64, s64, s64, RS64, RS64, a[l] op b[l] ? a[l] : b[l])          \
  BIN(name##_u16, u32, u32, R32, R32,                                        \
      (u16)a[l] op (u16)b[l] ? (u16)a[l] : (u16)b[l])                        \
  BIN(name##_s16, u32, u32, R32, R32,                                        \
      (u16)((s16)a[l] op (s16)b[l] ? a[l] : b[l]))                           \
  BIN(name##_relu, s32, s32, RS32, RS32,                                     \
      ({ s32 v = a[l] op b[l] ? a[l] : b[l]; v < 0 ? 0 : v; }))

BOTH(add, a[l] + b[l])
BOTH(sub, a[l] - b[l])
BIN(add_16, u32, u32, R32, R32, (u16)(a[l] + b[l]))
BIN(sub_16, u32, u32, R32, R32, (u16)(a[l] - b[l]))
EXTREME(min, <)
EXTREME(max, >)

static inline s32 clamp32(s64 v) {
  return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s32)v;
}
BIN(add_sat_s32, s32, s32, RS32, RS32, clamp32((s64)a[l] + b[l]))
BIN(sub_sat_s32, s32, s32, RS32, RS32, clamp32((s64)a[l] - b[l]))
BIN(add_sat_u32, u32, u32, R32, R32, a[l] + b[l] < a[l] ? FULL : a[l] + b[l])

UN(neg_32, u32, u32, R32, R32, 0u - a[l])
UN(neg_64, u64, u64, R64, R64, 0ull - a[l])
UN(neg_16, u32, u32, R32, R32, (u16)(0u - a[l]))
UN(abs_32, u32, s32, R32, RS32, a[l] < 0 ? 0u - (u32)a[l] : (u32)a[l])
UN(abs_64, u64, s64, R64, RS64, a[l] < 0 ? 0ull - (u64)a[l] : (u64)a[l])
UN(abs_16, u32, u32, R32, R32, (u16)((s16)a[l] < 0 ? 0u - a[l] : a[l]))

#define DISTANCE(T, x, y) ((T)(x) < (T)(y) ? (y) - (x) : (x) - (y))
TRI(sad_u32, u32, u32, u32, R32, R32, R32, c[l] + DISTANCE(u32, a[l], b[l]))
TRI(sad_s32, u32, u32, u32, R32, R32, R32, c[l] + DISTANCE(s32, a[l], b[l]))
TRI(sad_u64, u64, u64, u64, R64, R64, R64, c[l] + DISTANCE(u64, a[l], b[l]))
TRI(sad_s64, u64, u64, u64, R64, R64, R64, c[l] + DISTANCE(s64, a[l], b[l]))
TRI(sad_u16, u32, u32, u32, R32, R32, R32, (u16)(c[l] + DISTANCE(u16, a[l], b[l])))
TRI(sad_s16, u32, u32, u32, R32, R32, R32, (u16)(c[l] + DISTANCE(s16, a[l], b[l])))

/* Division by zero: PTX leaves the value open; hardware gives all ones, and the
 * dividend as the remainder. The least number by -1 wraps. */
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

#define SIX(op)                                                              \
  {#op ".u32", op##_u32}, {#op ".s32", op##_s32}, {#op ".u64", op##_u64},    \
  {#op ".s64", op##_s64}, {#op ".u16", op##_u16}, {#op ".s16", op##_s16}

const OpEntry ops_integer[] = {
    {"add.b32", add_32}, {"add.b64", add_64}, {"add.b16", add_16},
    {"sub.b32", sub_32}, {"sub.b64", sub_64}, {"sub.b16", sub_16},
    {"add.sat.s32", add_sat_s32}, {"sub.sat.s32", sub_sat_s32},
    {"add.sat.u32", add_sat_u32}, SIX(min), SIX(max), SIX(sad), SIX(div), SIX(rem),
    {"min.relu.s32", min_relu}, {"max.relu.s32", max_relu},
    {"neg.b32", neg_32}, {"neg.b64", neg_64}, {"neg.b16", neg_16},
    {"abs.s32", abs_32}, {"abs.s64", abs_64}, {"abs.s16", abs_16}, {0, 0},
};
