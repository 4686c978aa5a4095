/* Logic and shifts (PTX ISA, Logic and Shift Instructions). */
#include "lanes.h"

#define BOTH(name, expr)                   \
  BIN(name##_32, u32, u32, R32, R32, expr) \
  BIN(name##_64, u64, u64, R64, R64, expr)

/* 16-bit operands are canonical, and stay so under these three. */
BOTH(and, a[l] & b[l])
BOTH(or, a[l] | b[l])
BOTH(xor, a[l] ^ b[l])
UN(not_32, u32, u32, R32, R32, ~a[l])
UN(not_64, u64, u64, R64, R64, ~a[l])
UN(not_16, u32, u32, R32, R32, (u16)~a[l])
UN(cnot_32, u32, u32, R32, R32, a[l] == 0)
UN(cnot_64, u64, u64, R64, R64, a[l] == 0)
UN(cnot_16, u32, u32, R32, R32, (u16)a[l] == 0)

/* Shift amounts are unsigned 32 bit; past the width they clamp to it. */
BIN(shl_32, u32, u32, R32, R32, b[l] < 32 ? a[l] << (b[l] & 31) : 0)
BIN(shr_u32, u32, u32, R32, R32, b[l] < 32 ? a[l] >> (b[l] & 31) : 0)
BIN(shr_s32, u32, u32, R32, R32, (u32)((s32)a[l] >> (b[l] < 32 ? b[l] : 31)))
BIN(shl_16, u32, u32, R32, R32, b[l] < 16 ? (u16)(a[l] << (b[l] & 15)) : 0)
BIN(shr_u16, u32, u32, R32, R32, b[l] < 16 ? (u32)(u16)a[l] >> (b[l] & 15) : 0)
BIN(shr_s16, u32, u32, R32, R32, (u16)((s16)a[l] >> (b[l] < 16 ? b[l] : 15)))
BIN32(shl_64, u64, u64, R64, R64, b[l] < 64 ? a[l] << (b[l] & 63) : 0)
BIN32(shr_u64, u64, u64, R64, R64, b[l] < 64 ? a[l] >> (b[l] & 63) : 0)
BIN32(shr_s64, u64, u64, R64, R64, (u64)((s64)a[l] >> (b[l] < 64 ? b[l] : 63)))

/* shf: {b,a} as a 64-bit value, a the low half. */
static inline u32 funnel_l(u32 lo, u32 hi, u32 n) {
  return (u32)(((u64)hi << 32 | lo) << n >> 32);
}
static inline u32 funnel_r(u32 lo, u32 hi, u32 n) {
  return (u32)(((u64)hi << 32 | lo) >> n);
}
#define CLAMP(n) ((n) < 32 ? (n) : 32)
TRI(shf_l_wrap, u32, u32, u32, R32, R32, R32, funnel_l(a[l], b[l], c[l] & 31))
TRI(shf_r_wrap, u32, u32, u32, R32, R32, R32, funnel_r(a[l], b[l], c[l] & 31))
TRI(shf_l_clamp, u32, u32, u32, R32, R32, R32, funnel_l(a[l], b[l], CLAMP(c[l])))
TRI(shf_r_clamp, u32, u32, u32, R32, R32, R32, funnel_r(a[l], b[l], CLAMP(c[l])))

/* lop3: x[0] = truth table; a, b, c select bit 4a + 2b + c of it. */
static inline u32 lop3_word(u32 a, u32 b, u32 c, u32 t) {
  u32 r = 0;
  r |= t & 1 ? ~a & ~b & ~c : 0;
  r |= t & 2 ? ~a & ~b & c : 0;
  r |= t & 4 ? ~a & b & ~c : 0;
  r |= t & 8 ? ~a & b & c : 0;
  r |= t & 16 ? a & ~b & ~c : 0;
  r |= t & 32 ? a & ~b & c : 0;
  r |= t & 64 ? a & b & ~c : 0;
  r |= t & 128 ? a & b & c : 0;
  return r;
}
static int lop3(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a), *b = R32(i->b), *c = R32(i->c);
  u32 *d = R32(i->d), t = (u32)i->x[0];
  switch (t) { /* the tables that compilers write most */
    case 0x96: LANE_LOOP(u32, d, a[l] ^ b[l] ^ c[l]);
    case 0xe8: LANE_LOOP(u32, d, (a[l] & b[l]) | (c[l] & (a[l] | b[l])));
    case 0xca: LANE_LOOP(u32, d, (a[l] & b[l]) | (~a[l] & c[l]));
    case 0xf8: LANE_LOOP(u32, d, a[l] | (b[l] & c[l]));
    case 0xfe: LANE_LOOP(u32, d, a[l] | b[l] | c[l]);
    case 0x80: LANE_LOOP(u32, d, a[l] & b[l] & c[l]);
    case 0xea: LANE_LOOP(u32, d, (a[l] & b[l]) | c[l]);
    default: LANE_LOOP(u32, d, lop3_word(a[l], b[l], c[l], t));
  }
}
/* lop3.or, lop3.and: x[1] = row of the predicate, x[2] = 1 for and, x[3] = row of the
 * predicate's result; d may be absent. The guard is spent before either is written. */
static int lop3_pred(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a), *b = R32(i->b), *c = R32(i->c);
  u32 v[LANES], some = 0, q = RP(i->x[1]);
  for (int l = 0; l < LANES; l++) {
    v[l] = lop3_word(a[l], b[l], c[l], (u32)i->x[0]);
    some |= (u32)(v[l] != 0) << l;
  }
  if (i->d != NOREF) put32(R32(i->d), v, m);
  set_pred(w, i->x[3], i->x[2] ? some & q : some | q, m);
  return STEP_NEXT;
}

const OpEntry ops_logic[] = {
    {"and.b32", and_32}, {"and.b64", and_64}, {"or.b32", or_32}, {"or.b64", or_64},
    {"xor.b32", xor_32}, {"xor.b64", xor_64}, {"not.b32", not_32}, {"not.b64", not_64},
    {"not.b16", not_16}, {"cnot.b32", cnot_32}, {"cnot.b64", cnot_64},
    {"cnot.b16", cnot_16}, {"shl.b32", shl_32}, {"shl.b64", shl_64},
    {"shl.b16", shl_16}, {"shr.u32", shr_u32}, {"shr.s32", shr_s32},
    {"shr.u64", shr_u64}, {"shr.s64", shr_s64}, {"shr.u16", shr_u16},
    {"shr.s16", shr_s16}, {"shf.l.wrap", shf_l_wrap}, {"shf.r.wrap", shf_r_wrap},
    {"shf.l.clamp", shf_l_clamp}, {"shf.r.clamp", shf_r_clamp}, {"lop3", lop3},
    {"lop3.pred", lop3_pred}, {0, 0},
};
