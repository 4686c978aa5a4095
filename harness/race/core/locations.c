/* Words of global memory through which threads synchronise.
 *
 * PTX ISA, Memory Consistency Model: Release and Acquire Patterns. A release is a
 * strong write that releases, or one behind a releasing fence; an acquire is a strong
 * read that acquires, or one before an acquiring fence. Read-modify-writes carry on
 * the release sequence of a word, so that what was released there adds up. What comes
 * from another cluster is kept for the whole cluster: finer would need a clock of the
 * whole grid, and coarser can only hide a race.
 */
#include <stdlib.h>

#include "events.h"

struct Location {
  u64 address;
  Knowledge **known; /* [group], NULL where none released */
};

static Location *find(Detector *d, u64 address, int make) {
  for (u32 k = 0; k < d->n_locations; k++)
    if (d->location[k].address == address) return &d->location[k];
  if (!make) return NULL;
  if (d->n_locations == d->cap_locations) {
    u32 cap = d->cap_locations ? 2 * d->cap_locations : 64;
    Location *more = realloc(d->location, cap * sizeof *more);
    if (!more) return NULL;
    d->location = more;
    d->cap_locations = cap;
  }
  Knowledge **known = calloc(d->n_slots / d->cluster, sizeof *known);
  if (!known) return NULL;
  d->location[d->n_locations] = (Location){.address = address, .known = known};
  return &d->location[d->n_locations++];
}

void locations_free(Detector *d) {
  for (u32 k = 0; k < d->n_locations; k++) {
    for (u32 g = 0; g < d->n_slots / d->cluster; g++) free(d->location[k].known[g]);
    free(d->location[k].known);
  }
  free(d->location);
}

static void join_into(Detector *d, Knowledge **slot, const Knowledge *news) {
  if (!*slot) *slot = knowledge_new(d->per_group);
  if (*slot) knowledge_join(*slot, news);
  else d->lost++;
}

void detector_release(Detector *d, u32 slot, u32 warp, u32 lane, u64 address,
                      u32 fenced) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 group = slot / d->cluster;
  if (fenced) {
    if (!warp_release_fenced(w, 1u << lane, d->scratch)) return;
  } else {
    warp_release(w, 1u << lane, d->scratch);
  }
  Location *at = find(d, address, 1);
  if (!at) {
    d->lost++;
    return;
  }
  join_into(d, &at->known[group], d->scratch);
  Knowledge **foreign = d->group[group].foreign;
  for (u32 g = 0; foreign && g < d->n_slots / d->cluster; g++)
    if (foreign[g]) join_into(d, &at->known[g], foreign[g]);
}

void detector_acquire(Detector *d, u32 slot, u32 warp, u32 lane, u64 address,
                      u32 relaxed) {
  Location *at = find(d, address, 0);
  if (!at) return;
  u32 group = slot / d->cluster, groups = d->n_slots / d->cluster;
  GroupAgent *mine = &d->group[group];
  if (!mine->foreign) mine->foreign = calloc(groups, sizeof *mine->foreign);
  if (!mine->foreign) {
    d->lost++;
    return;
  }
  WarpAgent *w = &d->cta[slot].warp[warp];
  for (u32 g = 0; g < groups; g++) {
    if (!at->known[g]) continue;
    join_into(d, &mine->foreign[g], at->known[g]);
    if (g != group) continue;
    if (relaxed) warp_acquire_later(w, 1u << lane, at->known[g]);
    else warp_acquire(w, 1u << lane, at->known[g]);
  }
}

u32 detector_foreign(const Detector *d, const Accessor *a, const Entry *e) {
  u32 group = detector_group_of(d, e->comp);
  Knowledge **foreign = d->group[a->first_comp / d->per_group].foreign;
  const Knowledge *k = foreign ? foreign[group] : NULL;
  u32 c = e->comp - group * d->per_group;
  return k && knows(k, PLANE_ORDER, c, e->clock, e->lane) ? APART : UNORDERED;
}
