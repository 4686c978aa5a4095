/* Races found, folded by the two places in the code and what is wrong between them. */
#include "events.h"

static u32 cta_of(const Detector *d, const Entry *e) {
  const CtaAgent *c = &d->cta[detector_cta_of(d, e->comp)];
  return e->clock < c->born ? NO_CTA : c->linear;
}

WarpAgent *detector_reader(const Detector *d, const Entry *e) {
  u32 at = e->comp % d->per_cta;
  if (entry_flags(e) & ENTRY_ENGINE || at >= d->warps) return NULL;
  return &d->cta[detector_cta_of(d, e->comp)].warp[at];
}

/* Whether one who is at `clock` of component c, and knows k, knows of an issue. */
static int aware(const Knowledge *k, u32 first, const Entry *who, const Issue *i) {
  if (who->comp == i->by) return who->clock > i->at;
  u32 c = i->by - first;
  return c < k->n && knows(k, PLANE_ORDER, c, i->at, i->lane);
}

static const Issue *issue_of(Detector *d, const Entry *e) {
  if (!(entry_flags(e) & ENTRY_ENGINE)) return NULL;
  const Issue *i = detector_issued(d, e->comp, e->clock);
  return i->comp == e->comp && i->clock == e->clock ? i : NULL;
}

static u32 over(Detector *d, const Accessor *a, const Entry *e) {
  int gone = e->clock < detector_born(d, e->comp); /* of a CTA that had this place before */
  const Issue *earlier = gone ? NULL : issue_of(d, e), *later = issue_of(d, &a->entry);
  if (earlier && later && earlier->by == later->by)
    return earlier->at < later->at ? OVER_EARLIER : OVER_LATER;
  if (earlier && aware(a->known, a->first_comp, &a->entry, earlier)) return OVER_EARLIER;
  WarpAgent *w = detector_reader(d, e);
  if (!later || !w || gone) return OVER_NEITHER;
  u32 lane = e->lane == ANY_LANE ? 0 : e->lane;
  return aware(warp_strand(w, lane)->known, a->first_comp, e, later) ? OVER_LATER
                                                                     : OVER_NEITHER;
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
  for (u32 k = 0; k < d->n_races; k++) {
    Race *r = &d->race[k];
    if (r->pc[0] == e->pc && r->pc[1] == a->entry.pc && r->space == a->space &&
        r->verdict == verdict) {
      r->count += a->count;
      return;
    }
  }
  if (d->n_races == MAX_RACES) {
    d->dropped++;
    return;
  }
  const Entry *now = &a->entry;
  u32 c = e->comp - a->first_comp;
  Race *r = &d->race[d->n_races++];
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
  const WarpAgent *earlier = detector_reader(d, e), *later = detector_reader(d, now);
  if (earlier && r->cta[0] != NO_CTA) {
    r->handed_pc = warp_handed_over(earlier, e->clock);
  }
  if (later) r->learned_pc = later->learned_pc;
}
