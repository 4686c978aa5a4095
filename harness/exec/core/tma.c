/* Tensor copies (PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor",
 * "Tiled Mode", "Out of Boundary Access", "Swizzling Modes").
 *
 * An instruction takes its operands and the tensor map when it is issued; the copy
 * happens when the scheduler lets it land. A store lands twice: first shared memory
 * is read, later global memory is written, as bulk_group waits tell the two apart.
 * ext = map, shared address, mbarrier, CTA mask, coordinates x dim; x = dim, offsets of
 * the shared and mbarrier addresses, reduction (stores) or enum LoadFlag (loads);
 * imm = offset of the map's address.
 */
#include <stdlib.h>

#include "bulk_group.h"
#include "bulk_reduce.h"
#include "cluster.h"
#include "cost.h"
#include "mbarrier.h"
#include "observer.h"
#include "tensormap.h"

/* ext slots, the order of exec/lower/bulk.py */
enum { EXT_MAP = 0, EXT_SMEM, EXT_MBAR, EXT_MASK, EXT_COORD };
/* x slots */
enum { X_DIM = 0, X_SMEM_OFFSET, X_MBAR_OFFSET, X_RED, X_FLAGS = X_RED };
enum LoadFlag { LOAD_PAIR = 1, /* .cta_group::2 */ LOAD_OWN = 2 /* to .shared::cta */ };
/* arg slots of an operation in flight; the map's words come first */
enum { A_SMEM = 8, A_MBAR, A_MASK, A_LANE, A_COORD, A_END = A_COORD + TMAP_DIMS };

/* A row of the box: which part of it lies inside the tensor. */
typedef struct RowPart {
  u64 va;       /* address of the first byte inside; meaningless if bytes = 0 */
  u64 skip;     /* bytes of the box's row before it */
  u64 bytes;    /* how many lie inside */
  int beyond;   /* the address does not fit 64 bits */
} RowPart;

/* Stores are cut on 16-byte chunks: the chunk that holds the last element inside is
 * written whole, as an H200 does. Loads are cut on elements. */
static RowPart row_part(const TensorMap *t, const s64 *coord, const u32 *at, int store) {
  RowPart r = {0, 0, 0, 0};
  unsigned __int128 va = t->base;
  for (u32 d = 1; d < t->rank; d++) {
    s64 c = coord[d] + (s64)at[d] * t->step[d];
    if ((u64)c >= t->size[d]) return r; /* a negative one is huge */
    va += (unsigned __int128)(u64)c * t->stride[d];
  }
  s64 lo = coord[0] < 0 ? -coord[0] : 0;
  s64 hi = (s64)t->size[0] - coord[0];
  if (hi > (s64)t->count[0]) hi = (s64)t->count[0];
  if (hi <= lo) return r;
  va += (unsigned __int128)(u64)(coord[0] + lo) * t->elem;
  r.va = (u64)va;
  r.beyond = (va >> 64) != 0;
  r.skip = (u64)lo * t->elem;
  r.bytes = (u64)(hi - lo) * t->elem;
  if (store) r.bytes = (r.bytes + 15) & ~15ull;
  return r;
}

static void next_row(const TensorMap *t, u32 *at) {
  for (u32 d = 1; d < t->rank; d++) {
    if (++at[d] < t->count[d]) return;
    at[d] = 0;
  }
}

/* Shared memory of the tile, whole swizzle lines included. A tile starts on 128 bytes,
 * so that exchanging chunks within a line never leaves it. NULL if out of range. */
static u8 *tile_lines(Machine *m, const Async *op, const TensorMap *t, u32 addr) {
  u64 bytes = t->rows * t->pitch;
  u64 span = t->swizzle ? (bytes + 127) & ~127ull : bytes;
  u8 *p = addr & 127u ? NULL : smem_ptr(op->cta, addr, span);
  u32 kind = addr & 127u                  ? FAULT_SMEM_MISALIGNED
             : !p                         ? FAULT_SMEM_OOB
             : smem_gone(op->cta, addr)   ? FAULT_CLUSTER
                                          : 0;
  if (!kind) return p;
  fault_at(m, op->insn, op->cta, op->warp->id, (u32)op->arg[A_LANE], kind, addr, bytes,
           kind == FAULT_CLUSTER ? CLUSTER_EXITED : m->smem_size);
  return NULL;
}

/* The bytes of shared memory that a tile has: all of it, or the rows between gaps. */
static void tell_tile(Machine *m, const Async *op, const TensorMap *t, u32 addr,
                      u32 access) {
  if (!m->observer) return;
  if (t->pitch == t->row_bytes) {
    OBSERVE(m, engine, op, SPACE_SHARED, addr, t->rows * t->pitch, access);
    return;
  }
  for (u64 k = 0; k < t->rows; k++)
    for (u64 b = 0; b < t->row_bytes; b += 16) {
      u32 at = addr + (u32)(k * t->pitch + b);
      u64 n = t->row_bytes - b < 16 ? t->row_bytes - b : 16;
      if (t->swizzle) at = tensormap_swizzle(t->swizzle, at);
      OBSERVE(m, engine, op, SPACE_SHARED, at, n, access);
    }
}

/* A row of the box into its swizzled place `off` bytes into the tile, and back. */
static void put_row(const TensorMap *t, u8 *tile, u32 addr, u64 off, const u8 *row) {
  if (!t->swizzle) {
    memcpy(tile + off, row, t->row_bytes);
    return;
  }
  for (u64 k = 0; k < t->row_bytes; k += 16)
    memcpy(tile + (tensormap_swizzle(t->swizzle, addr + (u32)(off + k)) - addr), row + k, 16);
}

static void get_row(const TensorMap *t, const u8 *tile, u32 addr, u64 off, u8 *row) {
  if (!t->swizzle) {
    memcpy(row, tile + off, t->row_bytes);
    return;
  }
  for (u64 k = 0; k < t->row_bytes; k += 16)
    memcpy(row + k, tile + (tensormap_swizzle(t->swizzle, addr + (u32)(off + k)) - addr), 16);
}

/* What stands where the box leaves the tensor: zeros, or the OOB-NaN, which is the
 * same 16-bit pattern in every type on an H200. */
static void fill_row(const TensorMap *t, u8 *row) {
  memset(row, 0, t->row_bytes);
  if (t->nan_fill)
    for (u64 k = 0; k < t->row_bytes; k += 2) row[k] = 0xf7, row[k + 1] = 0x7f;
}

/* Loads of .tf32 round f32 to nearest even, subnormals included; NaN gives one value.
 * (The .ftz types load as the plain ones do.) */
static void round_tf32(u8 *bytes, u64 size) {
  for (u64 k = 0; k < size; k += 4) {
    u32 v;
    memcpy(&v, bytes + k, 4);
    if ((v & 0x7fffffffu) > 0x7f800000u) v = 0x7fffe000u;
    else v = (v + 0xfffu + (v >> 13 & 1u)) & ~0x1fffu;
    memcpy(bytes + k, &v, 4);
  }
}

static u32 decode_args(const Async *op, TensorMap *t, s64 *coord) {
  u32 words[TMAP_WORDS];
  memcpy(words, op->arg, sizeof words);
  u32 error = tensormap_decode(words, (u32)op->insn->x[X_DIM], t);
  for (u32 d = 0; d < TMAP_DIMS; d++) coord[d] = (s64)op->arg[A_COORD + d];
  return error;
}

/* Global bytes of one row, checked. */
static u8 *row_bytes(Machine *m, const Async *op, const RowPart *r, u32 access) {
  u64 va = r->beyond ? ~0ull - r->bytes : r->va;
  u8 *p = gmem_async(m, op->insn, op->cta, op->warp->id, (u32)op->arg[A_LANE], va,
                     r->bytes, 0, access);
  if (p) OBSERVE(m, engine, op, SPACE_GLOBAL, va, r->bytes, access);
  return p;
}

/* First byte of a box that lies inside the tensor and inside one allocation without
 * init map, so that no row needs a check of its own; else NULL. */
static const u8 *whole_box(Machine *m, const Async *op, const TensorMap *t,
                           const s64 *coord) {
  unsigned __int128 lo = t->base, size = t->row_bytes;
  for (u32 d = 0; d < t->rank; d++) {
    u64 last = (u64)(t->count[d] - 1) * t->step[d];
    if (coord[d] < 0 || (u64)coord[d] + last >= t->size[d]) return NULL;
    lo += (unsigned __int128)(u64)coord[d] * t->stride[d];
    if (d) size += (unsigned __int128)last * t->stride[d];
  }
  if ((lo + size) >> 64) return NULL;
  const Alloc *a = gmem_span(m, op->insn, (u64)lo, (u64)(lo + size), ACCESS_READ);
  return a ? a->host + ((u64)lo - a->va) : NULL;
}

static void load_tile(Machine *m, const Async *op, const TensorMap *t, const s64 *coord,
                      u32 addr) {
  u8 row[256 * 8];
  u8 *tile = tile_lines(m, op, t, addr);
  if (!tile) return;
  tell_tile(m, op, t, addr, ACCESS_WRITE);
  u32 at[TMAP_DIMS] = {0};
  const u8 *whole = t->tf32 || m->observer ? NULL : whole_box(m, op, t, coord);
  for (u64 k = 0; whole && k < t->rows; k++, next_row(t, at)) {
    const u8 *from = whole;
    for (u32 d = 1; d < t->rank; d++) from += (u64)at[d] * t->step[d] * t->stride[d];
    put_row(t, tile, addr, k * t->pitch, from);
  }
  for (u64 k = 0; !whole && k < t->rows; k++, next_row(t, at)) {
    RowPart r = row_part(t, coord, at, 0);
    if (r.bytes < t->row_bytes) fill_row(t, row);
    if (r.bytes) {
      const u8 *from = row_bytes(m, op, &r, ACCESS_READ);
      if (from) memcpy(row + r.skip, from, r.bytes);
      else memset(row + r.skip, 0, r.bytes);
      if (t->tf32) round_tf32(row + r.skip, r.bytes);
    }
    put_row(t, tile, addr, k * t->pitch, row);
  }
}

static void load_land(Machine *m, Async *op) {
  TensorMap t;
  s64 coord[TMAP_DIMS];
  if (decode_args(op, &t, coord)) return;
  u64 bytes = t.rows * t.row_bytes;
  u32 addr = (u32)op->arg[A_SMEM], mbar = (u32)op->arg[A_MBAR];
  u32 mask = (u32)op->arg[A_MASK];
  if (m->ext[op->insn->ext + EXT_MASK] == NOREF) {
    load_tile(m, op, &t, coord, addr);
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
    load_tile(m, op, &t, coord, rank << 24 | (addr & 0xffffffu));
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
  if (decode_args(op, &t, coord)) return;
  u32 red = (u32)op->insn->x[X_RED], type = reduce_type(&t, red);
  u32 at[TMAP_DIMS] = {0};
  for (u64 k = 0; k < t.rows; k++, next_row(&t, at)) {
    RowPart r = row_part(&t, coord, at, 1);
    if (!r.bytes) continue;
    u8 *to = row_bytes(m, op, &r, red ? ACCESS_ATOMIC : ACCESS_WRITE);
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
  if (decode_args(op, &t, coord)) return;
  u32 addr = (u32)op->arg[A_SMEM];
  u8 *tile = tile_lines(m, op, &t, addr);
  if (!tile) return;
  u8 *data = malloc(t.rows * t.row_bytes);
  Async *next = data ? async_new(op->warp, op->insn, ASYNC_BULK_WRITE, write_land) : NULL;
  if (!next) {
    free(data);
    stop_launch(op->warp, op->insn, ST_INTERNAL);
    return;
  }
  for (u64 k = 0; k < t.rows; k++)
    get_row(&t, tile, addr, k * t.pitch, data + k * t.row_bytes);
  tell_tile(m, op, &t, addr, ACCESS_READ);
  next->data = data;
  memcpy(next->arg, op->arg, A_END * sizeof *op->arg);
  next->cta = op->cta;
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
  u32 dim = (u32)i->x[X_DIM], store = kind == ASYNC_BULK_STORE;
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
      for (u32 d = 0; d < dim; d++)
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
    u32 error = tensormap_decode(words, dim, &t);
    if (error == TMAP_UNMODELLED) return stop_launch(w, i, ST_UNSUPPORTED);
    /* "The address of the bounding box must also be aligned to 16 bytes" */
    if (!error && (RS32(ref[EXT_COORD])[lane] * (s64)t.elem) & 15) error = TMAP_BAD_START;
    for (u32 d = 0; d < dim && !error; d++) /* the machine refuses it, as PTX does */
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
    error = store ? 0 : wrong_cta(w, (u32)i->x[X_FLAGS], addr, bar, to, mask != NULL);
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
    for (u32 d = 0; d < TMAP_DIMS; d++) {
      s64 c = d < dim ? RS32(ref[EXT_COORD + d])[lane] : 0;
      op->arg[A_COORD + d] = (u64)c;
    }
    if (w->m->cost) cost_work(w->m, t.rows * t.row_bytes, 1);
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
    u32 error = tensormap_decode(words, (u32)i->x[X_DIM], &t);
    if (error > TMAP_UNMODELLED)
      fault(w, i, l, FAULT_TENSORMAP, va, TMAP_BYTES, error);
  }
  return STEP_NEXT;
}

const OpEntry ops_tma[] = {
    {"tma.load", load}, {"tma.store", store}, {"tma.prefetch", prefetch}, {0, 0}};
