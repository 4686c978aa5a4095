/* Dependent grids (grids.h). */
#include "grids.h"

#include <stdlib.h>

#include "events.h"

/* The component that knows of the wait: an engine of the cluster's rank 0 that no
 * operation gets. Its clock is 1 throughout. */
static u32 wait_comp(const Detector *d) { return d->warps + ENGINES - 1; }

void grids_free(Detector *d) {
  for (u32 k = 0; k < d->grids.n_launched; k++) free(d->grids.launched[k].known);
  free(d->grids.launched);
  free(d->grids.early);
}

void detector_grid_wait(Detector *d, u32 slot, u32 warp, u32 lanes) {
  d->grids.waits++;
  if (!d->grids.dependent) return;
  knowledge_clear(d->scratch);
  for (u32 p = 0; p < PROXIES; p++) knowledge_raise(d->scratch, p, wait_comp(d), 1, ANY_LANE);
  warp_acquire(&d->cta[slot].warp[warp], lanes, d->scratch);
}

static int waited(const Detector *d, const Knowledge *known, u32 first, u32 comp, u32 clock,
                  u32 lanes) {
  if (known->entry[wait_comp(d)]) return 1;
  const GroupAgent *g = &d->group[first / d->per_group];
  for (u32 k = 0; k < g->n_news; k++)
    if (g->news[k].known->entry[wait_comp(d)] &&
        news_behind(&g->news[k], known, PLANE_ORDER, comp, clock, lanes))
      return 1;
  return 0;
}

static Launched *launched_of(Detector *d, u32 group) {
  Grids *g = &d->grids;
  for (u32 k = g->n_launched; k-- > 0;)
    if (g->launched[k].group == group &&
        g->launched[k].born[0] == d->cta[group * d->cluster].born)
      return &g->launched[k];
  if (g->n_launched == g->cap_launched) {
    u32 cap = g->cap_launched ? 2 * g->cap_launched : 16;
    Launched *more = realloc(g->launched, cap * sizeof *more);
    if (!more) return NULL;
    g->launched = more;
    g->cap_launched = cap;
  }
  Knowledge *known = knowledge_new(d->per_group, d->rows);
  if (!known) return NULL;
  Launched *l = &g->launched[g->n_launched++];
  *l = (Launched){.group = group, .known = known};
  for (u32 k = 0; k < d->cluster && k < 16; k++) l->born[k] = d->cta[group * d->cluster + k].born;
  return l;
}

void detector_grid_signal(Detector *d, u32 slot, u32 warp, u32 lanes) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 group = slot / d->cluster, lead = (u32)__builtin_ctz(lanes);
  d->grids.untimely += (u32)!waited(d, warp_strand(w, lead)->known, group * d->per_group,
                                    w->comp, w->clock, 1u << lead);
  if (!warp_release_within(w, lanes, WITHIN_GPU, d->scratch)) return;
  Launched *l = launched_of(d, group);
  if (l) knowledge_join(l->known, d->scratch);
  else d->lost++;
}

/* --- early accesses ----------------------------------------------------------------- */
static u32 *bucket_of(Grids *g, u64 cell) {
  return &g->bucket[(cell * 0x9e3779b97f4a7c15ull >> 52) & (EARLY_BUCKETS - 1)];
}

/* One entry for all that an instruction does to a cell. */
static void add(Detector *d, u64 cell, u32 kind, const Entry *e, u32 bytes) {
  Grids *g = &d->grids;
  u32 *first = bucket_of(g, cell);
  for (u32 k = *first; k; k = g->early[k - 1].next) {
    Early *old = &g->early[k - 1];
    /* which bytes a strong access is of matters */
    int whole = entry_flags(e) & ENTRY_STRONG && old->entry.bytes != (bytes & ALL_BYTES);
    if (old->cell == cell && old->kind == kind && old->entry.pc == e->pc && !whole &&
        entry_flags(&old->entry) == entry_flags(e)) {
      old->entry.bytes |= bytes & ALL_BYTES;
      return;
    }
  }
  if (g->n_early == g->cap_early) {
    u32 cap = g->cap_early ? 2 * g->cap_early : 256;
    Early *more = g->n_early < MOST_EARLY ? realloc(g->early, cap * sizeof *more) : NULL;
    if (!more) {
      d->lost++;
      return;
    }
    g->early = more;
    g->cap_early = cap;
  }
  g->early[g->n_early++] = (Early){.cell = cell, .kind = kind, .next = *first, .entry = *e};
  g->early[g->n_early - 1].entry.bytes = bytes & ALL_BYTES;
  *first = g->n_early;
}

void detector_note_early(Detector *d, const Accessor *a, u64 at, u32 bytes) {
  const Entry *e = &a->entry;
  if (d->grids.dependent && !waited(d, a->known, a->first_comp, e->comp - a->first_comp,
                                    e->clock, a->lanes))
    add(d, at / CELL_BYTES, EARLY_ACCESS, e, bytes);
  if (entry_reads_map(e) && !detector_map_acquired(d, a))
    add(d, at / CELL_BYTES, EARLY_MAP, e, bytes);
}

/* --- two launches ------------------------------------------------------------------- */
/* Whether an access of the first launch came before the start of its dependents. */
static int released(const Detector *p, const Entry *e) {
  u32 group = detector_group_of(p, e->comp), c = e->comp % p->per_group;
  for (u32 k = 0; k < p->grids.n_launched; k++) {
    const Launched *l = &p->grids.launched[k];
    if (l->group == group && e->clock >= l->born[c / p->per_cta % 16] &&
        knows(l->known, PLANE_ORDER, c, e->clock, e->lane))
      return 1;
  }
  return 0;
}

static void tell(RaceTable *t, const Entry *e, const Entry *now, u32 verdict, u64 address) {
  Race *r = races_find(t, RACE_GLOBAL, verdict, e->pc, now->pc);
  if (!r) return;
  if (r->count) {
    r->count++;
    return;
  }
  *r = (Race){
      .space = RACE_GLOBAL,
      .verdict = verdict,
      .pc = {e->pc, now->pc},
      .comp = {e->comp, now->comp},
      .lane = {e->lane, now->lane},
      .flags = {entry_flags(e), entry_flags(now)},
      .clock = {e->clock, now->clock},
      .cta = {NO_CTA, NO_CTA},
      .handed_pc = NO_PC,
      .learned_pc = NO_PC,
      .address = address,
      .count = 1,
  };
}

/* Judge one access of the first launch against an early one of the second. */
static u32 judge(const Detector *p, const Entry *e, const Early *early, u32 overlap) {
  const Entry *now = &early->entry;
  if (!(e->bytes & now->bytes)) return APART;
  if (early->kind == EARLY_MAP) return entry_flags(e) & ENTRY_WRITE ? MAP_UNACQUIRED : APART;
  if (!overlap || !((entry_flags(e) | entry_flags(now)) & ENTRY_WRITE)) return APART;
  u32 scope = e->scope < now->scope ? e->scope : now->scope;
  if (scope >= SCOPE_GPU && shadow_both_strong(e, now, now->bytes)) return APART;
  return released(p, e) ? APART : UNORDERED;
}

u32 race_cross(Detector *p, Detector *s, u32 overlap) {
  s->crossed.n = 0;
  if (s->crossed.slot)
    memset(s->crossed.slot, 0, 2 * s->crossed.capacity * sizeof *s->crossed.slot);
  for (u32 k = 0; k < s->grids.n_early; k++) {
    const Early *early = &s->grids.early[k];
    const Cell *cell = global_seen(p, early->cell * CELL_BYTES);
    while (cell) {
      for (u32 at = 0; at < CELL_ENTRIES && cell->entry[at].bytes; at++) {
        const Entry *e = &cell->entry[at];
        u32 verdict = judge(p, e, early, overlap), both = e->bytes & early->entry.bytes;
        if (verdict == APART) continue;
        u64 address = early->cell * CELL_BYTES + (u32)__builtin_ctz(both);
        tell(&s->crossed, e, &early->entry, verdict, address);
      }
      cell = cell->more ? &p->shadow.chain[cell->more - 1] : NULL;
    }
  }
  return s->crossed.n;
}

/* Whether the second launch waited, early, for a word that the first one released. */
u32 race_met_in_flight(Detector *p, const Detector *s) {
  for (u32 k = 0; k < s->grids.n_early; k++) {
    const Early *early = &s->grids.early[k];
    u32 flags = entry_flags(&early->entry);
    if (early->kind == EARLY_ACCESS && flags & ENTRY_STRONG && !(flags & ENTRY_ENGINE) &&
        location_in(p, early->cell * CELL_BYTES, early->entry.bytes))
      return 1;
  }
  return 0;
}

u32 race_untimely(const Detector *d) { return d->grids.untimely || !d->grids.waits; }
