/* Moves, packing and selection (PTX ISA, Data Movement and Conversion Instructions). */
#include "lanes.h"

UN(mov_32, u32, u32, R32, R32, a[l])
UN(mov_64, u64, u64, R64, R64, a[l])
UN(mov_lo, u32, u64, R32, R64, (u32)a[l])
UN(zext_64, u64, u32, R64, R32, a[l])

static int mov_128(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  u64 *d = R64(i->d);
  for (int h = 0; h < 2; h++)
    for (int l = 0; l < LANES; l++)
      if (lane_on(m, l)) d[h * LANES + l] = a[h * LANES + l];
  return STEP_NEXT;
}

static int mov_pred(Warp *w, const Insn *i, u32 m) {
  set_pred(w, i->d, RP(i->a), m);
  return STEP_NEXT;
}
static int not_pred(Warp *w, const Insn *i, u32 m) {
  set_pred(w, i->d, ~RP(i->a), m);
  return STEP_NEXT;
}
static int and_pred(Warp *w, const Insn *i, u32 m) {
  set_pred(w, i->d, RP(i->a) & RP(i->b), m);
  return STEP_NEXT;
}
static int or_pred(Warp *w, const Insn *i, u32 m) {
  set_pred(w, i->d, RP(i->a) | RP(i->b), m);
  return STEP_NEXT;
}
static int xor_pred(Warp *w, const Insn *i, u32 m) {
  set_pred(w, i->d, RP(i->a) ^ RP(i->b), m);
  return STEP_NEXT;
}

/* pack: ext = elements, lowest first */
static const u32 *e32(const Warp *w, const Insn *i, s32 k) {
  return (const u32 *)row(w, w->m->ext[i->ext + k]);
}
static u32 *out32(Warp *w, const Insn *i, s32 k) {
  s32 ref = w->m->ext[i->ext + k];
  return ref == NOREF ? NULL : (u32 *)row(w, ref);
}

static int pack_64(Warp *w, const Insn *i, u32 m) {
  const u32 *a = e32(w, i, 0), *b = e32(w, i, 1);
  u64 *d = R64(i->d);
  LANE_LOOP(u64, d, a[l] | (u64)b[l] << 32);
}
static int pack_32(Warp *w, const Insn *i, u32 m) {
  const u32 *a = e32(w, i, 0), *b = e32(w, i, 1);
  u32 *d = R32(i->d);
  LANE_LOOP(u32, d, (a[l] & 0xffffu) | b[l] << 16);
}
static int pack_16(Warp *w, const Insn *i, u32 m) {
  const u32 *a = e32(w, i, 0), *b = e32(w, i, 1);
  u32 *d = R32(i->d);
  LANE_LOOP(u32, d, (a[l] & 0xffu) | (b[l] & 0xffu) << 8);
}
static int pack4_64(Warp *w, const Insn *i, u32 m) {
  const u32 *a = e32(w, i, 0), *b = e32(w, i, 1), *c = e32(w, i, 2), *e = e32(w, i, 3);
  u64 *d = R64(i->d);
  LANE_LOOP(u64, d,
            (u64)(u16)a[l] | (u64)(u16)b[l] << 16 | (u64)(u16)c[l] << 32 |
                (u64)(u16)e[l] << 48);
}
static int pack4_32(Warp *w, const Insn *i, u32 m) {
  const u32 *a = e32(w, i, 0), *b = e32(w, i, 1), *c = e32(w, i, 2), *e = e32(w, i, 3);
  u32 *d = R32(i->d);
  LANE_LOOP(u32, d,
            (a[l] & 255u) | (b[l] & 255u) << 8 | (c[l] & 255u) << 16 | e[l] << 24);
}
static int pack_128(Warp *w, const Insn *i, u32 m) {
  const u64 *a = (const u64 *)e32(w, i, 0), *b = (const u64 *)e32(w, i, 1);
  u64 *d = R64(i->d);
  for (int l = 0; l < LANES; l++) {
    u64 lo = a[l], hi = b[l];
    if (lane_on(m, l)) {
      d[l] = lo;
      d[LANES + l] = hi;
    }
  }
  return STEP_NEXT;
}

/* unpack: a = source, ext = destinations (NOREF for `_`), lowest first.
 * The source is read before anything is written: it may be one of them. */
static int unpack_64(Warp *w, const Insn *i, u32 m) {
  u64 v[LANES];
  memcpy(v, R64(i->a), sizeof v);
  for (s32 k = 0; k < 2; k++) {
    u32 *d = out32(w, i, k);
    if (!d) continue;
    for (int l = 0; l < LANES; l++) {
      u32 part = (u32)(v[l] >> (32 * k));
      d[l] = lane_on(m, l) ? part : d[l];
    }
  }
  return STEP_NEXT;
}
static int unpack_small(Warp *w, const Insn *i, u32 m) { /* x[0] = bits of a part */
  u64 v[LANES];
  if (i->x[1]) memcpy(v, R64(i->a), sizeof v);
  else
    for (int l = 0; l < LANES; l++) v[l] = R32(i->a)[l];
  u32 bits = (u32)i->x[0];
  for (s32 k = 0; k < i->n_ext; k++) {
    u32 *d = out32(w, i, k);
    if (!d) continue;
    for (int l = 0; l < LANES; l++) {
      u32 part = (u32)(v[l] >> (bits * (u32)k)) & ((1u << bits) - 1);
      d[l] = lane_on(m, l) ? part : d[l];
    }
  }
  return STEP_NEXT;
}
static int unpack_128(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  for (s32 k = 0; k < 2; k++) {
    u64 *d = (u64 *)out32(w, i, k);
    if (!d) continue;
    for (int l = 0; l < LANES; l++)
      if (lane_on(m, l)) d[l] = a[k * LANES + l];
  }
  return STEP_NEXT;
}

#define SELP(name, T, ROW)                                 \
  static int name(Warp *w, const Insn *i, u32 m) {         \
    const T *a = ROW(i->a), *b = ROW(i->b);                \
    const u32 p = RP(i->c);                                \
    T *d = ROW(i->d);                                      \
    LANE_LOOP(T, d, (p >> l) & 1u ? a[l] : b[l]);          \
  }
SELP(selp_32, u32, R32)
SELP(selp_64, u64, R64)
static int selp_pred(Warp *w, const Insn *i, u32 m) {
  u32 p = RP(i->c);
  set_pred(w, i->d, (RP(i->a) & p) | (RP(i->b) & ~p), m);
  return STEP_NEXT;
}
TRI(slct_s32, u32, u32, s32, R32, R32, RS32, c[l] >= 0 ? a[l] : b[l])
TRI(slct_f32, u32, u32, f32, R32, R32, RF32, c[l] >= 0 ? a[l] : b[l])
TRI(slct64_s32, u64, u64, s32, R64, R64, RS32, c[l] >= 0 ? a[l] : b[l])

/* prmt: x[0] = mode (0 default, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16) */
static inline u32 prmt1(u32 a, u32 b, u32 s) {
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
static int prmt(Warp *w, const Insn *i, u32 m) {
  /* Selector nibbles of the special modes by c[1:0] (PTX ISA, prmt, second table). */
  static const u16 table[7][4] = {
      {0, 0, 0, 0},
      {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e */
      {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e */
      {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8 */
      {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl */
      {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr */
      {0x1010, 0x3232, 0x1010, 0x3232}, /* rc16 */
  };
  const u32 *a = R32(i->a), *b = R32(i->b), *c = R32(i->c);
  u32 *d = R32(i->d);
  u32 mode = (u32)i->x[0];
  if (mode) LANE_LOOP(u32, d, prmt1(a[l], b[l], table[mode][c[l] & 3u]));
  LANE_LOOP(u32, d, prmt1(a[l], b[l], c[l]));
}

/* isspacep: a = 64-bit generic address, x[0] = window number, 0 for global */
static int isspacep(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  u32 bits = 0;
  for (int l = 0; l < LANES; l++) {
    u64 win = a[l] >> WINDOW_SHIFT;
    u32 in = i->x[0] ? win == (u64)i->x[0] : win == 0 || win > WINDOW_PARAM;
    bits |= in << l;
  }
  set_pred(w, i->d, bits, m);
  return STEP_NEXT;
}

const OpEntry ops_move[] = {
    {"mov.b32", mov_32}, {"mov.b64", mov_64}, {"mov.b128", mov_128},
    {"mov.lo", mov_lo}, {"zext.b64", zext_64}, {"mov.pred", mov_pred},
    {"not.pred", not_pred}, {"and.pred", and_pred}, {"or.pred", or_pred},
    {"xor.pred", xor_pred}, {"pack.b64", pack_64}, {"pack.b32", pack_32},
    {"pack.b16", pack_16}, {"pack4.b64", pack4_64}, {"pack4.b32", pack4_32},
    {"pack.b128", pack_128}, {"unpack.b64", unpack_64}, {"unpack.small", unpack_small},
    {"unpack.b128", unpack_128}, {"selp.b32", selp_32}, {"selp.b64", selp_64},
    {"selp.pred", selp_pred}, {"slct.s32", slct_s32}, {"slct.f32", slct_f32},
    {"slct64.s32", slct64_s32}, {"prmt", prmt}, {"isspacep", isspacep}, {0, 0},
};
