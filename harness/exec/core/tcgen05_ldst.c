/* tcgen05.ld and tcgen05.st: a warp moves registers to and from its quarter of the
 * lanes of tensor memory.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: tcgen05.ld, tcgen05.st, Data
 * Movement Shape, Access restrictions, Packing and Unpacking. Both are asynchronous:
 * with seed 0 they happen at issue, otherwise when the scheduler lets them land.
 *
 * a = address (imm = its offset), ext = registers, c = result of .red,
 * x[0] = shape and flags, x[1] = type of .red, x[2] = offset of the second half of
 * 16x32bx2, x[3] = number of the load (tcgen05_sync.c).
 */
#include <stdlib.h>

#include "fbits.h"
#include "observer.h"
#include "tcgen05.h"

/* x[0], as in lower/tcgen05_memory.py */
enum Shape { SHAPE_32X32B = 0, SHAPE_16X64B, SHAPE_16X128B, SHAPE_16X256B, SHAPE_16X32BX2 };
enum { SHAPE_MASK = 7, FLAG_PACK = 8, FLAG_MAX = 16, FLAG_ABS = 32, FLAG_NAN = 64 };
enum RedType { RED_NONE = 0, RED_F32, RED_U32, RED_S32 };

typedef struct Place {
  u32 lane, column;
} Place;

/* Where register r of lane l lies from the base address, in 32-bit elements; a pack or
 * unpack has two columns of 16 bits for each. 16x32bx2: inside its half. */
static inline Place place_of(u32 shape, u32 l, u32 r) {
  switch (shape) {
    case SHAPE_16X64B: return (Place){l / 4 + l % 2 * 8, l / 2 % 2 + r * 2};
    case SHAPE_16X128B: return (Place){l / 4 + r % 2 * 8, l % 4 + r / 2 * 4};
    case SHAPE_16X256B:
      return (Place){l / 4 + r / 2 % 2 * 8, r % 2 + l % 4 * 2 + r / 4 * 8};
    case SHAPE_16X32BX2: return (Place){l % 16, r};
    default: return (Place){l, r};
  }
}

/* Columns that n registers of a lane stretch over. */
static u32 width_of(u32 how, u32 n) {
  u32 shape = how & SHAPE_MASK;
  u32 wide = shape == SHAPE_32X32B || shape == SHAPE_16X32BX2 ? n : n * 2;
  return how & FLAG_PACK ? wide * 2 : wide;
}

static u32 lanes_of(u32 how) { return (how & SHAPE_MASK) == SHAPE_32X32B ? 32 : 16; }

/* What is wrong with an access to `lanes` lanes and `width` columns. */
static u32 wrong(const Warp *w, u32 addr, u32 lanes, u32 width, int reads) {
  u32 lane = tmem_lane(addr), column = tmem_column(addr);
  if (lane > TMEM_LANES - lanes || column > TMEM_COLUMNS || width > TMEM_COLUMNS - column)
    return TMEM_RANGE;
  if (lane % lanes) return TMEM_ALIGNMENT;
  if (lane / 32 != w->id % 4) return TMEM_QUADRANT;
  if (!tmem_owned(w->cta, column, width)) return TMEM_UNALLOCATED;
  if (reads && w->m->tmem_check && !tmem_marked(w->cta, lane, lanes, column, width))
    return TMEM_UNWRITTEN;
  return TMEM_OK;
}

/* Base addresses of the halves; the same twice for every other shape. */
typedef struct Bases {
  u32 addr[2];
  u32 ok;
} Bases;

static Bases check(Warp *w, const Insn *i, u32 addr, int reads) {
  u32 how = (u32)i->x[0], lanes = lanes_of(how);
  u32 width = width_of(how, (u32)i->n_ext), halves = (how & SHAPE_MASK) == SHAPE_16X32BX2;
  Bases b = {{addr, halves ? addr + (u32)i->x[2] : addr}, 1};
  for (u32 h = 0; h <= halves; h++) {
    u32 error = wrong(w, b.addr[h], lanes, width, reads);
    if (!error || error == TMEM_UNWRITTEN)
      OBSERVE(w->m, tensor, w, i, tmem_lane(b.addr[h]), lanes, tmem_column(b.addr[h]), width,
              reads ? ACCESS_READ : ACCESS_WRITE, h);
    if (!error) continue;
    u32 kind = error == TMEM_UNWRITTEN ? FAULT_TMEM_UNINIT : FAULT_TMEM;
    fault(w, i, NO_LANE, kind, b.addr[h], (u64)lanes << 16 | width, error);
    if (error != TMEM_UNWRITTEN) b.ok = 0;
  }
  return b;
}

static inline u32 *cell(const Cta *c, const Bases *b, u32 l, Place p) {
  u32 addr = b->addr[l / 16];
  return tmem_cell(c, tmem_lane(addr) + p.lane, tmem_column(addr) + p.column);
}

/* --- loading -------------------------------------------------------------------- */
static void gather_any(const Warp *w, const Insn *i, const Bases *b, u32 *value, u32 r) {
  u32 shape = (u32)i->x[0] & SHAPE_MASK;
  for (u32 l = 0; l < LANES; l++) {
    Place p = place_of(shape, l, r);
    if (i->x[0] & FLAG_PACK) {
      p.column *= 2;
      const u32 *low = cell(w->cta, b, l, p);
      value[l] = (low[0] & 0xffffu) | low[TMEM_LANES] << 16;
    } else {
      value[l] = *cell(w->cta, b, l, p);
    }
  }
}

static inline int plain(const Insn *i) {
  return (i->x[0] & (SHAPE_MASK | FLAG_PACK)) == SHAPE_32X32B;
}

static void load_now(Warp *w, const Insn *i, const Bases *b, u32 m) {
  const s32 *ref = w->m->ext + i->ext;
  if (plain(i) && m == FULL && b->ok) {
    const u32 *from = tmem_cell(w->cta, tmem_lane(b->addr[0]), tmem_column(b->addr[0]));
    for (s32 r = 0; r < i->n_ext; r++, from += TMEM_LANES)
      memcpy(R32(ref[r]), from, LANES * sizeof *from);
    return;
  }
  u32 value[LANES] = {0};
  for (s32 r = 0; r < i->n_ext; r++) {
    if (b->ok) gather_any(w, i, b, value, (u32)r);
    u32 *d = R32(ref[r]);
    for (int l = 0; l < LANES; l++) d[l] = lane_on(m, l) ? value[l] : d[l];
  }
}

/* One step of .red: `so_far` and the next value of a lane. */
static u32 reduce(u32 type, u32 how, u32 so_far, u32 next) {
  int max = (how & FLAG_MAX) != 0;
  if (type == RED_U32) return (next > so_far) == max ? next : so_far;
  if (type == RED_S32) return ((s32)next > (s32)so_far) == max ? next : so_far;
  int nan_a = (so_far & 0x7fffffffu) > 0x7f800000u, nan_b = (next & 0x7fffffffu) > 0x7f800000u;
  if (nan_a || nan_b) {
    if (how & FLAG_NAN || (nan_a && nan_b)) return CANONICAL_F32;
    return nan_a ? next : so_far;
  }
  /* Order of the bits with -0 below +0, as min and max have it. */
  s32 a = (s32)so_far < 0 ? (s32)(so_far ^ 0x7fffffffu) : (s32)so_far;
  s32 c = (s32)next < 0 ? (s32)(next ^ 0x7fffffffu) : (s32)next;
  return (c > a) == max ? next : so_far;
}

static void reduce_all(Warp *w, const Insn *i, u32 m) {
  const s32 *ref = w->m->ext + i->ext;
  u32 how = (u32)i->x[0], type = (u32)i->x[1], sign = how & FLAG_ABS ? 0x80000000u : 0;
  u32 *d = R32(i->c);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    u32 v = R32(ref[0])[l] & ~sign;
    for (s32 r = 1; r < i->n_ext; r++) v = reduce(type, how, v, R32(ref[r])[l] & ~sign);
    d[l] = v;
  }
}

/* The bases of an operation that lands. Memory that was deallocated meanwhile is a
 * fault: dealloc does not wait for accesses in flight. */
static Bases bases_of(Machine *m, const Async *op) {
  Bases b = {{(u32)op->arg[0], (u32)op->arg[1]}, (u32)op->arg[2]};
  const Insn *i = op->insn;
  u32 width = width_of((u32)i->x[0], (u32)i->n_ext);
  for (u32 h = 0; h < 2 && b.ok; h++) {
    if (tmem_owned(op->cta, tmem_column(b.addr[h]), width)) continue;
    fault_at(m, i, op->cta, op->warp->id, NO_LANE, FAULT_TMEM, b.addr[h],
             (u64)lanes_of((u32)i->x[0]) << 16 | width, TMEM_DEALLOCATED);
    b.ok = 0;
  }
  return b;
}

static void load_land(Machine *m, Async *op) {
  Warp *w = op->warp;
  Bases b = bases_of(m, op);
  load_now(w, op->insn, &b, op->mask);
  if (op->insn->x[1]) reduce_all(w, op->insn, op->mask);
  w->tmem_loads--;
}

/* An address in the first 32 lanes counts from the warp's own: released kernels give a
 * column alone, in every warp (cuDNN frontend's SM100 forward; it runs on the chip). */
static u32 in_quadrant(const Warp *w, u32 addr) {
  return tmem_lane(addr) < 32 ? addr + (w->id % 4 * 32 << 16) : addr;
}

/* The address of an aligned instruction is the same in all lanes. */
static u32 common_address(Warp *w, const Insn *i, u32 m) {
  const u32 *a = R32(i->a);
  u32 first = a[__builtin_ctz(m)], differ = 0;
  if (m == FULL) {
    for (int l = 0; l < LANES; l++) differ |= a[l] ^ first;
  } else {
    for (int l = 0; l < LANES; l++) differ |= lane_on(m, l) ? a[l] ^ first : 0;
  }
  if (differ)
    fault(w, i, (u32)__builtin_ctz(m), FAULT_TCGEN05, first, 0, TC_NOT_UNIFORM);
  return in_quadrant(w, first + (u32)i->imm);
}

static int ld(Warp *w, const Insn *i, u32 m) {
  if (__builtin_expect(m != FULL, 0) && tcgen05_gather(w, i, m)) return STEP_BLOCK;
  Bases b = check(w, i, common_address(w, i, m), 1);
  if (!w->m->seed) {
    load_now(w, i, &b, m);
    if (i->x[1]) reduce_all(w, i, m);
    return STEP_NEXT;
  }
  Async *op = async_new(w, i, ASYNC_TMEM_LD, load_land);
  if (!op) return STEP_STOP;
  op->mask = m;
  op->arg[0] = b.addr[0];
  op->arg[1] = b.addr[1];
  op->arg[2] = b.ok;
  w->tmem_loads++;
  async_push(w->m, op);
  return STEP_NEXT;
}

/* --- storing -------------------------------------------------------------------- */
static void scatter_any(const Warp *w, const Insn *i, const Bases *b, const u32 *value,
                        u32 r, u32 m) {
  u32 shape = (u32)i->x[0] & SHAPE_MASK;
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    Place p = place_of(shape, l, r);
    if (i->x[0] & FLAG_PACK) {
      p.column *= 2;
      u32 *low = cell(w->cta, b, l, p);
      low[0] = value[l] & 0xffffu;
      low[TMEM_LANES] = value[l] >> 16;
    } else {
      *cell(w->cta, b, l, p) = value[l];
    }
  }
}

/* `data`: the registers as they were at issue, or NULL for those of now. */
static void store_now(Warp *w, const Insn *i, const Bases *b, u32 m, const u32 *data) {
  if (!b->ok) return;
  const s32 *ref = w->m->ext + i->ext;
  u32 lanes = lanes_of((u32)i->x[0]), width = width_of((u32)i->x[0], (u32)i->n_ext);
  for (u32 h = 0; h < 2; h++)
    tmem_mark(w->cta, tmem_lane(b->addr[h]), lanes, tmem_column(b->addr[h]), width);
  if (plain(i) && m == FULL) {
    u32 *to = tmem_cell(w->cta, tmem_lane(b->addr[0]), tmem_column(b->addr[0]));
    for (s32 r = 0; r < i->n_ext; r++, to += TMEM_LANES)
      memcpy(to, data ? data + r * LANES : R32(ref[r]), LANES * sizeof *to);
    return;
  }
  for (s32 r = 0; r < i->n_ext; r++)
    scatter_any(w, i, b, data ? data + r * LANES : R32(ref[r]), (u32)r, m);
}

static void store_land(Machine *m, Async *op) {
  Bases b = bases_of(m, op);
  store_now(op->warp, op->insn, &b, op->mask, (const u32 *)op->data);
  op->warp->tmem_stores--;
}

static int st(Warp *w, const Insn *i, u32 m) {
  if (__builtin_expect(m != FULL, 0) && tcgen05_gather(w, i, m)) return STEP_BLOCK;
  Bases b = check(w, i, common_address(w, i, m), 0);
  if (!w->m->seed) {
    store_now(w, i, &b, m, NULL);
    return STEP_NEXT;
  }
  u32 *data = malloc((u64)i->n_ext * LANES * sizeof *data);
  Async *op = data ? async_new(w, i, ASYNC_TMEM_ST, store_land) : NULL;
  if (!op) {
    free(data);
    return stop_launch(w, i, ST_INTERNAL);
  }
  const s32 *ref = w->m->ext + i->ext;
  for (s32 r = 0; r < i->n_ext; r++)
    memcpy(data + r * LANES, R32(ref[r]), LANES * sizeof *data);
  op->data = (u8 *)data;
  op->mask = m;
  op->arg[0] = b.addr[0];
  op->arg[1] = b.addr[1];
  op->arg[2] = b.ok;
  w->tmem_stores++;
  async_push(w->m, op);
  return STEP_NEXT;
}

const OpEntry ops_tcgen05_ldst[] = {{"tcgen05.ld", ld}, {"tcgen05.st", st}, {0, 0}};
