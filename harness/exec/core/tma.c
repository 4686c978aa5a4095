/* Tensor copies (PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor",
 * "Tiled Mode", "Out of Boundary Access", "Swizzling Modes").
 *
 * An instruction takes its operands and the tensor map when it is issued; the copy
 * happens when the scheduler lets it land. A store lands twice: first shared memory
 * is read, later global memory is written, as bulk_group waits tell the two apart.
 * ext = map, shared address, mbarrier, CTA mask, coordinates; x = dim, offsets of the
 * shared and mbarrier addresses, reduction (stores) or enum LoadFlag (loads); imm =
 * offset of the map's address.
 */
#include "tma.h"

#include <stdlib.h>

#include "bulk_group.h"
#include "bulk_reduce.h"
#include "cluster.h"
#include "mbarrier.h"
#include "observer.h"

/* The map may change once the operation that uses it is complete. */
static void tell_map(const Machine *m, const Async *op) {
  if (op->arg[A_MAP] >> WINDOW_SHIFT) return; /* a parameter: nobody writes it */
  OBSERVE(m, engine, op, SPACE_GLOBAL, op->arg[A_MAP], TMAP_BYTES, ACCESS_MAP);
}

static void load_land(Machine *m, Async *op) {
  TensorMap t;
  s64 coord[TMAP_DIMS];
  if (tma_decode(op, &t, coord)) return;
  tell_map(m, op);
  u64 bytes = t.rows * t.row_bytes;
  u32 addr = (u32)op->arg[A_SMEM], mbar = (u32)op->arg[A_MBAR];
  u32 mask = (u32)op->arg[A_MASK];
  if (m->ext[op->insn->ext + EXT_MASK] == NOREF) {
    tma_load_tile(m, op, &t, coord, addr);
    m->tma_bytes += bytes;
    if (bytes <= m->smem_size) mbarrier_complete_tx(m, op->insn, op->cta, mbar, (u32)bytes);
    return;
  }
  /* .multicast::cluster: the same offset in every CTA of the mask; its signal goes to
   * that CTA or, with .cta_group::2, to the one of its pair that is as odd or even as
   * the CTA which the mbarrier operand names. */
  int pair = op->insn->x[X_FLAGS] & LOAD_PAIR;
  for (u32 left = mask; left; left &= left - 1) {
    u32 rank = (u32)__builtin_ctz(left);
    u32 signal = pair ? cluster_signal_rank(rank, mbar) : rank;
    tma_load_tile(m, op, &t, coord, rank << 24 | (addr & 0xffffffu));
    m->tma_bytes += bytes;
    if (bytes <= m->smem_size)
      mbarrier_complete_tx(m, op->insn, op->cta, signal << 24 | (mbar & 0xffffffu),
                           (u32)bytes);
  }
}

static u32 reduce_type(const TensorMap *t, u32 op) {
  static const u8 types[] = {RED_NONE, RED_NONE, RED_U32, RED_S32, RED_U64, RED_S64,
                             RED_F16,  RED_F32,  RED_F32_FTZ, RED_F64, RED_BF16};
  if (t->type == TMAP_U8 || t->type == TMAP_U16 || t->tf32) return RED_TYPES;
  if (op >= RED_AND && t->elem >= 4 && t->type <= TMAP_S64)
    return t->elem == 4 ? RED_B32 : RED_B64;
  return types[t->type];
}

static void write_land(Machine *m, Async *op) {
  TensorMap t;
  s64 coord[TMAP_DIMS];
  if (tma_decode(op, &t, coord)) return;
  u32 red = (u32)op->insn->x[X_RED], type = reduce_type(&t, red);
  u32 at[TMAP_DIMS] = {0};
  op->element = red ? t.elem : 0;
  for (u64 k = 0; k < t.rows; k++, tma_next_row(&t, at)) {
    RowPart r = tma_row(&t, coord, at, 1);
    if (!r.bytes) continue;
    u8 *to = tma_row_bytes(m, op, &r, red ? ACCESS_ATOMIC : ACCESS_WRITE);
    if (!to) continue;
    const u8 *from = op->data + k * t.row_bytes + r.skip;
    if (red) reduce_elements(red, type, to, from, r.bytes);
    else memcpy(to, from, r.bytes);
  }
  m->tma_bytes += t.rows * t.row_bytes;
}

static void read_land(Machine *m, Async *op) {
  TensorMap t;
  s64 coord[TMAP_DIMS];
  if (tma_decode(op, &t, coord)) return;
  tell_map(m, op);
  u8 *data = malloc(t.rows * t.row_bytes);
  if (data && !tma_read_tile(m, op, &t, (u32)op->arg[A_SMEM], data)) {
    free(data);
    return;
  }
  Async *next = data ? async_new(op->warp, op->insn, ASYNC_BULK_WRITE, write_land) : NULL;
  if (!next) {
    free(data);
    stop_launch(op->warp, op->insn, ST_INTERNAL);
    return;
  }
  next->data = data;
  memcpy(next->arg, op->arg, A_END * sizeof *op->arg);
  next->cta = op->cta;
  next->lane = op->lane;
  next->mask = op->mask;
  next->group = op->group;
  async_push(m, next);
}

/* Whether a load may write and signal the CTAs it names: enum ClusterError. */
static u32 wrong_cta(const Warp *w, u32 flags, u32 addr, u32 mbar, u32 mask, int multi) {
  const Cta *to = smem_cta(w->cta, addr), *bar = smem_cta(w->cta, mbar);
  if (!to || !bar || (multi && mask >> w->m->cluster_size)) return CLUSTER_NO_CTA;
  if ((flags & LOAD_OWN) && to != w->cta) return CLUSTER_FOREIGN;
  if (!(flags & LOAD_PAIR)) return bar == to ? CLUSTER_OK : CLUSTER_APART;
  if (!multi && bar->rank >> 1 != to->rank >> 1) return CLUSTER_NOT_PAIR;
  for (u32 left = multi ? mask : 1u << to->rank; left; left &= left - 1)
    if (cluster_signal_rank((u32)__builtin_ctz(left), mbar) >= w->m->cluster_size)
      return CLUSTER_NO_PEER;
  return CLUSTER_OK;
}

/* Every active lane issues a copy of its own: the machine instruction takes uniform
 * operands, and the code around it loops over the lanes. Lanes that store the same
 * tile to the same place share one operation, since a store done twice is one done
 * once; loads signal and reductions add every time. */
static int issue(Warp *w, const Insn *i, u32 m, u32 kind, LandFn land) {
  const s32 *ref = w->m->ext + i->ext;
  u32 dim = (u32)i->x[X_DIM], n = tma_coordinates(dim), store = kind == ASYNC_BULK_STORE;
  u32 red = store ? (u32)i->x[X_RED] : 0;
  const u64 *map = R64(ref[EXT_MAP]);
  const u32 *smem_row = R32(ref[EXT_SMEM]);
  const u32 *mbar = ref[EXT_MBAR] == NOREF ? NULL : R32(ref[EXT_MBAR]);
  const u32 *mask = ref[EXT_MASK] == NOREF ? NULL : R32(ref[EXT_MASK]);
  for (u32 left = m; left;) {
    u32 lane = (u32)__builtin_ctz(left), same = left;
    for (u32 l = lane; l < LANES; l++) {
      int equal = (l == lane || (store && !red)) &&
                  map[l] == map[lane] && smem_row[l] == smem_row[lane] &&
                  (!mbar || mbar[l] == mbar[lane]) && (!mask || mask[l] == mask[lane]) &&
                  w->bulk_committed[l] == w->bulk_committed[lane];
      for (u32 d = 0; d < n; d++)
        equal &= R32(ref[EXT_COORD + d])[l] == R32(ref[EXT_COORD + d])[lane];
      if (!equal) same &= ~(1u << l);
    }
    left &= ~same;
    u64 va = map[lane] + (u64)i->imm;
    const u8 *p = resolve(w, i, lane, SPACE_GENERIC, va, TMAP_BYTES, TMAP_ALIGN, ACCESS_READ);
    if (!p) continue;
    u32 words[TMAP_WORDS];
    memcpy(words, p, sizeof words);
    TensorMap t;
    u32 error = tma_map(words, dim, &t);
    if (error == TMAP_UNMODELLED) return stop_launch(w, i, ST_UNSUPPORTED);
    /* "The address of the bounding box must also be aligned to 16 bytes" */
    if (!error && (RS32(ref[EXT_COORD])[lane] * (s64)t.elem) & 15) error = TMAP_BAD_START;
    for (u32 d = 0; d < n && !error; d++) /* the machine refuses it, as PTX does */
      if (store && RS32(ref[EXT_COORD + d])[lane] < 0)
        error = TMAP_NEGATIVE;
    if (!error && red && !reduce_bytes(red, reduce_type(&t, red))) error = TMAP_BAD_TYPE;
    if (error) {
      fault(w, i, lane, FAULT_TENSORMAP, va, TMAP_BYTES, error);
      continue;
    }
    u32 addr = smem_row[lane] + (u32)i->x[X_SMEM_OFFSET];
    u32 bar = mbar ? mbar[lane] + (u32)i->x[X_MBAR_OFFSET] : 0;
    u32 to = mask ? mask[lane] & 0xffffu : 0;
    const Cta *own = smem_cta(w->cta, addr);
    error = !store          ? wrong_cta(w, (u32)i->x[X_FLAGS], addr, bar, to, mask != NULL)
            : !own          ? CLUSTER_NO_CTA
            : own == w->cta ? CLUSTER_OK
                            : CLUSTER_FOREIGN;
    if (error) {
      fault(w, i, lane, FAULT_CLUSTER, addr, bar, error);
      continue;
    }
    Async *op = async_new(w, i, kind, land);
    if (!op) return STEP_STOP;
    memcpy(op->arg, words, sizeof words);
    op->lane = lane;
    op->mask = same;
    op->group = bulk_group_step(w->bulk_committed[lane], BULK_GROUP_ISSUE, 0, 0).value;
    op->arg[A_SMEM] = addr;
    op->arg[A_MBAR] = bar;
    op->arg[A_MASK] = to;
    op->arg[A_LANE] = lane;
    op->arg[A_MAP] = va;
    for (u32 d = 0; d < TMAP_DIMS; d++) {
      s64 c = d < n ? RS32(ref[EXT_COORD + d])[lane] : 0;
      op->arg[A_COORD + d] = (u64)c;
    }
    op->work = t.rows * t.row_bytes;
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

static int load(Warp *w, const Insn *i, u32 m) {
  return issue(w, i, m, ASYNC_BULK_LOAD, load_land);
}

static int store(Warp *w, const Insn *i, u32 m) {
  return issue(w, i, m, ASYNC_BULK_STORE, read_land);
}

/* A prefetch moves nothing, but the unit reads the map. */
static int prefetch(Warp *w, const Insn *i, u32 m) {
  const s32 *ref = w->m->ext + i->ext;
  const u64 *map = R64(ref[EXT_MAP]);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    u64 va = map[l] + (u64)i->imm;
    const u8 *p = resolve(w, i, l, SPACE_GENERIC, va, TMAP_BYTES, TMAP_ALIGN, ACCESS_READ);
    if (!p) continue;
    u32 words[TMAP_WORDS];
    memcpy(words, p, sizeof words);
    TensorMap t;
    u32 error = tma_map(words, (u32)i->x[X_DIM], &t);
    if (error > TMAP_UNMODELLED)
      fault(w, i, l, FAULT_TENSORMAP, va, TMAP_BYTES, error);
  }
  return STEP_NEXT;
}

const OpEntry ops_tma[] = {
    {"tma.load", load}, {"tma.store", store}, {"tma.prefetch", prefetch}, {0, 0}};
