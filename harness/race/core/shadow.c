/* One access against a cell: who conflicts, who is stood for, where it is kept. */
#include "shadow.h"

#include <stdlib.h>

#include "detector.h"

/* Program order of a thread, or one and the same operation. Other operations of one
 * engine follow each other only where the knowledge says so. */
static inline int same_agent(const Entry *e, const Entry *now) {
  if (e->comp != now->comp || e->lane != now->lane || e->lane == ANY_LANE) return 0;
  u32 both = entry_flags(e) & entry_flags(now), any = entry_flags(e) | entry_flags(now);
  if (!(any & ENTRY_ENGINE)) return 1;
  return (both & ENTRY_ENGINE) && e->clock == now->clock;
}

int shadow_both_strong(const Entry *e, const Entry *now, u32 bytes) {
  if (e->bytes != bytes && !e->cut) return 0;
  u32 one = entry_flags(e), two = entry_flags(now);
  if (!(one & two & ENTRY_STRONG) || (one ^ two) & ENTRY_ASYNC) return 0;
  if (entry_reads_map(e) || entry_reads_map(now)) return 0;
  return !(one & two & ENTRY_ENGINE) || e->lane == now->lane;
}

/* Each of two strong accesses is within the other's scope. */
static int in_scope(const Detector *d, const Entry *e, const Entry *now) {
  u32 least = e->scope < now->scope ? e->scope : now->scope;
  if (least >= SCOPE_GPU) return 1;
  if (e->clock < detector_born(d, e->comp)) return 0; /* of an earlier CTA */
  if (least == SCOPE_CLUSTER) return detector_group_of(d, e->comp) == detector_group_of(d, now->comp);
  return detector_cta_of(d, e->comp) == detector_cta_of(d, now->comp);
}

/* What a strand knows of its own warp may come from bar.warp.sync of other lanes alone. */
static int of_other_lanes(const Detector *d, const Accessor *a, const Entry *e) {
  if (e->comp != a->entry.comp || !a->lanes) return 0;
  const WarpAgent *w = detector_reader(d, e);
  return w && !part_knows(w, a->lanes, e->clock, e->lane);
}

/* `practice`: a lane has read, its whole warp met at a .sync instruction, and then another
 * lane told the writer. Loads of shared memory by one warp are done in program order, so
 * that no lane's is left behind the meeting. */
static int read_before_meeting(Detector *d, const Accessor *a, const Entry *e) {
  if (d->profile == PROFILE_ISA || a->space != RACE_SHARED) return 0;
  if (entry_flags(e) & (ENTRY_WRITE | ENTRY_ENGINE)) return 0;
  const WarpAgent *w = detector_reader(d, e);
  u32 met = w ? warp_met(w, e->clock) : 0;
  if (!met || !knows_warp(a->known, e->comp - a->first_comp, met)) return 0;
  d->relaxed[RELAX_LANES_MET] += a->count;
  return 1;
}

static u32 order(Detector *d, const Accessor *a, const Entry *e) {
  if (a->space == RACE_TENSOR) return tensor_order(d, a, e);
  if (e->clock >= detector_born(d, e->comp) && same_agent(e, &a->entry)) return APART;
  const Knowledge *k = a->known;
  u32 c = e->comp - a->first_comp;
  int map = entry_reads_map(&a->entry) && (entry_flags(e) & ENTRY_WRITE);
  u32 crossing = !entry_reads_map(&a->entry) && (entry_flags(&a->entry) & ENTRY_ASYNC) &&
                 !(entry_flags(e) & ENTRY_ASYNC);
  u32 plane = crossing ? a->async_plane : PLANE_ORDER;
  if (c >= k->n || e->clock < detector_born(d, e->comp)) {
    u32 verdict = detector_foreign(d, a, e, plane);
    if (verdict == APART && map) return detector_map_order(d, a, e);
    if (verdict != BEHIND_PROXY) return verdict;
  } else {
    if (knows(k, plane, c, e->clock, e->lane) && !of_other_lanes(d, a, e)) return map ? detector_map_order(d, a, e) : APART;
    if (!crossing || !knows(k, PLANE_ORDER, c, e->clock, e->lane))
      return known_over(d, a, e) || read_before_meeting(d, a, e) ? APART : UNORDERED;
    if ((entry_flags(e) & ENTRY_WRITE) && known_over(d, a, e)) return APART;
  }
  if ((entry_flags(e) & ENTRY_WRITE) || d->profile == PROFILE_ISA) return BEHIND_PROXY;
  d->relaxed[RELAX_READ_PROXY] += a->count;
  return APART;
}

/* `practice`: several warps store the same value into the same bytes by one instruction,
 * so that it does not matter to a reader behind its own store which came last. */
static int repeated(const Accessor *a, const Entry *e) {
  return entry_flags(e) == ENTRY_WRITE && e->pc == a->entry.pc && e->comp != a->entry.comp;
}

/* The same by lanes of one warp at once. What the first of them conflicts with has been
 * told, and is gone. */
static int at_once(const Accessor *a, const Entry *e) {
  return a->again && entry_flags(e) == ENTRY_WRITE && e->pc == a->entry.pc &&
         e->comp == a->entry.comp && e->clock == a->entry.clock;
}

static int same_value(const Accessor *a, const Entry *e) {
  if (at_once(a, e)) return 1;
  if (a->repeats) return !entry_flags(e) || repeated(a, e);
  return !entry_flags(&a->entry) && entry_flags(e) == ENTRY_WRITE && e->scope == WRITE_REPEATS;
}

/* Whether a store that changes nothing does what another warp's same store has done. */
static u32 repeats(const Shadow *s, const Cell *cell, const Accessor *a, u32 bytes) {
  if (a->entry.scope != WRITE_KEEPS) return 0;
  for (const Cell *c = cell;; c = &s->chain[c->more - 1]) {
    for (u32 k = 0; k < CELL_ENTRIES && c->entry[k].bytes; k++)
      if (c->entry[k].bytes & bytes && repeated(a, &c->entry[k])) return 1;
    if (!c->more) return 0;
  }
}

/* Accesses that are morally strong do not conflict; they have to be of the same bytes. */
static u32 judge(Detector *d, const Accessor *a, const Entry *e, u32 bytes, int *conflict) {
  *conflict = (entry_flags(e) | entry_flags(&a->entry)) & ENTRY_WRITE;
  u32 verdict = order(d, a, e);
  if (!*conflict) return verdict;
  /* PTX ISA, ld.global.nc: by a cache that is not coherent, whatever the order */
  if (verdict == APART && !entry_flags(&a->entry) && a->entry.scope == READ_CONSTANT)
    return NOT_CONSTANT;
  if (verdict == UNORDERED && d->profile != PROFILE_ISA &&
      (same_value(a, e) || same_store(d, a, e))) {
    d->relaxed[RELAX_SAME_VALUE] += a->count;
    *conflict = 0;
    /* a write stands for the write that it repeats */
    return entry_flags(e) & entry_flags(&a->entry) & ENTRY_WRITE ? APART : UNORDERED;
  }
  if (!shadow_both_strong(e, &a->entry, bytes)) return verdict;
  if (in_scope(d, e, &a->entry)) *conflict = 0;
  return *conflict && verdict == UNORDERED ? UNSCOPED : verdict;
}

/* Judge; whether the access stands for the entry from now on. */
static inline int stands(Detector *d, const Accessor *a, const Entry *e, u32 bytes) {
  if (a->space != RACE_GLOBAL && e->clock < detector_born(d, e->comp)) return 1;
  u32 writes = (entry_flags(e) | entry_flags(&a->entry)) & ENTRY_WRITE;
  if (!writes && e->comp != a->entry.comp) return 0; /* not worth to look for an order */
  int conflict;
  u32 verdict = judge(d, a, e, bytes, &conflict);
  if (conflict && verdict) detector_report(d, a, e, verdict);
  /* a strong pair that nothing orders: neither stands for the other */
  if (entry_flags(&a->entry) & ENTRY_WRITE) return verdict == APART || conflict;
  return verdict == APART && !(entry_flags(e) & ENTRY_WRITE);
}

int shadow_stands(Detector *d, const Accessor *a, const Entry *e, u32 bytes) {
  return stands(d, a, e, bytes);
}

/* Entries of one block: judge, and drop those the new access stands for. Returns how
 * many are in use. */
static inline u32 settle(Detector *d, Entry *block, Accessor *a, u32 bytes) {
  u32 n = 0;
  for (u32 k = 0; k < CELL_ENTRIES && block[k].bytes; k++) {
    Entry e = block[k];
    if (e.bytes & bytes && stands(d, a, &e, bytes)) {
      e.bytes &= ~bytes;
      e.cut = 1;
      if (!e.bytes) continue;
    }
    block[n++] = e;
  }
  for (u32 k = n; k < CELL_ENTRIES && block[k].bytes; k++) block[k].bytes = 0;
  return n;
}

static u32 chain_new(Shadow *s) {
  if (s->free_chain) {
    u32 at = s->free_chain;
    s->free_chain = s->chain[at - 1].more;
    memset(&s->chain[at - 1], 0, sizeof(Cell));
    return at;
  }
  if (s->n_chain == s->cap_chain) {
    u32 cap = s->cap_chain ? 2 * s->cap_chain : 1024;
    Cell *chain = realloc(s->chain, cap * sizeof *chain);
    if (!chain) return 0;
    s->chain = chain;
    s->cap_chain = cap;
  }
  memset(&s->chain[s->n_chain], 0, sizeof(Cell));
  return ++s->n_chain;
}

static void keep(Detector *d, Cell *cell, Entry *room, const Entry *e, u32 bytes) {
  if (!room) {
    Shadow *s = &d->shadow;
    u32 at = chain_new(s);
    if (!at) {
      d->lost++;
      return;
    }
    s->chain[at - 1].more = cell->more;
    cell->more = at;
    room = s->chain[at - 1].entry;
  }
  *room = *e;
  room->bytes = bytes & ALL_BYTES;
}

void shadow_keep(Detector *d, Cell *cell, const Entry *e, u32 bytes) {
  u32 n = 0;
  while (n < CELL_ENTRIES && cell->entry[n].bytes) n++;
  keep(d, cell, n < CELL_ENTRIES ? &cell->entry[n] : NULL, e, bytes);
}

void shadow_access(Detector *d, Cell *cell, Accessor *a, u32 bytes) {
  Shadow *s = &d->shadow;
  a->count = 1;
  a->repeats = repeats(s, cell, a, bytes);
  u32 used = settle(d, cell->entry, a, bytes);
  Entry *room = used < CELL_ENTRIES ? &cell->entry[used] : NULL;
  for (u32 *link = &cell->more; *link;) {
    u32 at = *link;
    Cell *block = &s->chain[at - 1];
    used = settle(d, block->entry, a, bytes);
    if (!used) { /* nothing left in it */
      *link = block->more;
      block->more = s->free_chain;
      s->free_chain = at;
      continue;
    }
    if (!room && used < CELL_ENTRIES) room = &block->entry[used];
    link = &block->more;
  }
  Entry kept = a->entry;
  if (kept.scope == WRITE_KEEPS) kept.scope = a->repeats ? WRITE_REPEATS : SCOPE_NONE;
  keep(d, cell, room, &kept, bytes);
}

void shadow_free(Shadow *s) { free(s->chain); }
