/* The rows of a tile in global and in shared memory (PTX ISA, "Tiled Mode",
 * ".tile::scatter4 and .tile::gather4 modes", "Out of Boundary Access", "Swizzling
 * Modes"). */
#include "tma.h"

#include "cluster.h"
#include "observer.h"

/* Stores are cut on 16-byte chunks: the chunk that holds the last element inside is
 * written whole, as an H200 does. Loads are cut on elements. */
RowPart tma_row(const TensorMap *t, const s64 *coord, const u32 *at, int store) {
  RowPart r = {0, 0, 0, 0};
  unsigned __int128 va = t->base;
  for (u32 d = 1; d < t->rank; d++) {
    s64 c = t->four ? coord[1 + at[1]] : coord[d] + (s64)at[d] * t->step[d];
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

void tma_next_row(const TensorMap *t, u32 *at) {
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

u32 tma_map(const u32 *words, u32 dim, TensorMap *t) {
  u32 error = tensormap_decode(words, dim & ~(u32)FOUR_ROWS, t);
  if (error || !(dim & FOUR_ROWS)) return error;
  if (words[14] & 0xffu) return TMAP_ROWS;
  t->four = 1;
  t->count[1] = (u32)(t->rows = TMAP_DIMS - 1);
  return TMAP_OK;
}

u32 tma_decode(const Async *op, TensorMap *t, s64 *coord) {
  u32 words[TMAP_WORDS];
  memcpy(words, op->arg, sizeof words);
  u32 error = tma_map(words, (u32)op->insn->x[X_DIM], t);
  for (u32 d = 0; d < TMAP_DIMS; d++) coord[d] = (s64)op->arg[A_COORD + d];
  return error;
}

/* Global bytes of one row, checked. */
u8 *tma_row_bytes(Machine *m, const Async *op, const RowPart *r, u32 access) {
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

void tma_load_tile(Machine *m, const Async *op, const TensorMap *t, const s64 *coord,
                   u32 addr) {
  u8 row[256 * 8];
  u8 *tile = tile_lines(m, op, t, addr);
  if (!tile) return;
  tell_tile(m, op, t, addr, ACCESS_WRITE);
  u32 at[TMAP_DIMS] = {0};
  const u8 *whole = t->tf32 || t->four || m->observer ? NULL : whole_box(m, op, t, coord);
  for (u64 k = 0; whole && k < t->rows; k++, tma_next_row(t, at)) {
    const u8 *from = whole;
    for (u32 d = 1; d < t->rank; d++) from += (u64)at[d] * t->step[d] * t->stride[d];
    put_row(t, tile, addr, k * t->pitch, from);
  }
  for (u64 k = 0; !whole && k < t->rows; k++, tma_next_row(t, at)) {
    RowPart r = tma_row(t, coord, at, 0);
    if (r.bytes < t->row_bytes) fill_row(t, row);
    if (r.bytes) {
      const u8 *from = tma_row_bytes(m, op, &r, ACCESS_READ);
      if (from) memcpy(row + r.skip, from, r.bytes);
      else memset(row + r.skip, 0, r.bytes);
      if (t->tf32) round_tf32(row + r.skip, r.bytes);
    }
    put_row(t, tile, addr, k * t->pitch, row);
  }
}

int tma_read_tile(Machine *m, const Async *op, const TensorMap *t, u32 addr, u8 *data) {
  const u8 *tile = tile_lines(m, op, t, addr);
  if (tile) tell_tile(m, op, t, addr, ACCESS_READ);
  for (u64 k = 0; tile && k < t->rows; k++)
    get_row(t, tile, addr, k * t->pitch, data + k * t->row_bytes);
  return tile != NULL;
}
