/* Moves, packing and selection (PTX ISA, Data Movement and Conversion Instructions: mov,
 * isspacep; Comparison and Selection Instructions: selp, slct). */
#include "fbits.h"
#include "lanes.h"

UN(mov_32, u32, u32, R32, R32, a[l])
UN(mov_64, u64, u64, R64, R64, a[l])
UN(mov_lo, u32, u64, R32, R64, (u32)a[l])
UN(zext_64, u64, u32, R64, R32, a[l])

static int mov_128(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  u64 *d = R64(i->d);
  put64(d, a, m);
  put64(d + LANES, a + LANES, m);
  return STEP_NEXT;
}

#define PREDICATE(name, expr)                         \
  static int name(Warp *w, const Insn *i, u32 m) {    \
    set_pred(w, i->d, expr, m);                       \
    return STEP_NEXT;                                 \
  }
PREDICATE(mov_pred, RP(i->a))
PREDICATE(not_pred, ~RP(i->a))
PREDICATE(and_pred, RP(i->a) & RP(i->b))
PREDICATE(or_pred, RP(i->a) | RP(i->b))
PREDICATE(xor_pred, RP(i->a) ^ RP(i->b))
/* Two predicates at once, so that the guard may be one of them. */
static int mov_preds(Warp *w, const Insn *i, u32 m) {
  u32 p = RP(i->a), q = RP(i->b);
  set_pred(w, i->d, p, m);
  set_pred(w, i->x[0], q, m);
  return STEP_NEXT;
}

/* pack: ext = elements, lowest first */
static const u32 *e32(const Warp *w, const Insn *i, s32 k) {
  return (const u32 *)row(w, w->m->ext[i->ext + k]);
}
static const u64 *e64(const Warp *w, const Insn *i, s32 k) {
  return (const u64 *)row(w, w->m->ext[i->ext + k]);
}
static void *out(Warp *w, const Insn *i, s32 k) {
  s32 ref = w->m->ext[i->ext + k];
  return ref == NOREF ? NULL : row(w, ref);
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
  u64 *d = R64(i->d);
  put64(d, e64(w, i, 0), m);
  put64(d + LANES, e64(w, i, 1), m);
  return STEP_NEXT;
}
static int pack4_128(Warp *w, const Insn *i, u32 m) {
  u64 *d = R64(i->d), v[LANES];
  for (s32 h = 0; h < 2; h++) {
    const u32 *a = e32(w, i, 2 * h), *b = e32(w, i, 2 * h + 1);
    for (int l = 0; l < LANES; l++) v[l] = a[l] | (u64)b[l] << 32;
    put64(d + h * LANES, v, m);
  }
  return STEP_NEXT;
}

/* unpack: a = source, ext = destinations (NOREF for `_`), lowest first. Rows of 64 bits
 * are never rows of 32, so only unpack.small may write over its own source. */
static void unpack_words(Warp *w, const Insn *i, u32 m, s32 first, const u64 *v) {
  for (s32 k = 0; k < 2; k++) {
    u32 *d = out(w, i, first + k);
    if (!d) continue;
    if (m == FULL)
      for (int l = 0; l < LANES; l++) d[l] = (u32)(v[l] >> (32 * k));
    else
      for (int l = 0; l < LANES; l++) d[l] = (m >> l) & 1u ? (u32)(v[l] >> (32 * k)) : d[l];
  }
}
static int unpack_64(Warp *w, const Insn *i, u32 m) {
  unpack_words(w, i, m, 0, R64(i->a));
  return STEP_NEXT;
}
static int unpack_32(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a);
  u32 *lo = out(w, i, 0), *hi = out(w, i, 1), low[LANES], high[LANES];
  for (int l = 0; l < LANES; l++) low[l] = a[l] & 0xffffu, high[l] = a[l] >> 16;
  if (lo) put32(lo, low, m);
  if (hi) put32(hi, high, m);
  return STEP_NEXT;
}
static int unpack4_128(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  unpack_words(w, i, m, 0, a);
  unpack_words(w, i, m, 2, a + LANES);
  return STEP_NEXT;
}
static int unpack_128(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  for (s32 k = 0; k < 2; k++) {
    u64 *d = out(w, i, k);
    if (d) put64(d, a + k * LANES, m);
  }
  return STEP_NEXT;
}
/* x[0] = bits of a part, x[1] = 1 for a 64-bit source */
static int unpack_small(Warp *w, const Insn *i, u32 m) {
  u64 v[LANES];
  if (i->x[1])
    memcpy(v, R64(i->a), sizeof v);
  else
    for (int l = 0; l < LANES; l++) v[l] = R32(i->a)[l];
  u32 bits = (u32)i->x[0], keep = (1u << bits) - 1;
  for (s32 k = 0; k < i->n_ext; k++) {
    u32 *d = out(w, i, k), part[LANES];
    if (!d) continue;
    for (int l = 0; l < LANES; l++) part[l] = (u32)(v[l] >> (bits * (u32)k)) & keep;
    put32(d, part, m);
  }
  return STEP_NEXT;
}

#define SELECT(name, T, ROW)                               \
  static int name(Warp *w, const Insn *i, u32 m) {         \
    const T *a = ROW(i->a), *b = ROW(i->b);                \
    const u32 p = RP(i->c);                                \
    T *d = ROW(i->d);                                      \
    LANE_LOOP(T, d, (p >> l) & 1u ? a[l] : b[l]);          \
  }
SELECT(selp_32, u32, R32)
SELECT(selp_64, u64, R64)
PREDICATE(selp_pred, (RP(i->a) & RP(i->c)) | (RP(i->b) & ~RP(i->c)))

/* x[0] = F_FTZ: a negative subnormal c is then zero */
static inline u32 not_negative(f32 c, s32 flush) { return (flush ? ftz(c) : c) >= 0.0f; }
TRI(slct_s32, u32, u32, s32, R32, R32, RS32, c[l] >= 0 ? a[l] : b[l])
TRI(slct_f32, u32, u32, f32, R32, R32, RF32, not_negative(c[l], i->x[0]) ? a[l] : b[l])
TRI(slct64_s32, u64, u64, s32, R64, R64, RS32, c[l] >= 0 ? a[l] : b[l])
TRI(slct64_f32, u64, u64, f32, R64, R64, RF32,
    not_negative(c[l], i->x[0]) ? a[l] : b[l])

/* isspacep: a = 64-bit generic address, x[0] = window number, 0 for global, which
 * holds the window of parameters too; x[1] = 1 asks for this CTA's shared memory */
static int isspacep(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  u32 bits = 0;
  for (int l = 0; l < LANES; l++) {
    u64 window = a[l] >> WINDOW_SHIFT;
    u32 in = i->x[0] ? window == (u64)i->x[0]
                     : window != WINDOW_SHARED && window != WINDOW_LOCAL;
    u32 mine = (u32)(a[l] >> 24) == w->cta->rank; /* shared: rank << 24 | offset */
    bits |= (in && (!i->x[1] || mine)) << l;
  }
  set_pred(w, i->d, bits, m);
  return STEP_NEXT;
}

const OpEntry ops_move[] = {
    {"mov.b32", mov_32}, {"mov.b64", mov_64}, {"mov.b128", mov_128},
    {"mov.lo", mov_lo}, {"zext.b64", zext_64}, {"mov.pred", mov_pred},
    {"mov.preds", mov_preds}, {"not.pred", not_pred}, {"and.pred", and_pred},
    {"or.pred", or_pred}, {"xor.pred", xor_pred}, {"pack.b64", pack_64},
    {"pack.b32", pack_32}, {"pack.b16", pack_16}, {"pack4.b64", pack4_64},
    {"pack4.b32", pack4_32}, {"pack.b128", pack_128}, {"pack4.b128", pack4_128},
    {"unpack.b64", unpack_64}, {"unpack.b32", unpack_32},
    {"unpack.small", unpack_small},
    {"unpack.b128", unpack_128}, {"unpack4.b128", unpack4_128}, {"selp.b32", selp_32},
    {"selp.b64", selp_64}, {"selp.pred", selp_pred}, {"slct.s32", slct_s32},
    {"slct.f32", slct_f32}, {"slct64.s32", slct64_s32}, {"slct64.f32", slct64_f32},
    {"isspacep", isspacep}, {0, 0},
};
