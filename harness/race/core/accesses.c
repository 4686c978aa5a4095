/* Accesses to shared and global memory, word by word. */
#include <stdlib.h>

#include "events.h"

enum { PAGE_BYTES = 4096, PAGE_BLOCKS = PAGE_BYTES / BLOCK_BYTES };
struct Page {
  u64 number; /* address / PAGE_BYTES */
  Page *next; /* of one bucket */
  Block block[PAGE_BLOCKS];
};

static u64 page_bucket(const Detector *d, u64 number) {
  return number * 0x9e3779b97f4a7c15ull >> 52 & (d->cap_pages - 1);
}

/* The block of the bytes at `address`, or NULL without memory. */
static Block *global_block(Detector *d, u64 address) {
  u64 number = address / PAGE_BYTES;
  if (!d->page) {
    d->cap_pages = 4096;
    d->page = calloc(d->cap_pages, sizeof *d->page);
    if (!d->page) return NULL;
  }
  Page **bucket = &d->page[page_bucket(d, number)];
  for (Page *p = *bucket; p; p = p->next)
    if (p->number == number) return &p->block[address % PAGE_BYTES / BLOCK_BYTES];
  Page *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->number = number;
  p->next = *bucket;
  *bucket = p;
  d->n_pages++;
  return &p->block[address % PAGE_BYTES / BLOCK_BYTES];
}

const Cell *global_seen(Detector *d, u64 address) {
  u64 number = address / PAGE_BYTES;
  if (!d->page) return NULL;
  for (Page *p = d->page[page_bucket(d, number)]; p; p = p->next)
    if (p->number == number)
      return block_cell(d, &p->block[address % PAGE_BYTES / BLOCK_BYTES],
                        (u32)(address % BLOCK_BYTES / CELL_BYTES));
  return NULL;
}

void global_free(Detector *d) {
  for (u32 k = 0; d->page && k < d->cap_pages; k++)
    while (d->page[k]) {
      Page *next = d->page[k]->next;
      for (u32 b = 0; b < PAGE_BLOCKS; b++) block_free(&d->page[k]->block[b]);
      free(d->page[k]);
      d->page[k] = next;
    }
  free(d->page);
}

static Block *block_of(Detector *d, u32 space, u32 memory, u64 at) {
  if (space == RACE_GLOBAL) return global_block(d, at);
  return at / BLOCK_BYTES < d->smem_blocks ? &d->cta[memory].smem[at / BLOCK_BYTES] : NULL;
}

static inline u64 ones(u64 n) { return n < 64 ? (1ull << n) - 1 : ~0ull; }

static void run(Detector *d, Accessor *a, u32 memory, u64 from, u64 size) {
  u64 to = from + size;
  u32 together = entry_flags(&a->entry) & ENTRY_ENGINE;
  int early = a->space == RACE_GLOBAL && (d->grids.dependent || entry_reads_map(&a->entry));
  for (u64 at = from; at < to;) {
    Block *b = block_of(d, a->space, memory, at);
    if (!b) {
      d->lost++;
      return;
    }
    u64 first = at & ~(BLOCK_BYTES - 1ull), end = first + BLOCK_BYTES;
    if (end > to) end = to;
    while (at < end) {
      u32 low = (u32)(at % CELL_BYTES), cell = (u32)((at - first) / CELL_BYTES);
      u64 whole = low || !together ? 0 : (end - at) / CELL_BYTES;
      if (whole) {
        block_access(d, b, a, first, ones(whole) << cell);
        for (u64 k = 0; early && k < whole; k++) {
          a->address = at + k * CELL_BYTES;
          detector_note_early(d, a, a->address, ALL_BYTES);
        }
        at += whole * CELL_BYTES;
        continue;
      }
      u32 high = end - at < CELL_BYTES - low ? low + (u32)(end - at) : CELL_BYTES;
      a->address = at;
      u32 bytes = ALL_BYTES << low & ALL_BYTES >> (CELL_BYTES - high);
      block_part(d, b, a, cell, bytes);
      if (early) detector_note_early(d, a, at - low, bytes);
      at += high - low;
    }
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

/* Ask for the cells of all lanes before the first one is looked at. */
static void fetch(const Detector *d, u32 memory, u32 lanes, const u64 *at) {
  for (u32 left = lanes; left; left &= left - 1) {
    u64 from = at[__builtin_ctz(left)];
    const Block *b = &d->cta[memory].smem[from / BLOCK_BYTES];
    if (from / BLOCK_BYTES < d->smem_blocks && b->cell)
      __builtin_prefetch(&b->cell[from % BLOCK_BYTES / CELL_BYTES]);
  }
}

/* What lanes of one instruction store, which are in no order: `value` of each. */
typedef struct Stores {
  const u64 *at;
  const u8 *value;
  u32 size;
  u64 places; /* a bit for each place that was stored to, as it hashes */
} Stores;

static int alike(const Stores *s, u32 one, u32 two) {
  return s->at[one] == s->at[two] &&
         !memcmp(s->value + one * s->size, s->value + two * s->size, s->size);
}

/* Whether one of `before` has stored the same at the same place. */
static u32 stored_before(Stores *s, u32 before, u32 lane) {
  u64 place = 1ull << (s->at[lane] / s->size * 0x9e3779b97f4a7c15ull >> 58);
  if (!(s->places & place)) before = 0;
  s->places |= place;
  for (; before; before &= before - 1)
    if (alike(s, (u32)__builtin_ctz(before), lane)) return 1;
  return 0;
}

/* Neighbouring lanes at the very same bytes are one reader; or one writer, where the
 * profile lets them store the same. */
static void by_lanes(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 space,
                     u32 memory, const u64 *at, u32 size, u32 flags, u32 scope,
                     const u8 *value) {
  Stores s = {.at = at, .value = value, .size = size};
  int each = value && d->profile == PROFILE_ISA, same = value && !each;
  WarpAgent *w = &d->cta[slot].warp[warp];
  Accessor a = by_lane(d, slot, warp, pc, (u32)__builtin_ctz(lanes), space, flags, scope);
  if (space == RACE_SHARED) fetch(d, memory, lanes, at);
  for (u32 left = lanes; left;) {
    u32 lane = (u32)__builtin_ctz(left);
    left &= left - 1;
    a.entry.lane = lane;
    a.lanes = 1u << lane;
    a.again = same && stored_before(&s, lanes & (a.lanes - 1), lane);
    if (w->n > 1) {
      a.known = warp_strand(w, lane)->known;
    } else {
      while (left && !each && at[__builtin_ctz(left)] == at[lane]) {
        if (same && !alike(&s, lane, (u32)__builtin_ctz(left))) break;
        a.lanes |= left & -left;
        left &= left - 1;
        a.entry.lane = ANY_LANE;
        d->relaxed[RELAX_SAME_VALUE] += (u32)same;
      }
    }
    run(d, &a, memory, at[lane], size);
  }
}

void detector_shared(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 memory,
                     const u32 *offset, u32 size, u32 flags, u32 scope, const u8 *value) {
  u64 at[LANES];
  for (u32 l = 0; l < LANES; l++) at[l] = offset[l];
  by_lanes(d, slot, warp, pc, lanes, RACE_SHARED, memory, at, size, flags, scope, value);
}

void detector_global(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes,
                     const u64 *address, u32 size, u32 flags, u32 scope, const u8 *value) {
  by_lanes(d, slot, warp, pc, lanes, RACE_GLOBAL, 0, address, size, flags, scope, value);
}

static Accessor by_operation(const Detector *d, const EngineAgent *e, u32 pc, u32 space,
                             u32 flags) {
  u32 first = e->group * d->per_group;
  Accessor a = {.known = e->known, .first_comp = first, .space = space};
  a.async_plane = space == RACE_GLOBAL ? PLANE_ASYNC_GLOBAL : PLANE_ASYNC_SHARED;
  a.entry = (Entry){.clock = e->clock, .pc = pc, .comp = first + e->comp, .lane = e->element};
  entry_set_flags(&a.entry, flags | ENTRY_ENGINE);
  return a;
}

static void by_engine(Detector *d, u32 id, u32 pc, u32 space, u32 memory, u64 from,
                      u64 size, u32 flags) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  Accessor a = by_operation(d, e, pc, space, flags);
  /* PTX ISA, cp.reduce.async.bulk: relaxed, of the scope of the GPU */
  if (flags & ENTRY_STRONG) a.entry.scope = SCOPE_GPU;
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

/* Blocks whose cells are gathered before they are judged. */
enum { GATHERED = 32 };
typedef struct Gathered {
  u32 n, block[GATHERED];
  u64 cells[GATHERED];
} Gathered;

static void judge_gathered(Detector *d, Accessor *a, u32 memory, Gathered *g) {
  for (u32 k = 0; k < g->n; k++)
    block_access(d, &d->cta[memory].smem[g->block[k]], a, (u64)g->block[k] * BLOCK_BYTES,
                 g->cells[k]);
  g->n = 0;
}

void detector_engine_chunks(Detector *d, u32 id, u32 pc, u32 memory, const u32 *offset,
                            u32 n, u32 flags) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  Accessor a = by_operation(d, e, pc, RACE_SHARED, flags);
  Gathered g = {.n = 0};
  for (u32 k = 0; k < n; k++) {
    u32 block = offset[k] / BLOCK_BYTES, at = g.n;
    if (block >= d->smem_blocks) {
      d->lost++;
      continue;
    }
    while (at && g.block[at - 1] != block) at--; /* the latest is the likeliest */
    if (!at) {
      if (g.n == GATHERED) judge_gathered(d, &a, memory, &g);
      g.block[g.n] = block;
      g.cells[g.n] = 0;
      at = ++g.n;
    }
    g.cells[at - 1] |= 1ull << offset[k] % BLOCK_BYTES / CELL_BYTES;
  }
  judge_gathered(d, &a, memory, &g);
}

/* --- what it costs ------------------------------------------------------------------ */
static u64 touched(const Block *b, u64 n) {
  u64 cells = 0;
  for (u64 k = 0; b && k < n; k++) cells += (u64)__builtin_popcountll(b[k].touched);
  return cells;
}

/* Bytes of cells that were accessed: shared memory by slot, tensor memory, global. */
u64 race_touched(const Detector *d) {
  u64 bytes = 0;
  for (u32 s = 0; s < d->n_slots; s++) {
    const CtaAgent *c = &d->cta[s];
    bytes += CELL_BYTES * touched(c->smem, d->smem_blocks);
    bytes += 4 * TMEM_CELL_LANES * touched(c->tmem, TMEM_COLUMNS / BLOCK_COLUMNS);
  }
  for (u32 k = 0; d->page && k < d->cap_pages; k++)
    for (const Page *p = d->page[k]; p; p = p->next)
      bytes += CELL_BYTES * touched(p->block, PAGE_BLOCKS);
  return bytes;
}
