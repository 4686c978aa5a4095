/* Accesses to shared and global memory, word by word. */
#include <stdlib.h>

#include "events.h"

enum { PAGE_BYTES = 4096, PAGE_CELLS = PAGE_BYTES / CELL_BYTES };
struct Page {
  u64 number; /* address / PAGE_BYTES */
  Page *next; /* of one bucket */
  Cell cell[PAGE_CELLS];
};

static u64 page_bucket(const Detector *d, u64 number) {
  return number * 0x9e3779b97f4a7c15ull >> 52 & (d->cap_pages - 1);
}

/* The cell of the bytes at `address`, or NULL without memory. */
static Cell *global_cell(Detector *d, u64 address) {
  u64 number = address / PAGE_BYTES;
  if (!d->page) {
    d->cap_pages = 4096;
    d->page = calloc(d->cap_pages, sizeof *d->page);
    if (!d->page) return NULL;
  }
  Page **bucket = &d->page[page_bucket(d, number)];
  for (Page *p = *bucket; p; p = p->next)
    if (p->number == number) return &p->cell[address % PAGE_BYTES / CELL_BYTES];
  Page *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->number = number;
  p->next = *bucket;
  *bucket = p;
  d->n_pages++;
  return &p->cell[address % PAGE_BYTES / CELL_BYTES];
}

const Cell *global_seen(const Detector *d, u64 address) {
  u64 number = address / PAGE_BYTES;
  if (!d->page) return NULL;
  for (const Page *p = d->page[page_bucket(d, number)]; p; p = p->next)
    if (p->number == number) return &p->cell[address % PAGE_BYTES / CELL_BYTES];
  return NULL;
}

void global_free(Detector *d) {
  for (u32 k = 0; d->page && k < d->cap_pages; k++)
    while (d->page[k]) {
      Page *next = d->page[k]->next;
      free(d->page[k]);
      d->page[k] = next;
    }
  free(d->page);
}

static void run(Detector *d, Accessor *a, u32 memory, u64 from, u64 size) {
  u64 to = from + size;
  for (u64 at = from & ~(CELL_BYTES - 1ull); at < to; at += CELL_BYTES) {
    Cell *cell = NULL;
    if (a->space == RACE_GLOBAL) cell = global_cell(d, at);
    else if (at / CELL_BYTES < d->smem_cells) cell = &d->cta[memory].smem[at / CELL_BYTES];
    if (!cell) {
      d->lost++;
      return;
    }
    u32 low = from > at ? (u32)(from - at) : 0;
    u32 high = to < at + CELL_BYTES ? (u32)(to - at) : CELL_BYTES;
    a->address = at + low;
    u32 bytes = ALL_BYTES << low & ALL_BYTES >> (CELL_BYTES - high);
    shadow_access(d, cell, a, bytes);
    if (a->space == RACE_GLOBAL && (d->grids.dependent || entry_reads_map(&a->entry)))
      detector_note_early(d, a, at, bytes);
  }
}

static Accessor by_lane(Detector *d, u32 slot, u32 warp, u32 pc, u32 lane, u32 space,
                      u32 flags, u32 scope) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 first = slot / d->cluster * d->per_group;
  Accessor a = {.known = warp_strand(w, lane)->known, .first_comp = first, .space = space};
  a.async_plane = space == RACE_GLOBAL ? PLANE_ASYNC_GLOBAL : PLANE_ASYNC_SHARED;
  a.entry = (Entry){.clock = w->clock, .pc = pc, .comp = first + w->comp, .lane = lane,
                    .scope = scope};
  entry_set_flags(&a.entry, flags);
  return a;
}

/* Neighbouring lanes at the very same bytes are one reader. */
static void by_lanes(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 space,
                     u32 memory, const u64 *at, u32 size, u32 flags, u32 scope) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  Accessor a = by_lane(d, slot, warp, pc, (u32)__builtin_ctz(lanes), space, flags, scope);
  for (u32 left = lanes; left;) {
    u32 lane = (u32)__builtin_ctz(left);
    left &= left - 1;
    a.entry.lane = lane;
    a.lanes = 1u << lane;
    if (w->n > 1) {
      a.known = warp_strand(w, lane)->known;
    } else {
      while (left && at[__builtin_ctz(left)] == at[lane]) {
        a.lanes |= left & -left;
        left &= left - 1;
        a.entry.lane = ANY_LANE;
      }
    }
    run(d, &a, memory, at[lane], size);
  }
}

void detector_shared(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 memory,
                     const u32 *offset, u32 size, u32 flags, u32 scope) {
  u64 at[LANES];
  for (u32 l = 0; l < LANES; l++) at[l] = offset[l];
  by_lanes(d, slot, warp, pc, lanes, RACE_SHARED, memory, at, size, flags, scope);
}

void detector_global(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes,
                     const u64 *address, u32 size, u32 flags, u32 scope) {
  by_lanes(d, slot, warp, pc, lanes, RACE_GLOBAL, 0, address, size, flags, scope);
}

static void by_engine(Detector *d, u32 id, u32 pc, u32 space, u32 memory, u64 from,
                      u64 size, u32 flags) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  u32 first = e->group * d->per_group;
  Accessor a = {.known = e->known, .first_comp = first, .space = space};
  a.async_plane = space == RACE_GLOBAL ? PLANE_ASYNC_GLOBAL : PLANE_ASYNC_SHARED;
  a.entry = (Entry){.clock = e->clock, .pc = pc, .comp = first + e->comp};
  /* PTX ISA, cp.reduce.async.bulk: relaxed, of the scope of the GPU */
  if (flags & ENTRY_STRONG) a.entry.scope = SCOPE_GPU;
  entry_set_flags(&a.entry, flags | ENTRY_ENGINE);
  run(d, &a, memory, from, size);
}

void detector_engine_shared(Detector *d, u32 id, u32 pc, u32 memory, u32 offset,
                            u64 size, u32 flags) {
  by_engine(d, id, pc, RACE_SHARED, memory, offset, size, flags);
}

void detector_engine_global(Detector *d, u32 id, u32 pc, u64 address, u64 size,
                            u32 flags) {
  by_engine(d, id, pc, RACE_GLOBAL, 0, address, size, flags);
}

/* --- tensor memory ------------------------------------------------------------------ */
static void tensor(Detector *d, Accessor *a, u32 memory, u32 lane, u32 lanes, u32 column,
                   u32 columns) {
  a->space = RACE_TENSOR;
  a->async_plane = PLANE_ORDER; /* no proxies */
  Cell *cells = d->cta[memory].tmem;
  if (!cells || column + columns > 512 || lane + lanes > 128) return;
  for (u32 c = column; c < column + columns; c++)
    for (u32 l = lane & ~(TMEM_CELL_LANES - 1u); l < lane + lanes; l += TMEM_CELL_LANES) {
      u32 low = lane > l ? lane - l : 0;
      u32 high = lane + lanes < l + TMEM_CELL_LANES ? lane + lanes - l : TMEM_CELL_LANES;
      a->address = (u64)l << 16 | c;
      shadow_access(d, &cells[c * (128 / TMEM_CELL_LANES) + l / TMEM_CELL_LANES], a,
                    ALL_BYTES << low & ALL_BYTES >> (TMEM_CELL_LANES - high));
    }
}

void detector_engine_tensor(Detector *d, u32 id, u32 pc, u32 memory, u32 lane, u32 lanes,
                            u32 column, u32 columns, u32 flags) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  u32 first = e->group * d->per_group;
  Accessor a = {.known = e->known, .first_comp = first};
  a.entry = (Entry){.clock = e->clock, .pc = pc, .comp = first + e->comp};
  entry_set_flags(&a.entry, flags | ENTRY_ENGINE);
  tensor(d, &a, memory, lane, lanes, column, columns);
}

/* What a load gave is used behind a scoreboard, so that the practice profile takes it to
 * be over; the isa profile waits for tcgen05.wait::ld. */
void detector_warp_tensor(Detector *d, u32 slot, u32 warp, u32 pc, u32 kind, u32 lane,
                          u32 lanes, u32 column, u32 columns) {
  CtaAgent *c = &d->cta[slot];
  WarpAgent *w = &c->warp[warp];
  u32 first = slot / d->cluster * d->per_group;
  u32 comp = slot % d->cluster * d->per_cta + detector_pipe_comp(d, kind, warp);
  c->pipe[warp].fenced = 0;
  warp_release(w, w->live, d->scratch);
  Accessor a = {.known = d->scratch, .first_comp = first};
  a.entry = (Entry){.clock = ++c->pipe[warp].clock[kind], .pc = pc, .comp = first + comp};
  entry_set_flags(&a.entry, ENTRY_ENGINE | (kind == PIPE_STORE ? ENTRY_WRITE : 0));
  detector_note_issue(d, a.entry.comp, a.entry.clock, slot, warp, d->scratch);
  tensor(d, &a, slot, lane, lanes, column, columns);
  if (kind == PIPE_LOAD && d->profile == PROFILE_PRACTICE)
    detector_tensor_wait(d, slot, warp, PIPE_LOAD);
}
