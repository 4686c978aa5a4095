/* Life of a detector: slots, CTAs, engines. */
#include "detector.h"

#include <stdlib.h>

#include "events.h"

static u32 round_up(u32 v, u32 to) { return (v + to - 1) / to * to; }

void detector_free(Detector *d) {
  if (!d) return;
  races_free(&d->races);
  races_free(&d->crossed);
  for (u32 s = 0; d->cta && s < d->n_slots; s++) {
    CtaAgent *c = &d->cta[s];
    for (u32 w = 0; c->warp && w < d->warps; w++) warp_free(&c->warp[w]);
    free(c->warp);
    for (u32 w = 0; c->pipe && w < d->warps; w++) free(c->pipe[w].known);
    free(c->pipe);
    free(c->freed);
    for (u64 b = 0; c->smem && b < d->smem_blocks; b++) block_free(&c->smem[b]);
    for (u64 b = 0; c->tmem && b < TMEM_COLUMNS / BLOCK_COLUMNS; b++) block_free(&c->tmem[b]);
    free(c->tmem);
    free(c->smem);
    for (u32 b = 0; b < MAX_BARRIERS; b++) {
      free(c->barrier[b].signals.at);
      for (u32 r = 0; r < REACHES; r++) {
        free(c->barrier[b].current[r]);
        free(c->barrier[b].complete[r]);
      }
    }
    for (u32 b = 0; b < NAMED_BARRIERS; b++) {
      free(c->named[b]);
      free(c->named_done[b]);
    }
  }
  u32 groups = d->cluster ? d->n_slots / d->cluster : 0;
  for (u32 g = 0; d->group && g < groups; g++) {
    free(d->group[g].cluster);
    free(d->group[g].cluster_done);
    news_clear(&d->group[g]);
    free(d->group[g].news);
  }
  for (u32 k = 0; k < d->n_engines; k++) {
    if (d->engine[k]) free(d->engine[k]->known);
    free(d->engine[k]);
  }
  global_free(d);
  locations_free(d);
  map_fences_free(d);
  grids_free(d);
  shadow_free(&d->shadow);
  free(d->engine);
  free(d->cta);
  free(d->group);
  free(d->scratch);
  free(d);
}

/* NULL when out of memory or when there are more components than an entry can name. */
Detector *detector_new(u32 slots, u32 cluster, u32 warps, u32 smem_bytes, u32 profile,
                       u32 tensor) {
  u32 per_cta = round_up(warps + ENGINES + PIPES * warps, 16);
  if (!cluster || !warps || slots % cluster || (u64)slots * per_cta > MAX_COMPONENTS)
    return NULL;
  Detector *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->n_slots = slots;
  d->cluster = cluster;
  d->warps = warps;
  d->profile = profile;
  d->per_cta = per_cta;
  d->per_group = per_cta * cluster;
  d->rows = tensor ? TENSOR_ROWS : 0;
  d->smem_blocks = (smem_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
  d->cta = calloc(slots, sizeof *d->cta);
  d->group = calloc(slots / cluster, sizeof *d->group);
  d->scratch = knowledge_new(d->per_group, d->rows);
  int ok = d->cta && d->group && d->scratch;
  for (u32 s = 0; ok && s < slots; s++) {
    CtaAgent *c = &d->cta[s];
    c->warp = calloc(warps, sizeof *c->warp);
    c->smem = calloc(d->smem_blocks + 1, sizeof *c->smem);
    c->pipe = calloc(warps, sizeof *c->pipe);
    c->tmem = tensor ? calloc(TMEM_COLUMNS / BLOCK_COLUMNS, sizeof *c->tmem) : NULL;
    ok = c->warp && c->smem && c->pipe && (c->tmem || !tensor);
    for (u32 w = 0; ok && w < warps; w++) {
      c->warp[w].strand[0].known = knowledge_new(d->per_group, d->rows);
      ok = c->warp[w].strand[0].known != NULL;
    }
  }
  if (!ok) {
    detector_free(d);
    return NULL;
  }
  return d;
}

/* A CTA takes a slot. Nothing orders it after the one that was there before. */
void detector_cta(Detector *d, u32 slot, u32 threads, u32 linear) {
  CtaAgent *c = &d->cta[slot];
  c->linear = linear;
  u32 base = slot % d->cluster * d->per_cta, last = c->born;
  for (u32 w = 0; w < d->warps; w++)
    if (c->warp[w].clock > last) last = c->warp[w].clock;
  for (u32 k = 0; k < ENGINES; k++)
    if (c->engine_clock[k] > last) last = c->engine_clock[k];
  for (u32 w = 0; w < d->warps; w++)
    for (u32 p = 0; p < PIPES; p++)
      if (c->pipe[w].clock[p] > last) last = c->pipe[w].clock[p];
  c->born = last + 1;
  if (c->freed) knowledge_clear(c->freed);
  for (u32 w = 0; w < d->warps; w++) {
    for (u32 p = 0; p < PIPES; p++) c->pipe[w].clock[p] = last + 1;
    memset(c->pipe[w].by_lane, 0, sizeof c->pipe[w].by_lane);
    c->pipe[w].over = last + 1;
    if (c->pipe[w].known) knowledge_clear(c->pipe[w].known);
  }
  for (u32 w = 0; w < d->warps; w++) {
    u32 left = threads > w * LANES ? threads - w * LANES : 0;
    c->warp[w].clock = last;
    warp_begin(&c->warp[w], base + w, left >= LANES ? FULL : (1u << left) - 1);
  }
  for (u32 k = 0; k < ENGINES; k++) {
    c->engine_clock[k] = last + 1;
    c->engine_busy[k] = 0;
  }
  c->next_engine = 0;
  c->n_barriers = 0;
  for (u32 b = 0; b < MAX_BARRIERS; b++) c->barrier[b].address = 0;
  for (u32 b = 0; b < NAMED_BARRIERS; b++) {
    if (c->named[b]) knowledge_clear(c->named[b]);
    if (c->named_done[b]) knowledge_clear(c->named_done[b]);
  }
  if (slot % d->cluster == 0) {
    GroupAgent *g = &d->group[slot / d->cluster];
    if (g->cluster) knowledge_clear(g->cluster);
    if (g->cluster_done) knowledge_clear(g->cluster_done);
    news_clear(g);
    g->rounds = 0;
  }
}

WarpAgent *detector_warp(Detector *d, u32 slot, u32 warp) {
  return &d->cta[slot].warp[warp];
}

void detector_converge(Detector *d, u32 slot, u32 warp, u32 lanes) {
  if (!warp_converge(&d->cta[slot].warp[warp], lanes)) d->lost++;
}

void detector_meet(Detector *d, u32 slot, u32 warp, u32 lanes) {
  if (d->profile != PROFILE_ISA) warp_meet(&d->cta[slot].warp[warp], lanes);
}

void detector_fence_proxy(Detector *d, u32 slot, u32 warp, u32 lanes, u32 plane) {
  warp_fence_proxy(&d->cta[slot].warp[warp], lanes, plane);
}

void detector_fence(Detector *d, u32 slot, u32 warp, u32 lanes, u32 scope, u32 acquires,
                    u32 releases) {
  u32 within = within_of(scope);
  if (acquires && within == WITHIN_GPU) news_fence(d, slot, warp, lanes);
  warp_fence(&d->cta[slot].warp[warp], lanes, within, acquires, releases);
}

void detector_tick(Detector *d, u32 slot, u32 warp) { d->cta[slot].warp[warp].clock++; }

/* How many of a warp's clocks up to `clock` had an access: what a clock is worth to
 * others. Engines have an access at each of theirs. */
static u32 worth(const Detector *d, u32 group, u32 c, u32 clock) {
  u32 at = c % d->per_cta;
  if (at >= d->warps) return clock;
  const WarpAgent *w = &d->cta[group * d->cluster + c / d->per_cta].warp[at];
  u32 low = 0, high = w->n_touched;
  while (low < high) {
    u32 mid = (low + high) / 2;
    if (w->touched[mid] <= clock) low = mid + 1;
    else high = mid;
  }
  return low;
}

static void touch(Detector *d, WarpAgent *w) {
  if (w->n_touched && w->touched[w->n_touched - 1] == w->clock) return;
  if (w->n_touched == w->cap_touched) {
    u32 cap = w->cap_touched ? 2 * w->cap_touched : 64;
    u32 *more = realloc(w->touched, cap * sizeof *more);
    if (!more) {
      d->lost++;
      return;
    }
    w->touched = more;
    w->cap_touched = cap;
  }
  w->touched[w->n_touched++] = w->clock;
}

void detector_digest(Detector *d, u32 slot, u32 warp, u32 lane) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  const Knowledge *k = warp_strand(w, lane)->known;
  u32 group = slot / d->cluster;
  u64 h = d->digest;
  touch(d, w);
  for (u32 p = 0; p < PLANES; p++)
    for (u32 c = 0; c < k->n; c++) {
      const u32 *entry = k->entry + p * 3 * k->n + c;
      u32 all = worth(d, group, c, entry[0]), one = worth(d, group, c, entry[k->n]);
      u32 over = tensor_over(d, group, k, c), known = k->entry[c];
      if (over > known) known = over;
      if (p == PLANE_OVER && entry[0] <= known && entry[k->n] <= k->entry[k->n + c])
        continue; /* over allows nothing that an order, or a use, does not */
      if (over > all) all = over;
      h = (h ^ all) * 0x100000001b3ull;
      if (one > all) h = (h ^ one ^ (u64)entry[2 * k->n] << 32) * 0x100000001b3ull;
    }
  for (u32 l = 0; w->parted && l < LANES; l++)
    h = (h ^ worth(d, group, w->comp, w->known_lanes[lane][l])) * 0x100000001b3ull;
  for (u32 c = 0; d->profile == PROFILE_ISA && k->rows && c < k->n; c++)
    h = (h ^ k->entry[(PLANES * 3 + ROW_READY) * k->n + c]) * 0x100000001b3ull;
  d->digest = h;
}

/* Lanes that have exited take no further part. */
void detector_exit(Detector *d, u32 slot, u32 warp, u32 lanes) {
  d->cta[slot].warp[warp].live &= ~lanes;
}

/* --- engines ---------------------------------------------------------------------- */
EngineAgent *detector_engine(const Detector *d, u32 id) {
  return id && id <= d->n_engines ? d->engine[id - 1] : NULL;
}

/* A component for one more operation: whoever learns of the new one is taken to know the
 * old ones of the component, so that fresh ones come first, and then one whose last
 * operation the issuer knows to be complete. */
static u32 pick(const Detector *d, CtaAgent *c, const Knowledge *known, u32 first) {
  u32 spare = ENGINES, n = ENGINES - d->grids.dependent; /* the last one knows of waits */
  for (u32 k = 0; k < n; k++) {
    u32 at = (c->next_engine + k) % n;
    if (c->engine_busy[at]) continue;
    u32 last = c->engine_clock[at];
    if (last == c->born || knows(known, PLANE_ORDER, first + at, last, 0)) {
      spare = at;
      break;
    }
    if (spare == ENGINES) spare = at;
  }
  if (spare == ENGINES) spare = c->next_engine;
  c->next_engine = (spare + 1) % n;
  return spare;
}

static u32 engine_id(Detector *d) {
  for (u32 k = d->free_engine; k < d->n_engines; k++)
    if (!d->engine[k]) {
      d->free_engine = k + 1;
      return k + 1;
    }
  u32 n = d->n_engines ? 2 * d->n_engines : 64;
  EngineAgent **more = realloc(d->engine, n * sizeof *more);
  if (!more) return 0;
  memset(more + d->n_engines, 0, (n - d->n_engines) * sizeof *more);
  u32 id = d->n_engines + 1;
  d->engine = more;
  d->n_engines = n;
  d->free_engine = id;
  return id;
}

/* An operation with what its issuer knew, of no component yet. */
u32 detector_begin(Detector *d, u32 slot, u32 warp, u32 lanes, const Knowledge *known) {
  u32 id = engine_id(d);
  EngineAgent *e = id ? calloc(1, sizeof *e) : NULL;
  if (!e || !(e->known = knowledge_new(d->per_group, d->rows))) {
    free(e);
    d->lost++;
    return 0;
  }
  knowledge_copy(e->known, known);
  e->group = slot / d->cluster;
  e->warp = slot * d->warps + warp;
  e->lanes = lanes;
  d->engine[id - 1] = e;
  return id;
}

/* Remember who issued operation `id`, for reports. */
void detector_note_id(Detector *d, u32 id) {
  const EngineAgent *e = d->engine[id - 1];
  u32 slot = e->warp / d->warps, first = e->group * d->per_group;
  detector_note_issue(d, first + e->comp, e->clock, slot, e->warp % d->warps, e->known);
  detector_issued(d, first + e->comp, e->clock)->lanes = e->lanes;
}

void detector_note_issue(Detector *d, u32 comp, u32 clock, u32 slot, u32 warp,
                         const Knowledge *known) {
  u32 c = d->cta[slot].warp[warp].comp, n = known->n;
  const u32 *k = known->entry + c;
  u32 one = k[n] > k[0];
  *detector_issued(d, comp, clock) = (Issue){
      .comp = comp,
      .clock = clock,
      .by = slot / d->cluster * d->per_group + c,
      .at = one ? k[n] : k[0],
      .lane = one ? k[2 * n] : 0,
  };
}

u32 detector_start(Detector *d, u32 slot, u32 warp, u32 lanes, const Knowledge *known) {
  CtaAgent *c = &d->cta[slot];
  u32 first = slot % d->cluster * d->per_cta + d->warps, at = pick(d, c, known, first);
  u32 id = detector_begin(d, slot, warp, lanes, known);
  if (!id) return 0;
  c->engine_busy[at]++;
  d->engine[id - 1]->comp = first + at;
  d->engine[id - 1]->clock = ++c->engine_clock[at];
  detector_note_id(d, id);
  return id;
}

/* An operation that `lanes` of a warp issue; its id, or 0 without memory. */
u32 detector_issue(Detector *d, u32 slot, u32 warp, u32 lanes) {
  warp_release(&d->cta[slot].warp[warp], lanes, d->scratch);
  u32 id = detector_start(d, slot, warp, lanes, d->scratch);
  over_issued(d, id);
  return id;
}

/* The second half of operation `id`: its first half is done before, and the second is
 * known to be complete apart from it. */
u32 detector_follow(Detector *d, u32 id) {
  EngineAgent *e = detector_engine(d, id);
  if (!e) return 0;
  Knowledge *k = knowledge_new(d->per_group, d->rows);
  if (!k) {
    d->lost++;
    return 0;
  }
  knowledge_copy(k, e->known);
  knowledge_raise(k, PLANE_ORDER, e->comp, e->clock, ANY_LANE);
  u32 next = detector_start(d, e->warp / d->warps, e->warp % d->warps, e->lanes, k);
  free(k);
  if (next) detector_task(d, next, e->task);
  return next;
}

/* Nobody will wait for it any more: forget it. */
void detector_drop(Detector *d, u32 id) {
  EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  CtaAgent *c = &d->cta[e->warp / d->warps];
  u32 at = e->comp % d->per_cta - d->warps;
  if (at < ENGINES && c->engine_busy[at]) c->engine_busy[at]--;
  free(e->known);
  free(e);
  d->engine[id - 1] = NULL;
  if (id - 1 < d->free_engine) d->free_engine = id - 1;
}

/* Lanes learn that an operation is complete: its own accesses, nothing of its issuer. */
void detector_complete(Detector *d, u32 id, u32 slot, u32 warp, u32 lanes) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  knowledge_clear(d->scratch);
  /* Accesses through the async proxy need no fence from here; others do (PTX ISA,
   * cp.async, st.async: operations of the generic proxy). */
  knowledge_raise(d->scratch, PLANE_ORDER, e->comp, e->clock, ANY_LANE);
  warp_acquire(&d->cta[slot].warp[warp], lanes, d->scratch);
}

u64 race_digest(const Detector *d) { return d->digest; }
u64 race_relaxed(const Detector *d, u32 which) { return d->relaxed[which]; }
u64 race_lost(const Detector *d) {
  return d->lost + d->races.dropped + d->crossed.dropped;
}
u32 race_count(const Detector *d) { return d->races.n; }
/* Never NULL: one race can be read whatever the count. */
static const Race no_race;
const Race *race_table(const Detector *d) { return d->races.at ? d->races.at : &no_race; }
const Race *race_crossed(const Detector *d) {
  return d->crossed.at ? d->crossed.at : &no_race;
}
void race_forget_inits(Detector *d) {
  for (u32 s = 0; s < d->n_slots; s++)
    for (u32 b = 0; b < d->cta[s].n_barriers; b++) d->cta[s].barrier[b].init.bytes = 0;
}
