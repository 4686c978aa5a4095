/* Barriers: what arrivals hand over, and to whom.
 *
 * PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier, bar,
 * barrier, barrier.cluster; Memory Consistency Model: Synchronizes-With. A wait on an
 * mbarrier is always on the CTA's own, so an arrival either comes from the waiting CTA
 * or needs cluster scope on both sides.
 */
#include <stdlib.h>

#include "events.h"

static Knowledge *made(const Detector *d, Knowledge **slot) {
  if (!*slot) *slot = knowledge_new(d->per_group, d->rows);
  return *slot;
}

static void add(Detector *d, Knowledge **slot, u8 *used, const Knowledge *news) {
  Knowledge *k = made(d, slot);
  if (!k) {
    d->lost++;
  } else if (*used) {
    knowledge_join(k, news);
  } else {
    knowledge_copy(k, news);
    *used = 1;
  }
}

static BarrierAgent *find(Detector *d, u32 memory, u32 address) {
  CtaAgent *c = &d->cta[memory];
  for (u32 k = 0; k < c->n_barriers; k++)
    if (c->barrier[k].address == address) return &c->barrier[k];
  return NULL;
}

/* The initialisation and a use: they must be ordered as any write and read. */
static void check_init(Detector *d, BarrierAgent *b, Accessor *a, const WarpAgent *w) {
  if (!b->init.bytes || (b->published && w->rounds >= b->published)) return;
  a->address = b->address - SMEM_BASE;
  a->count = 1;
  a->space = RACE_SHARED;
  a->entry.bytes = ALL_BYTES;
  u32 c = b->init.comp - a->first_comp;
  int self = b->init.comp == a->entry.comp && b->init.lane == a->entry.lane &&
             !(entry_flags(&a->entry) & ENTRY_ENGINE);
  if (self || (c < a->known->n &&
               knows(a->known, PLANE_ORDER, c, b->init.clock, b->init.lane)))
    return;
  detector_report(d, a, &b->init, UNORDERED);
}

static Accessor use(Detector *d, u32 slot, u32 warp, u32 pc, u32 lane) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 first = slot / d->cluster * d->per_group;
  Accessor a = {.known = warp_strand(w, lane)->known, .first_comp = first};
  a.entry = (Entry){.clock = w->clock, .pc = pc, .comp = first + w->comp, .lane = lane};
  return a;
}

void detector_mbar_init(Detector *d, u32 slot, u32 warp, u32 pc, u32 lane, u32 memory,
                        u32 address) {
  CtaAgent *c = &d->cta[memory];
  BarrierAgent *b = find(d, memory, address);
  if (!b && c->n_barriers < MAX_BARRIERS) b = &c->barrier[c->n_barriers++];
  if (!b) {
    d->lost++;
    return;
  }
  b->address = address;
  memset(b->in_current, 0, sizeof b->in_current);
  memset(b->in_complete, 0, sizeof b->in_complete);
  b->init = use(d, slot, warp, pc, lane).entry;
  b->init.bytes = ALL_BYTES;
  b->published = 0;
  b->signals.n = 0;
  entry_set_flags(&b->init, ENTRY_WRITE);
}

/* Takes SCOPE_RELAXED off; a scope that is not given is that of the cluster. */
static u32 relaxed_of(u32 *scope) {
  u32 relaxed = !*scope || *scope & SCOPE_RELAXED;
  *scope &= ~SCOPE_RELAXED;
  if (!*scope) *scope = SCOPE_CLUSTER;
  return relaxed;
}

void detector_mbar_arrive(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 memory,
                          u32 address, u32 scope) {
  BarrierAgent *b = find(d, memory, address);
  if (!b) return;
  WarpAgent *w = &d->cta[slot].warp[warp];
  Accessor a = use(d, slot, warp, pc, (u32)__builtin_ctz(lanes));
  check_init(d, b, &a, w);
  if (slot != memory) signal_note(d, b, &a.entry);
  u32 relaxed = relaxed_of(&scope);
  u32 reach = slot == memory ? REACH_OWN : scope >= SCOPE_CLUSTER ? REACH_CLUSTER
                                                                   : REACH_NARROW;
  if (relaxed) {
    u32 within = slot == memory ? WITHIN_CTA : WITHIN_CLUSTER;
    if (warp_release_within(w, lanes, within, d->scratch))
      add(d, &b->current[reach], &b->in_current[reach], d->scratch);
    warp_release(w, lanes, d->scratch);
    over_only(d, slot / d->cluster, d->scratch, w->comp);
    reach = REACH_OWN; /* no scope is asked of it */
  } else {
    warp_release(w, lanes, d->scratch);
  }
  add(d, &b->current[reach], &b->in_current[reach], d->scratch);
}

void detector_mbar_engine(Detector *d, u32 id, u32 pc, u32 memory, u32 address,
                          u32 history) {
  BarrierAgent *b = find(d, memory, address);
  const EngineAgent *e = detector_engine(d, id);
  if (!b || !e) return;
  u32 first = e->group * d->per_group;
  Accessor a = {.known = e->known, .first_comp = first};
  a.entry = (Entry){.clock = e->clock, .pc = pc, .comp = first + e->comp};
  entry_set_flags(&a.entry, ENTRY_ENGINE);
  /* a commit knows what it tracks, which need not be all that its thread does */
  WarpAgent *w = &d->cta[e->warp / d->warps].warp[e->warp % d->warps];
  if (history) a.known = warp_strand(w, (u32)__builtin_ctz(e->lanes))->known;
  check_init(d, b, &a, w);
  if (history) knowledge_copy(d->scratch, e->known);
  else knowledge_clear(d->scratch);
  if (!history) over_completed(e, d->scratch);
  knowledge_raise(d->scratch, PLANE_ORDER, e->comp, e->clock, ANY_LANE);
  /* PTX ISA, tcgen05.commit: its arrival is of cluster scope. Whether a wait of a copy's
   * bytes needs a scope the ISA leaves open; none is asked of it. */
  int own = e->warp / d->warps == memory;
  if (!own) signal_note(d, b, &a.entry);
  u32 reach = history && !own ? REACH_CLUSTER : REACH_OWN;
  add(d, &b->current[reach], &b->in_current[reach], d->scratch);
}

void detector_mbar_phase(Detector *d, u32 memory, u32 address) {
  BarrierAgent *b = find(d, memory, address);
  if (!b) return;
  signal_phase(b);
  for (u32 r = 0; r < REACHES; r++) {
    Knowledge *old = b->complete[r];
    b->complete[r] = b->current[r];
    b->in_complete[r] = b->in_current[r];
    b->current[r] = old;
    b->in_current[r] = 0;
  }
}

void detector_mbar_wait(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 address,
                        u32 scope) {
  BarrierAgent *b = find(d, slot, address);
  if (!b) return;
  WarpAgent *w = &d->cta[slot].warp[warp];
  Accessor a = use(d, slot, warp, pc, (u32)__builtin_ctz(lanes));
  check_init(d, b, &a, w);
  signal_waited(b);
  u32 relaxed = relaxed_of(&scope);
  for (u32 r = 0; r < REACHES; r++) {
    if (!b->in_complete[r]) continue;
    int wide = r == REACH_OWN || (r == REACH_CLUSTER && scope >= SCOPE_CLUSTER);
    if (relaxed) {
      if (wide)
        warp_acquire_later(w, lanes, b->complete[r],
                           r == REACH_OWN ? WITHIN_CTA : WITHIN_CLUSTER);
      knowledge_copy(d->scratch, b->complete[r]);
      over_only(d, slot / d->cluster, d->scratch, NO_WARP);
      warp_acquire(w, lanes, d->scratch);
    } else if (wide || d->profile == PROFILE_PRACTICE) {
      if (!wide && !knowledge_covers(warp_strand(w, a.entry.lane)->known, b->complete[r]))
        d->relaxed[RELAX_PEER_ARRIVE]++;
      warp_acquire(w, lanes, b->complete[r]);
    }
  }
}

/* --- barriers of the CTA and of the cluster ---------------------------------------- */
void detector_named_arrive(Detector *d, u32 slot, u32 warp, u32 lanes, u32 barrier) {
  Knowledge *k = made(d, &d->cta[slot].named[barrier]);
  if (!k) {
    d->lost++;
    return;
  }
  warp_release(&d->cta[slot].warp[warp], lanes, d->scratch);
  knowledge_join(k, d->scratch);
}

void detector_named_complete(Detector *d, u32 slot, u32 barrier) {
  CtaAgent *c = &d->cta[slot];
  if (!c->named[barrier]) return;
  Knowledge *old = c->named_done[barrier];
  c->named_done[barrier] = c->named[barrier];
  c->named[barrier] = old;
  if (old) knowledge_clear(old);
}

void detector_named_leave(Detector *d, u32 slot, u32 warp, u32 lanes, u32 barrier) {
  const Knowledge *k = d->cta[slot].named_done[barrier];
  if (k) warp_acquire(&d->cta[slot].warp[warp], lanes, k);
}

void detector_cluster_arrive(Detector *d, u32 slot, u32 warp, u32 lanes, u32 relaxed) {
  Knowledge *k = made(d, &d->group[slot / d->cluster].cluster);
  WarpAgent *w = &d->cta[slot].warp[warp];
  if (!k) {
    d->lost++;
  } else if (!relaxed) {
    warp_release(w, lanes, d->scratch);
    knowledge_join(k, d->scratch);
  } else {
    if (warp_release_within(w, lanes, WITHIN_CLUSTER, d->scratch))
      knowledge_join(k, d->scratch);
    warp_release(w, lanes, d->scratch);
    over_only(d, slot / d->cluster, d->scratch, w->comp);
    knowledge_join(k, d->scratch);
  }
}

void detector_fence_init(Detector *d, u32 slot, u32 warp, u32 lanes) {
  CtaAgent *c = &d->cta[slot];
  u32 comp = slot / d->cluster * d->per_group + c->warp[warp].comp;
  for (u32 k = 0; k < c->n_barriers; k++) {
    BarrierAgent *b = &c->barrier[k];
    if (b->address && b->init.comp == comp && lanes >> b->init.lane & 1u)
      b->published = d->group[slot / d->cluster].rounds + 1;
  }
  c->warp[warp].clock++;
}

void detector_cluster_complete(Detector *d, u32 slot) {
  GroupAgent *g = &d->group[slot / d->cluster];
  g->rounds++;
  if (!g->cluster) return;
  Knowledge *old = g->cluster_done;
  g->cluster_done = g->cluster;
  g->cluster = old;
  if (old) knowledge_clear(old);
}

void detector_cluster_wait(Detector *d, u32 slot, u32 warp, u32 lanes, u32 relaxed) {
  const Knowledge *k = d->group[slot / d->cluster].cluster_done;
  WarpAgent *w = &d->cta[slot].warp[warp];
  w->rounds = d->group[slot / d->cluster].rounds;
  if (k && relaxed) {
    warp_acquire_later(w, lanes, k, WITHIN_CLUSTER);
    knowledge_copy(d->scratch, k);
    over_only(d, slot / d->cluster, d->scratch, NO_WARP);
    warp_acquire(w, lanes, d->scratch);
  } else if (k) {
    warp_acquire(w, lanes, k);
  }
}
