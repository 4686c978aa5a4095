/* One access against a cell: who conflicts, who is stood for, where it is kept. */
#include "shadow.h"

#include <stdlib.h>

#include "detector.h"

/* Program order of a thread, or one and the same operation. Operations of one engine
 * follow each other only where the knowledge says so. */
static inline int same_agent(const Entry *e, const Entry *now) {
  if (e->comp != now->comp || e->lane != now->lane || e->lane == ANY_LANE) return 0;
  u32 engines = (e->flags | now->flags) & ENTRY_ENGINE;
  return engines ? (e->flags & now->flags & ENTRY_ENGINE) && e->clock == now->clock : 1;
}

/* Both strong and each within the other's scope. */
static int morally_strong(const Detector *d, const Entry *e, const Entry *now) {
  if (!(e->flags & now->flags & ENTRY_STRONG)) return 0;
  u32 least = e->scope < now->scope ? e->scope : now->scope;
  if (least >= SCOPE_GPU) return 1;
  if (least == SCOPE_CLUSTER) return detector_group_of(d, e->comp) == detector_group_of(d, now->comp);
  return detector_cta_of(d, e->comp) == detector_cta_of(d, now->comp);
}

static u32 order(const Detector *d, const Accessor *a, const Entry *e) {
  if (same_agent(e, &a->entry)) return APART;
  const Knowledge *k = a->known;
  u32 c = e->comp - a->first_comp;
  u32 crossing = (a->entry.flags & ENTRY_ASYNC) && !(e->flags & ENTRY_ASYNC);
  if (c >= k->n || e->clock < detector_born(d, e->comp))
    return detector_foreign(d, a, e);
  if (knows(k, crossing ? a->async_plane : PLANE_ORDER, c, e->clock, e->lane)) return APART;
  return crossing && knows(k, PLANE_ORDER, c, e->clock, e->lane) ? BEHIND_PROXY : UNORDERED;
}

static u32 judge(const Detector *d, const Accessor *a, const Entry *e, int *conflict) {
  *conflict = (e->flags | a->entry.flags) & ENTRY_WRITE;
  if (*conflict && morally_strong(d, e, &a->entry)) *conflict = 0;
  return order(d, a, e);
}

/* Entries of one block: judge, and drop those the new access stands for. Returns the
 * first free entry, or NULL. */
static Entry *settle(Detector *d, Entry *block, u32 n, Accessor *a, u32 bytes) {
  Entry *room = NULL;
  int writing = a->entry.flags & ENTRY_WRITE;
  for (u32 k = 0; k < n; k++) {
    Entry *e = &block[k];
    if (e->bytes & bytes) {
      int conflict;
      u32 verdict = judge(d, a, e, &conflict);
      if (conflict && verdict) detector_report(d, a, e, verdict);
      /* a strong pair that nothing orders: neither stands for the other */
      int stands = writing ? (verdict == APART || conflict)
                           : verdict == APART && !(e->flags & ENTRY_WRITE);
      if (stands) e->bytes &= ~bytes;
    }
    if (!e->bytes && !room) room = e;
  }
  return room;
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

void shadow_access(Detector *d, Cell *cell, Accessor *a, u32 bytes) {
  Shadow *s = &d->shadow;
  Entry *room = settle(d, cell->entry, CELL_ENTRIES, a, bytes);
  u32 *link = &cell->more;
  while (*link) {
    u32 at = *link;
    Entry *free_entry = settle(d, s->chain[at - 1].entry, CELL_ENTRIES, a, bytes);
    if (!room) room = free_entry;
    u32 used = 0;
    for (u32 k = 0; k < CELL_ENTRIES; k++) used |= s->chain[at - 1].entry[k].bytes;
    if (!used && free_entry != room) { /* an empty block that is not needed */
      *link = s->chain[at - 1].more;
      s->chain[at - 1].more = s->free_chain;
      s->free_chain = at;
      continue;
    }
    link = &s->chain[at - 1].more;
  }
  if (!room) {
    /* `link` may point into the chain, which may move */
    int inside = link != &cell->more;
    u64 offset = inside ? (u64)((u8 *)link - (u8 *)s->chain) : 0;
    u32 at = chain_new(s);
    if (!at) {
      d->lost++;
      return;
    }
    if (inside) link = (u32 *)((u8 *)s->chain + offset);
    *link = at;
    room = s->chain[at - 1].entry;
  }
  *room = a->entry;
  room->bytes = bytes & 15u;
}

void shadow_forget(Shadow *s, Cell *cells, u64 n) {
  for (u64 k = 0; k < n; k++) {
    for (u32 at = cells[k].more; at;) {
      u32 next = s->chain[at - 1].more;
      s->chain[at - 1].more = s->free_chain;
      s->free_chain = at;
      at = next;
    }
  }
  memset(cells, 0, n * sizeof *cells);
}

void shadow_free(Shadow *s) { free(s->chain); }
