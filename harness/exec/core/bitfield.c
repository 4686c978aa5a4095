/* Counting and bit fields (PTX ISA, Integer Arithmetic Instructions: popc, clz, bfind,
 * fns, brev, bfe, bfi, szext, bmsk; prmt). */
#include "lanes.h"

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
UN(brev_64, u64, u64, R64, R64,
   (u64)reverse((u32)a[l]) << 32 | reverse((u32)(a[l] >> 32)))

/* bfind: highest bit that differs from the sign, ~0 if none; shiftamt gives the left
 * shift that brings it to the top. x[0] = 1 for shiftamt */
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

/* fns: a = mask, b = base, c = signed number of the bit wanted, counted from base. */
static u32 nth(u32 mask, u32 base, s32 offset) {
  if (!offset) return mask >> base & 1 ? base : FULL;
  u32 left = offset > 0 ? (u32)offset : 0u - (u32)offset;
  s32 step = offset > 0 ? 1 : -1;
  for (s32 at = (s32)base; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return (u32)at;
  return FULL;
}
static int fns(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a), *b = R32(i->b), *c = R32(i->c);
  u32 v[LANES] = {0};
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (b[l] > 31) fault(w, i, l, FAULT_ILLEGAL, 0, 0, b[l]);
    v[l] = b[l] > 31 ? FULL : nth(a[l], b[l], (s32)c[l]);
  }
  put32(R32(i->d), v, m);
  return STEP_NEXT;
}

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
#define BFE(name, T, ROW, bits, sign)                                  \
  static int name(Warp *w, const Insn *i, u32 m) {                     \
    const T *a = ROW(i->a);                                            \
    const u32 *b = R32(i->b), *c = R32(i->c);                          \
    T *d = ROW(i->d);                                                  \
    if (i->b < 0 && i->c < 0) { /* constants */                        \
      const u32 pos = b[0], len = c[0];                                \
      LANE_LOOP(T, d, (T)extract(a[l], pos, len, bits, sign));         \
    }                                                                  \
    LANE_LOOP(T, d, (T)extract(a[l], b[l], c[l], bits, sign));         \
  }
BFE(bfe_u32, u32, R32, 32, 0)
BFE(bfe_s32, u32, R32, 32, 1)
BFE(bfe_u64, u64, R64, 64, 0)
BFE(bfe_s64, u64, R64, 64, 1)

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
static inline u32 bmsk(u32 pos, u32 len) { return (u32)(((1ull << len) - 1) << pos); }
BIN(bmsk_32, u32, u32, R32, R32, bmsk(amount(a[l], i->x[0]), amount(b[l], i->x[0])))

/* prmt: byte k of the result is byte s[4k+2:4k] of {b, a}, or its sign if s[4k+3]. */
static inline u32 permute(u32 a, u32 b, u32 s) {
  u64 v = a | (u64)b << 32;
  u32 r = 0;
  for (int k = 0; k < 4; k++) {
    u32 sel = s >> (4 * k) & 15u;
    u32 byte = (u32)(v >> ((sel & 7u) * 8)) & 255u;
    if (sel & 8u) byte = byte & 128u ? 255u : 0u;
    r |= byte << (8 * k);
  }
  return r;
}
/* x[0] = mode: 0 generic, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16, whose selectors
 * the two low bits of c choose. */
static int prmt(Warp *w, const Insn *i, u32 m) {
  static const u16 table[7][4] = {
      {0, 0, 0, 0},
      {0x3210, 0x4321, 0x5432, 0x6543},
      {0x5670, 0x6701, 0x7012, 0x0123},
      {0x0000, 0x1111, 0x2222, 0x3333},
      {0x3210, 0x3211, 0x3222, 0x3333},
      {0x0000, 0x1110, 0x2210, 0x3210},
      {0x1010, 0x3232, 0x1010, 0x3232},
  };
  const u32 *a = R32(i->a), *b = R32(i->b), *c = R32(i->c);
  u32 *d = R32(i->d);
  u32 mode = (u32)i->x[0];
  if (mode) LANE_LOOP(u32, d, permute(a[l], b[l], table[mode][c[l] & 3u]));
  if (i->c < 0) { /* a constant: the shifts are the same in every lane */
    const u32 s = c[0];
    LANE_LOOP(u32, d, permute(a[l], b[l], s));
  }
  LANE_LOOP(u32, d, permute(a[l], b[l], c[l]));
}

const OpEntry ops_bitfield[] = {
    {"popc.b32", popc_32}, {"popc.b64", popc_64}, {"clz.b32", clz_32},
    {"clz.b64", clz_64}, {"brev.b32", brev_32}, {"brev.b64", brev_64},
    {"bfind.u32", bfind_u32}, {"bfind.s32", bfind_s32}, {"bfind.u64", bfind_u64},
    {"bfind.s64", bfind_s64}, {"fns", fns}, {"bfe.u32", bfe_u32}, {"bfe.s32", bfe_s32},
    {"bfe.u64", bfe_u64}, {"bfe.s64", bfe_s64}, {"bfi.b32", bfi_32},
    {"bfi.b64", bfi_64}, {"szext.u32", szext_u32}, {"szext.s32", szext_s32},
    {"bmsk.b32", bmsk_32}, {"prmt", prmt}, {0, 0},
};
