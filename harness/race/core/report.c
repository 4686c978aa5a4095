/* Races found, folded by the two places in the code and what is wrong between them. */
#include "detector.h"

static u32 cta_of(const Detector *d, const Entry *e) {
  const CtaAgent *c = &d->cta[detector_cta_of(d, e->comp)];
  return e->clock < c->born ? NO_CTA : c->linear;
}

static WarpAgent *warp_of(const Detector *d, const Entry *e) {
  u32 at = e->comp % d->per_cta;
  if (entry_flags(e) & ENTRY_ENGINE || at >= d->warps) return NULL;
  return &d->cta[detector_cta_of(d, e->comp)].warp[at];
}

/* Whether the access of a thread comes after the issue of the operation that it races
 * with, so that the wait for its completion is what lacks. */
static u32 after_issue(WarpAgent *w, const Entry *e, const Accessor *a) {
  if (!a->issuer) return 0;
  u32 c = a->issuer - 1, n = a->known->n;
  const u32 *p = a->known->entry + c;
  u32 one = p[n] > p[0], clock = one ? p[n] : p[0], lane = one ? p[2 * n] : 0;
  u32 mine = e->lane == ANY_LANE ? (u32)__builtin_ctz(w->live ? w->live : 1) : e->lane;
  if (c == w->comp) return mine == lane || e->clock > clock;
  return (u32)knows(warp_strand(w, mine)->known, PLANE_ORDER, c, clock, lane);
}

void detector_report(Detector *d, const Accessor *a, const Entry *e, u32 verdict) {
  for (u32 k = 0; k < d->n_races; k++) {
    Race *r = &d->race[k];
    if (r->pc[0] == e->pc && r->pc[1] == a->entry.pc && r->space == a->space &&
        r->verdict == verdict) {
      r->count++;
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
      .count = 1,
  };
  WarpAgent *earlier = warp_of(d, e);
  const WarpAgent *later = warp_of(d, now);
  if (earlier && r->cta[0] != NO_CTA) {
    r->handed_pc = warp_handed_over(earlier, e->clock);
    r->after_issue = after_issue(earlier, e, a);
  }
  if (later) r->learned_pc = later->learned_pc;
}
