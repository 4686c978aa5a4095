/* Logic, shifts and bit fields (PTX ISA, Logic and Shift Instructions; Integer
 * Arithmetic Instructions: popc, clz, bfind, brev, bfe, bfi, szext, bmsk). */
#include "lanes.h"

#define BOTH(name, expr)                   \
  BIN(name##_32, u32, u32, R32, R32, expr) \
  BIN(name##_64, u64, u64, R64, R64, expr)

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
#define SHIFT64(name, expr)                          \
  static int name(Warp *w, const Insn *i, u32 m) {   \
    const u64 *a = R64(i->a);                        \
    const u32 *b = R32(i->b);                        \
    u64 *d = R64(i->d);                              \
    LANE_LOOP(u64, d, expr);                         \
  }
SHIFT64(shl_64, b[l] < 64 ? a[l] << (b[l] & 63) : 0)
SHIFT64(shr_u64, b[l] < 64 ? a[l] >> (b[l] & 63) : 0)
SHIFT64(shr_s64, (u64)((s64)a[l] >> (b[l] < 64 ? b[l] : 63)))

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

UN(popc_32, u32, u32, R32, R32, (u32)__builtin_popcount(a[l]))
UN(popc_64, u32, u64, R32, R64, (u32)__builtin_popcountll(a[l]))
UN(clz_32, u32, u32, R32, R32, a[l] ? (u32)__builtin_clz(a[l]) : 32)
UN(clz_64, u32, u64, R32, R64, a[l] ? (u32)__builtin_clzll(a[l]) : 64)
static inline u32 reverse(u32 v) {
  v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
  v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(v);
}
UN(brev_32, u32, u32, R32, R32, reverse(a[l]))
UN(brev_64, u64, u64, R64, R64, (u64)reverse((u32)a[l]) << 32 | reverse((u32)(a[l] >> 32)))

/* bfind: highest bit that differs from the sign, ~0 if none; shiftamt gives the left
 * shift that brings it to the top. */
static inline u32 find(u64 v, u32 bits, u32 shiftamt) {
  if (!v) return FULL;
  u32 at = 63 - (u32)__builtin_clzll(v);
  return shiftamt ? bits - 1 - at : at;
}
#define SIGNLESS32(v) ((u32)((s32)(v) < 0 ? ~(v) : (v)))
#define SIGNLESS64(v) ((u64)((s64)(v) < 0 ? ~(v) : (v)))
UN(bfind_u32, u32, u32, R32, R32, find(a[l], 32, (u32)i->x[0]))
UN(bfind_s32, u32, u32, R32, R32, find(SIGNLESS32(a[l]), 32, (u32)i->x[0]))
UN(bfind_u64, u32, u64, R32, R64, find(a[l], 64, (u32)i->x[0]))
UN(bfind_s64, u32, u64, R32, R64, find(SIGNLESS64(a[l]), 64, (u32)i->x[0]))

/* bfe: position and length are the low 8 bits of b and c. */
static inline u64 extract(u64 a, u32 pos, u32 len, u32 bits, u32 sign) {
  pos &= 255;
  len &= 255;
  u32 msb = bits - 1;
  u64 fill = 0;
  if (sign && len) {
    u32 at = pos + len - 1 < msb ? pos + len - 1 : msb;
    fill = a >> at & 1;
  }
  u64 low = pos < bits ? a >> pos : 0;
  u32 have = pos < bits ? bits - pos : 0; /* bits that come from the source */
  if (len < have) have = len;
  u64 mask = have >= 64 ? ~0ull : (1ull << have) - 1;
  return (low & mask) | (fill ? ~mask : 0);
}
TRI(bfe_u32, u32, u32, u32, R32, R32, R32, (u32)extract(a[l], b[l], c[l], 32, 0))
TRI(bfe_s32, u32, u32, u32, R32, R32, R32, (u32)extract(a[l], b[l], c[l], 32, 1))
#define BFE64(name, sign)                                              \
  static int name(Warp *w, const Insn *i, u32 m) {                     \
    const u64 *a = R64(i->a);                                          \
    const u32 *b = R32(i->b), *c = R32(i->c);                          \
    u64 *d = R64(i->d);                                                \
    LANE_LOOP(u64, d, extract(a[l], b[l], c[l], 64, sign));            \
  }
BFE64(bfe_u64, 0)
BFE64(bfe_s64, 1)

/* bfi: a into b at c, x[0] = row of the length */
static inline u64 insert(u64 a, u64 b, u32 pos, u32 len, u32 bits) {
  pos &= 255;
  len &= 255;
  if (pos >= bits || !len) return b;
  if (len > bits - pos) len = bits - pos;
  u64 mask = (len >= 64 ? ~0ull : (1ull << len) - 1) << pos;
  return (b & ~mask) | (a << pos & mask);
}
static int bfi_32(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a), *b = R32(i->b), *c = R32(i->c), *n = R32(i->x[0]);
  u32 *d = R32(i->d);
  LANE_LOOP(u32, d, (u32)insert(a[l], b[l], c[l], n[l], 32));
}
static int bfi_64(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a), *b = R64(i->b);
  const u32 *c = R32(i->c), *n = R32(i->x[0]);
  u64 *d = R64(i->d);
  LANE_LOOP(u64, d, insert(a[l], b[l], c[l], n[l], 64));
}

/* szext, bmsk: x[0] = 1 for wrap, 0 for clamp */
static inline u32 amount(u32 v, s32 wrap) { return wrap ? v & 31u : v < 32 ? v : 32; }
static inline u32 szext(u32 a, u32 n, u32 sign) {
  if (!n) return 0;
  if (n >= 32) return a;
  u32 v = a & ((1u << n) - 1);
  return sign && (v >> (n - 1) & 1) ? v | FULL << n : v;
}
BIN(szext_u32, u32, u32, R32, R32, szext(a[l], amount(b[l], i->x[0]), 0))
BIN(szext_s32, u32, u32, R32, R32, szext(a[l], amount(b[l], i->x[0]), 1))
static inline u32 bmsk(u32 pos, u32 len) {
  u64 mask = ((1ull << len) - 1) << pos;
  return (u32)mask;
}
BIN(bmsk_32, u32, u32, R32, R32, bmsk(amount(a[l], i->x[0]), amount(b[l], i->x[0])))

const OpEntry ops_logic[] = {
    {"and.b32", and_32}, {"and.b64", and_64}, {"or.b32", or_32}, {"or.b64", or_64},
    {"xor.b32", xor_32}, {"xor.b64", xor_64}, {"not.b32", not_32}, {"not.b64", not_64},
    {"not.b16", not_16}, {"cnot.b32", cnot_32}, {"cnot.b64", cnot_64},
    {"cnot.b16", cnot_16}, {"shl.b32", shl_32}, {"shl.b64", shl_64},
    {"shl.b16", shl_16}, {"shr.u32", shr_u32}, {"shr.s32", shr_s32},
    {"shr.u64", shr_u64}, {"shr.s64", shr_s64}, {"shr.u16", shr_u16},
    {"shr.s16", shr_s16}, {"shf.l.wrap", shf_l_wrap}, {"shf.r.wrap", shf_r_wrap},
    {"shf.l.clamp", shf_l_clamp}, {"shf.r.clamp", shf_r_clamp}, {"lop3", lop3},
    {"popc.b32", popc_32}, {"popc.b64", popc_64}, {"clz.b32", clz_32},
    {"clz.b64", clz_64}, {"brev.b32", brev_32}, {"brev.b64", brev_64},
    {"bfind.u32", bfind_u32}, {"bfind.s32", bfind_s32}, {"bfind.u64", bfind_u64},
    {"bfind.s64", bfind_s64}, {"bfe.u32", bfe_u32}, {"bfe.s32", bfe_s32},
    {"bfe.u64", bfe_u64}, {"bfe.s64", bfe_s64}, {"bfi.b32", bfi_32},
    {"bfi.b64", bfi_64}, {"szext.u32", szext_u32}, {"szext.s32", szext_s32},
    {"bmsk.b32", bmsk_32}, {0, 0},
};
