/* Races found, folded by the two places in the code and what is wrong between them. */
#include "detector.h"

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
  d->race[d->n_races++] = (Race){
      .space = a->space,
      .verdict = verdict,
      .pc = {e->pc, now->pc},
      .comp = {e->comp, now->comp},
      .lane = {e->lane, now->lane},
      .flags = {entry_flags(e), entry_flags(now)},
      .clock = {e->clock, now->clock},
      .address = a->address,
      .count = 1,
  };
}
