/* Loads and stores (PTX ISA, Data Movement and Conversion Instructions: ld, st).
 *
 * Executed one instruction at a time, so every order and scope that the text may ask
 * for holds; cache and eviction hints change no result.
 * Rows: a = address, imm = offset, ext = the vector's elements, lowest address first.
 * x[0] = space | ADDR64, x[1] = sign-extend, x[2] = bits of the register.
 */
#include "access.h"

#include "observer.h"

enum { MOST_BYTES = 32 }; /* of a vector: PTX ISA, ld and st of 256 bits */

static s32 element(const Warp *w, const Insn *i, s32 k) { return w->m->ext[i->ext + k]; }

static void start(Warp *w, const Insn *i, u32 m, u32 size, u32 access, u8 **p) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  u32 bytes = size * (u32)i->n_ext;
  lane_pointers(w, i, m, (u32)i->x[0] & 0xff, addr, bytes, bytes, access, p);
}

#define BLEND(d, v)                                                       \
  do {                                                                    \
    if (m == FULL)                                                        \
      for (int l = 0; l < LANES; l++) (d)[l] = (v)[l];                    \
    else                                                                  \
      for (int l = 0; l < LANES; l++) (d)[l] = (m >> l) & 1u ? (v)[l] : (d)[l]; \
  } while (0)

/* Lanes one after another in memory: 32 elements are one piece. */
static inline int contiguous(u8 *const *p, u64 size) {
  u64 off = 0;
  for (int l = 0; l < LANES; l++) off |= (u64)p[l] - (u64)p[0] - size * (u64)l;
  return off == 0;
}

/* Vectors of 32-bit elements into 32-bit registers: a lane's elements together, then
 * the columns. */
static int ld_words(Warp *w, const Insn *i, u32 m, u8 *const *p) {
  u32 raw[LANES * 4];
  u32 n = (u32)i->n_ext;
  if (n == 1 && contiguous(p, 4)) memcpy(raw, p[0], 4 * LANES);
  else if (n == 1) for (int l = 0; l < LANES; l++) memcpy(&raw[l], p[l], 4);
  else if (n == 2) for (int l = 0; l < LANES; l++) memcpy(&raw[2 * l], p[l], 8);
  else for (int l = 0; l < LANES; l++) memcpy(&raw[4 * l], p[l], 16);
  for (u32 k = 0; k < n; k++) {
    s32 ref = element(w, i, (s32)k);
    if (ref == NOREF) continue;
    u32 *d = R32(ref), v[LANES];
    if (n == 1) memcpy(v, raw, sizeof v);
    else if (n == 2) for (int l = 0; l < LANES; l++) v[l] = raw[2 * l + (int)k];
    else for (int l = 0; l < LANES; l++) v[l] = raw[4 * l + (int)k];
    BLEND(d, v);
  }
  return STEP_NEXT;
}

/* Elements of up to 4 bytes into registers of up to 64 bits. The canonical row of a
 * narrow register is zero-extended, hence the mask after the sign extension. */
#define LD_SMALL(name, T, S)                                              \
  static int name(Warp *w, const Insn *i, u32 m) {                        \
    u8 *p[LANES];                                                         \
    start(w, i, m, sizeof(T), ACCESS_READ, p);                            \
    if (sizeof(T) == 4 && i->x[2] == 32 && i->n_ext <= 4) return ld_words(w, i, m, p); \
    u32 mask = i->x[2] < 32 ? (1u << i->x[2]) - 1 : FULL;                 \
    for (s32 k = 0; k < i->n_ext; k++) {                                  \
      s32 ref = element(w, i, k);                                         \
      if (ref == NOREF) continue;                                         \
      T raw[LANES];                                                       \
      for (int l = 0; l < LANES; l++) memcpy(&raw[l], p[l] + sizeof(T) * (u32)k, sizeof(T)); \
      if (i->x[2] <= 32) {                                                \
        u32 v[LANES], *d = R32(ref);                                      \
        if (i->x[1])                                                      \
          for (int l = 0; l < LANES; l++) v[l] = (u32)(s32)(S)raw[l] & mask; \
        else                                                              \
          for (int l = 0; l < LANES; l++) v[l] = raw[l];                  \
        BLEND(d, v);                                                      \
      } else {                                                            \
        u64 v[LANES], *d = R64(ref);                                      \
        for (int l = 0; l < LANES; l++)                                   \
          v[l] = i->x[1] ? (u64)(s64)(S)raw[l] : (u64)raw[l];             \
        BLEND(d, v);                                                      \
      }                                                                   \
    }                                                                     \
    return STEP_NEXT;                                                     \
  }
LD_SMALL(ld_1, u8, s8)
LD_SMALL(ld_2, u16, s16)
LD_SMALL(ld_4, u32, s32)

/* 8 bytes, or 16 as two halves of a 128-bit row. */
static int ld_wide(Warp *w, const Insn *i, u32 m, u32 halves) {
  u8 *p[LANES];
  start(w, i, m, 8 * halves, ACCESS_READ, p);
  for (s32 k = 0; k < i->n_ext; k++) {
    s32 ref = element(w, i, k);
    if (ref == NOREF) continue;
    for (u32 h = 0; h < halves; h++) {
      u64 v[LANES], *d = R64(ref) + h * LANES;
      for (int l = 0; l < LANES; l++) memcpy(&v[l], p[l] + 8 * (halves * (u32)k + h), 8);
      BLEND(d, v);
    }
  }
  return STEP_NEXT;
}
static int ld_8(Warp *w, const Insn *i, u32 m) { return ld_wide(w, i, m, 1); }
static int ld_16(Warp *w, const Insn *i, u32 m) { return ld_wide(w, i, m, 2); }

/* What the lanes are about to store, each one's bytes together, for those who watch. */
static void start_store(Warp *w, const Insn *i, u32 m, u32 size, u8 **p) {
  u8 raw[LANES][MOST_BYTES], *to = raw[0];
  for (u32 l = 0; w->m->observer && l < LANES; l++)
    for (s32 k = 0; k < i->n_ext; k++)
      for (u32 done = 0, part = size < 8 ? size : 8; done < size; done += part, to += part)
        if (size < 8) memcpy(to, &R32(element(w, i, k))[l], part);
        else memcpy(to, &(R64(element(w, i, k)) + done / 8 * LANES)[l], part);
  w->storing = w->m->observer ? raw : NULL;
  start(w, i, m, size, ACCESS_WRITE, p);
  w->storing = NULL;
}

/* Lanes store in lane order: the highest of those that hit one address wins. */
#define ST_SMALL(name, T)                                                 \
  static int name(Warp *w, const Insn *i, u32 m) {                        \
    u8 *p[LANES];                                                         \
    start_store(w, i, m, sizeof(T), p);                                   \
    for (s32 k = 0; k < i->n_ext; k++) {                                  \
      const u32 *v = R32(element(w, i, k));                               \
      for (int l = 0; l < LANES; l++) {                                   \
        T x = (T)v[l];                                                    \
        memcpy(p[l] + sizeof(T) * (u32)k, &x, sizeof(T));                 \
      }                                                                   \
    }                                                                     \
    return STEP_NEXT;                                                     \
  }
ST_SMALL(st_1, u8)
ST_SMALL(st_2, u16)
ST_SMALL(st_each_4, u32)

/* Words: a lane's elements are put together and stored at once. */
static int st_4(Warp *w, const Insn *i, u32 m) {
  if (i->n_ext != 1 && i->n_ext != 4) return st_each_4(w, i, m);
  u8 *p[LANES];
  const u32 *a = R32(element(w, i, 0));
  if (i->n_ext == 1) {
    w->storing = a;
    start(w, i, m, 4, ACCESS_WRITE, p);
    w->storing = NULL;
    if (contiguous(p, 4)) memcpy(p[0], a, 4 * LANES);
    else for (int l = 0; l < LANES; l++) memcpy(p[l], &a[l], 4);
    return STEP_NEXT;
  }
  const u32 *b = R32(element(w, i, 1)), *c = R32(element(w, i, 2));
  const u32 *d = R32(element(w, i, 3));
  u32 raw[LANES][4];
  for (int l = 0; l < LANES; l++) {
    raw[l][0] = a[l];
    raw[l][1] = b[l];
    raw[l][2] = c[l];
    raw[l][3] = d[l];
  }
  w->storing = raw[0];
  start(w, i, m, 4, ACCESS_WRITE, p);
  w->storing = NULL;
  for (int l = 0; l < LANES; l++) memcpy(p[l], raw[l], 16);
  return STEP_NEXT;
}

static int st_wide(Warp *w, const Insn *i, u32 m, u32 halves) {
  u8 *p[LANES];
  start_store(w, i, m, 8 * halves, p);
  for (s32 k = 0; k < i->n_ext; k++) {
    for (u32 h = 0; h < halves; h++) {
      const u64 *v = R64(element(w, i, k)) + h * LANES;
      for (int l = 0; l < LANES; l++) memcpy(p[l] + 8 * (halves * (u32)k + h), &v[l], 8);
    }
  }
  return STEP_NEXT;
}
static int st_8(Warp *w, const Insn *i, u32 m) { return st_wide(w, i, m, 1); }
static int st_16(Warp *w, const Insn *i, u32 m) { return st_wide(w, i, m, 2); }

/* discard: the bytes become undefined; they are overwritten so that a later read of
 * them cannot look right. */
static int discard(Warp *w, const Insn *i, u32 m) {
  enum { LINE = 128 };
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (addr[l] >> WINDOW_SHIFT) {
      fault(w, i, l, FAULT_ILLEGAL, addr[l], LINE, 0);
      continue;
    }
    u8 *p = gmem(w, i, l, addr[l], LINE, LINE, ACCESS_WRITE);
    if (!p) continue;
    OBSERVE(w->m, lanes, w, i, 1u << l, SPACE_GLOBAL, addr, LINE, ACCESS_WRITE);
    memset(p, 0xff, LINE);
  }
  return STEP_NEXT;
}

/* st.bulk: zero b (64-bit, a multiple of 8, below 2^24) bytes of own shared memory. */
static int st_bulk(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES];
  const u64 *size = R64(i->b);
  lane_addresses(w, i, i->a, addr);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l) || !size[l]) continue;
    u32 at = shared_address(w, i, l, (u32)i->x[0] & 0xff, addr[l], 8);
    if (!at) continue;
    if (size[l] & 7 || at & 7 || size[l] >> 24) {
      fault(w, i, l, FAULT_BULK, at, size[l], 8);
      continue;
    }
    u8 *p = smem(w, i, l, at, (u32)size[l], 8);
    if (!p) continue;
    addr[l] = at;
    OBSERVE(w->m, lanes, w, i, 1u << l, SPACE_CLUSTER, addr, (u32)size[l], ACCESS_WRITE);
    memset(p, 0, size[l]);
  }
  return STEP_NEXT;
}

/* The address of shared offset imm in the CTA's own window of the cluster. */
static int smem_addr_32(Warp *w, const Insn *i, u32 m) {
  u32 *d = R32(i->d);
  u32 v = (w->cta->rank << 24) + (u32)i->imm;
  LANE_LOOP(u32, d, v);
}
static int smem_addr_64(Warp *w, const Insn *i, u32 m) {
  u64 *d = R64(i->d);
  u64 v = (w->cta->rank << 24) + (u32)i->imm;
  LANE_LOOP(u64, d, v);
}

const OpEntry ops_memory[] = {
    {"ld.1", ld_1}, {"ld.2", ld_2}, {"ld.4", ld_4}, {"ld.8", ld_8}, {"ld.16", ld_16},
    {"st.1", st_1}, {"st.2", st_2}, {"st.4", st_4}, {"st.8", st_8}, {"st.16", st_16},
    {"discard", discard}, {"st.bulk", st_bulk}, {"smem.addr.32", smem_addr_32},
    {"smem.addr.64", smem_addr_64}, {0, 0},
};
