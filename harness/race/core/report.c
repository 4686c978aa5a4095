/* Races found, folded by the two places in the code and what is wrong between them. */
#include <stdlib.h>

#include "events.h"

static u32 hash_of(const RaceTable *t, u32 space, u32 verdict, u32 first, u32 second) {
  u64 key = ((u64)first << 32 | second) * 0x9e3779b97f4a7c15ull ^ (space << 8 | verdict);
  return (u32)(key * 0x9e3779b97f4a7c15ull >> 32) & (2 * t->capacity - 1);
}

static void place(RaceTable *t, u32 k) {
  const Race *r = &t->at[k];
  u32 at = hash_of(t, r->space, r->verdict, r->pc[0], r->pc[1]);
  while (t->slot[at]) at = (at + 1) & (2 * t->capacity - 1);
  t->slot[at] = k + 1;
}

static int grow(RaceTable *t) {
  u32 capacity = t->capacity ? 2 * t->capacity : 64;
  if (capacity > MAX_RACES) return 0;
  Race *at = realloc(t->at, capacity * sizeof *at);
  if (!at) return 0;
  t->at = at;
  u32 *slot = calloc(2 * (size_t)capacity, sizeof *slot);
  if (!slot) return 0;
  free(t->slot);
  t->slot = slot;
  t->capacity = capacity;
  for (u32 k = 0; k < t->n; k++) place(t, k);
  return 1;
}

Race *races_find(RaceTable *t, u32 space, u32 verdict, u32 first, u32 second) {
  u32 at = t->capacity ? hash_of(t, space, verdict, first, second) : 0;
  for (; t->capacity && t->slot[at]; at = (at + 1) & (2 * t->capacity - 1)) {
    Race *r = &t->at[t->slot[at] - 1];
    if (r->pc[0] == first && r->pc[1] == second && r->space == space &&
        r->verdict == verdict)
      return r;
  }
  if (t->n == t->capacity && !grow(t)) {
    t->dropped++;
    return NULL;
  }
  t->at[t->n] = (Race){.space = space, .verdict = verdict, .pc = {first, second}};
  place(t, t->n);
  return &t->at[t->n++];
}

void races_free(RaceTable *t) {
  free(t->at);
  free(t->slot);
}

static u32 cta_of(const Detector *d, const Entry *e) {
  const CtaAgent *c = &d->cta[detector_cta_of(d, e->comp)];
  return e->clock < c->born ? NO_CTA : c->linear;
}

WarpAgent *detector_reader(const Detector *d, const Entry *e) {
  u32 at = e->comp % d->per_cta;
  if (entry_flags(e) & ENTRY_ENGINE || at >= d->warps) return NULL;
  return &d->cta[detector_cta_of(d, e->comp)].warp[at];
}

/* Whether who accesses knows of an issue, be it by another cluster. */
static int aware(const Detector *d, const Accessor *who, const Issue *i) {
  if (who->entry.comp == i->by) return who->entry.clock > i->at;
  u32 c = i->by - who->first_comp;
  if (c < who->known->n) return knows(who->known, PLANE_ORDER, c, i->at, i->lane);
  Entry issue = {.comp = i->by, .clock = i->at, .lane = i->lane};
  return detector_foreign(d, who, &issue, PLANE_ORDER) == APART;
}

static const Issue *issue_of(Detector *d, const Entry *e) {
  if (!(entry_flags(e) & ENTRY_ENGINE)) return NULL;
  const Issue *i = detector_issued(d, e->comp, e->clock);
  return i->comp == e->comp && i->clock == e->clock ? i : NULL;
}

int detector_other_lane(Detector *d, const Accessor *a, const Entry *e) {
  const Issue *i = issue_of(d, e), *now = issue_of(d, &a->entry);
  return i && now && i->by == now->by && i->lanes != now->lanes &&
         e->clock >= detector_born(d, e->comp) &&
         !aware(d, a, i);
}

static u32 over(Detector *d, const Accessor *a, const Entry *e) {
  int gone = e->clock < detector_born(d, e->comp); /* of a CTA that had this place before */
  const Issue *earlier = gone ? NULL : issue_of(d, e), *later = issue_of(d, &a->entry);
  if (earlier && later && earlier->by == later->by)
    return earlier->at < later->at ? OVER_EARLIER : OVER_LATER;
  if (earlier && aware(d, a, earlier)) return OVER_EARLIER;
  WarpAgent *w = detector_reader(d, e);
  if (!later || !w || gone) return OVER_NEITHER;
  u32 lane = e->lane == ANY_LANE ? 0 : e->lane;
  Accessor who = {.known = warp_strand(w, lane)->known, .entry = *e, .lanes = 1u << lane};
  who.first_comp = detector_group_of(d, e->comp) * d->per_group;
  return aware(d, &who, later) ? OVER_LATER : OVER_NEITHER;
}

void detector_unread(Detector *d, u32 id, u32 pc, u32 slot, u32 warp) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  u32 first = e->group * d->per_group;
  Accessor end = {.known = e->known, .first_comp = first, .space = RACE_SHARED, .count = 1};
  end.entry = (Entry){.clock = d->cta[slot].warp[warp].clock, .pc = END_PC,
                      .comp = first + d->cta[slot].warp[warp].comp, .lane = ANY_LANE};
  entry_set_flags(&end.entry, ENTRY_WRITE);
  Entry read = {.clock = e->clock, .pc = pc, .comp = first + e->comp};
  entry_set_flags(&read, ENTRY_ENGINE | ENTRY_ASYNC);
  detector_report(d, &end, &read, UNREAD);
}

void detector_report(Detector *d, const Accessor *a, const Entry *e, u32 verdict) {
  Race *r = races_find(&d->races, a->space, verdict, e->pc, a->entry.pc);
  if (!r) return;
  if (r->count) {
    r->count += a->count;
    return;
  }
  const Entry *now = &a->entry;
  u32 c = e->comp - a->first_comp;
  *r = (Race){
      .space = a->space,
      .verdict = verdict,
      .pc = {e->pc, now->pc},
      .comp = {e->comp, now->comp},
      .lane = {e->lane, now->lane},
      .flags = {entry_flags(e), entry_flags(now)},
      .clock = {e->clock, now->clock},
      .cta = {cta_of(d, e), cta_of(d, now)},
      .handed_pc = NO_PC,
      .learned_pc = NO_PC,
      .known = c < a->known->n ? a->known->entry[c] : 0,
      .address = a->address,
      .count = a->count,
      .over = over(d, a, e),
  };
  for (u32 side = 0; side < 2; side++) {
    const Entry *at = side ? now : e;
    const Issue *issue = at->clock < detector_born(d, at->comp) ? NULL : issue_of(d, at);
    r->by[side] = issue ? 1 + issue->by : 0;
    r->by_lanes[side] = issue ? issue->lanes : 0;
  }
  const WarpAgent *earlier = detector_reader(d, e), *later = detector_reader(d, now);
  if (earlier && r->cta[0] != NO_CTA) {
    r->handed_pc = warp_handed_over(earlier, e->clock);
  }
  if (later) r->learned_pc = later->learned_pc;
}
