/* Accesses to shared and global memory, word by word. */
#include <stdlib.h>

#include "events.h"

enum { PAGE_BYTES = 4096, PAGE_WORDS = PAGE_BYTES / 4 };
struct Page {
  u64 number; /* address / PAGE_BYTES */
  Page *next; /* of one bucket */
  Cell cell[PAGE_WORDS];
};

/* The cell of the word at `address`, or NULL without memory. */
static Cell *global_cell(Detector *d, u64 address) {
  u64 number = address / PAGE_BYTES;
  if (!d->page) {
    d->cap_pages = 4096;
    d->page = calloc(d->cap_pages, sizeof *d->page);
    if (!d->page) return NULL;
  }
  Page **bucket = &d->page[number * 0x9e3779b97f4a7c15ull >> 52 & (d->cap_pages - 1)];
  for (Page *p = *bucket; p; p = p->next)
    if (p->number == number) return &p->cell[address % PAGE_BYTES / 4];
  Page *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->number = number;
  p->next = *bucket;
  *bucket = p;
  d->n_pages++;
  return &p->cell[address % PAGE_BYTES / 4];
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

/* Bytes of the word at `at` that [from, to) covers, as a mask. */
static inline u32 covered(u64 at, u64 from, u64 to) {
  u32 low = from > at ? (u32)(from - at) : 0, high = to < at + 4 ? (u32)(to - at) : 4;
  return (15u << low) & (15u >> (4 - high));
}

static void run(Detector *d, Accessor *a, u32 memory, u64 from, u64 size) {
  u64 to = from + size;
  for (u64 at = from & ~3ull; at < to; at += 4) {
    Cell *cell = NULL;
    if (a->space == RACE_GLOBAL) cell = global_cell(d, at);
    else if (at / 4 < d->smem_words) cell = &d->cta[memory].smem[at / 4];
    if (!cell) {
      d->lost++;
      return;
    }
    a->address = at;
    shadow_access(d, cell, a, covered(at, from, to));
  }
}

static Accessor by_lane(Detector *d, u32 slot, u32 warp, u32 pc, u32 lane, u32 space,
                      u32 flags, u32 scope) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 first = slot / d->cluster * d->per_group;
  Accessor a = {.known = warp_strand(w, lane)->known, .first_comp = first, .space = space};
  a.async_plane = space == RACE_GLOBAL ? PLANE_ASYNC_GLOBAL : PLANE_ASYNC_SHARED;
  a.entry = (Entry){.clock = w->clock, .pc = pc, .comp = first + w->comp, .lane = lane,
                    .flags = flags, .scope = scope};
  return a;
}

/* Lanes that read the very same bytes are one reader. */
static u32 same_place(const u64 *at, u32 lanes, u32 lane) {
  u32 same = 0;
  for (u32 l = 0; l < LANES; l++) same |= (u32)(at[l] == at[lane]) << l;
  return same & lanes;
}

static void by_lanes(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 space,
                     u32 memory, const u64 *at, u32 size, u32 flags, u32 scope) {
  u32 strands = d->cta[slot].warp[warp].n;
  for (u32 left = lanes; left;) {
    u32 lane = (u32)__builtin_ctz(left), group = 1u << lane;
    if (strands == 1) group = same_place(at, left, lane);
    Accessor a = by_lane(d, slot, warp, pc, lane, space, flags, scope);
    if (group & (group - 1)) a.entry.lane = ANY_LANE;
    run(d, &a, memory, at[lane], size);
    left &= ~group;
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
  a.entry = (Entry){.clock = e->clock, .pc = pc, .comp = first + e->comp,
                    .flags = flags | ENTRY_ENGINE};
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
