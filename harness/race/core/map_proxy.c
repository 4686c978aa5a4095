/* Tensor maps: writes through the generic proxy, reads through the tensor-map proxy.
 *
 * PTX ISA, membar / fence (fence.proxy.tensormap::generic); tensormap.cp_fenceproxy;
 * Memory Consistency Model: Proxies. A write of a map reaches a copy that uses the map
 * if a releasing proxy fence comes after the write, an acquiring one of the map's
 * address after that and before the copy, and each of the two fences has a scope that
 * includes the thread of the other.
 *
 * Such fences are rare, so that each is kept with all that its threads knew, and a copy
 * looks for a pair of them; clocks of every access need no plane for it.
 */
#include <stdlib.h>

#include "events.h"

enum { MAX_FENCES = 4096, MAP_BYTES = 128 };

void map_fences_free(Detector *d) {
  for (u32 which = 0; which < 2; which++) {
    MapFences *f = &d->map_fence[which];
    for (u32 k = 0; k < f->n; k++) free(f->at[k].known);
    free(f->at);
  }
}

static MapFence *add(Detector *d, u32 which) {
  MapFences *f = &d->map_fence[which];
  if (f->n == f->cap) {
    u32 cap = f->cap ? 2 * f->cap : 16;
    MapFence *more = f->n < MAX_FENCES ? realloc(f->at, cap * sizeof *more) : NULL;
    if (!more) {
      d->lost++;
      return NULL;
    }
    f->at = more;
    f->cap = cap;
  }
  MapFence *fence = &f->at[f->n];
  *fence = (MapFence){.known = knowledge_new(d->per_group, d->rows)};
  if (!fence->known) {
    d->lost++;
    return NULL;
  }
  f->n++;
  return fence;
}

static void remember_births(const Detector *d, u32 group, MapFence *f) {
  for (u32 k = 0; k < d->cluster && k < MAX_CLUSTER; k++)
    f->born[k] = d->cta[group * d->cluster + k].born;
}

/* Lanes with equal knowledge at one address are one record. */
void detector_map_fence(Detector *d, u32 slot, u32 warp, u32 lanes, u32 which, u32 scope,
                        u64 address) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 group = slot / d->cluster;
  for (u32 k = 0; k < w->n; k++) {
    u32 of = w->strand[k].lanes & lanes;
    MapFence *f = of ? add(d, which) : NULL;
    if (!f) continue;
    knowledge_copy(f->known, w->strand[k].known);
    f->comp = group * d->per_group + w->comp;
    f->clock = w->clock;
    f->lanes = of;
    f->within = within_of(scope);
    f->address = address;
    f->heard = d->group[group].n_news;
    remember_births(d, group, f);
  }
}

/* Whether component comp, lane `lane`, at `clock` comes before the lane of a fence, or
 * before the copy that `f` stands for, which has no lane. */
static int before(Detector *d, u32 comp, u32 clock, u32 lane, const MapFence *f,
                  u32 by_lane) {
  if (comp == f->comp && lane == by_lane) return clock <= f->clock;
  u32 group = detector_group_of(d, f->comp), first = group * d->per_group;
  u32 c = comp - first;
  if (c < d->per_group && clock >= f->born[c / d->per_cta % MAX_CLUSTER])
    return knows(f->known, PLANE_ORDER, c, clock, lane);
  /* of another cluster, or of a CTA that had the slot before: known by news */
  u32 own = f->comp - first;
  if (f->born[own / d->per_cta % MAX_CLUSTER] != detector_born(d, f->comp))
    return f->heard != 0; /* news of a cluster that is gone are gone: taken as known */
  Accessor a = {.known = f->known, .first_comp = first, .lanes = by_lane < LANES ? 1u << by_lane : 0};
  a.entry = (Entry){.clock = f->clock, .comp = f->comp, .lane = by_lane};
  Entry e = {.clock = clock, .comp = comp, .lane = lane};
  return detector_foreign(d, &a, &e, PLANE_ORDER) == APART;
}

/* Whether the fence reaches as far as the thread of the other. */
static int reaches(const Detector *d, const MapFence *f, const MapFence *other) {
  u32 group = detector_group_of(d, f->comp), rank = f->comp % d->per_group / d->per_cta;
  u32 need = WITHIN_GPU;
  if (group == detector_group_of(d, other->comp) &&
      f->born[rank % MAX_CLUSTER] == other->born[rank % MAX_CLUSTER]) {
    int same = detector_cta_of(d, f->comp) == detector_cta_of(d, other->comp);
    need = same ? WITHIN_CTA : WITHIN_CLUSTER;
  }
  return f->within >= need;
}

/* Whether a lane of release r, behind which the write is, comes before a lane of
 * acquire q, behind which the copy is. */
static int paired(Detector *d, const MapFence *r, u32 released, const MapFence *q,
                  u32 acquired) {
  for (u32 left = released; left; left &= left - 1)
    for (u32 to = acquired; to; to &= to - 1)
      if (before(d, r->comp, r->clock, (u32)__builtin_ctz(left), q, (u32)__builtin_ctz(to)))
        return 1;
  return 0;
}

/* The copy, as one that comes after fences. */
static MapFence copy_of(const Detector *d, const Accessor *a) {
  MapFence copy = {.comp = a->entry.comp, .heard = 1};
  copy.known = (Knowledge *)(uintptr_t)a->known; /* only read */
  remember_births(d, detector_group_of(d, a->entry.comp), &copy);
  return copy;
}

/* Lanes of an acquire of the map that the copy comes after. */
static u32 acquired_by(Detector *d, const Accessor *a, const MapFence *copy,
                       const MapFence *q) {
  u32 lanes = 0;
  if (a->address < q->address || a->address >= q->address + MAP_BYTES) return 0;
  for (u32 left = q->lanes; left; left &= left - 1) {
    u32 lane = (u32)__builtin_ctz(left);
    lanes |= (u32)before(d, q->comp, q->clock, lane, copy, LANES) << lane;
  }
  return lanes;
}

int detector_map_acquired(Detector *d, const Accessor *a) {
  MapFence copy = copy_of(d, a);
  const MapFences *acquires = &d->map_fence[MAP_ACQUIRE];
  for (u32 n = 0; n < acquires->n; n++)
    if (acquires->at[n].within == WITHIN_GPU && acquired_by(d, a, &copy, &acquires->at[n]))
      return 1;
  return 0;
}

u32 detector_map_order(Detector *d, const Accessor *a, const Entry *e) {
  MapFence copy = copy_of(d, a);
  const MapFences *releases = &d->map_fence[MAP_RELEASE];
  const MapFences *acquires = &d->map_fence[MAP_ACQUIRE];
  u32 verdict = MAP_UNRELEASED;
  for (u32 k = 0; k < releases->n; k++) {
    const MapFence *r = &releases->at[k];
    u32 released = 0;
    for (u32 left = r->lanes; left; left &= left - 1) {
      u32 lane = (u32)__builtin_ctz(left);
      released |= (u32)before(d, e->comp, e->clock, e->lane, r, lane) << lane;
    }
    if (!released) continue;
    if (verdict == MAP_UNRELEASED) verdict = MAP_UNACQUIRED;
    for (u32 n = 0; n < acquires->n; n++) {
      const MapFence *q = &acquires->at[n];
      u32 acquired = acquired_by(d, a, &copy, q);
      if (!acquired || !paired(d, r, released, q, acquired)) continue;
      if (d->keep_digest) d->digest = (d->digest ^ ((u64)k << 32 | n)) * 0x100000001b3ull;
      if (reaches(d, r, q) && reaches(d, q, r)) return APART;
      verdict = MAP_UNSCOPED;
    }
  }
  return verdict;
}
