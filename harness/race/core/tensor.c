/* Tensor memory: what a warp and its threads do in it, and what orders that.
 *
 * PTX ISA, Memory Consistency Model for 5th generation of TensorCore operations (Pipelined
 * tcgen05 Instructions; Specialized Inter-thread Synchronization; Canonical
 * synchronization patterns), tcgen05.commit, tcgen05.wait, tcgen05.fence.
 *
 * A warp counts as one thread here, and each of its loads and stores as one operation.
 * Only what the tensor core gets is of a lane: it follows what another one issued where
 * the lanes have met in between.
 * What the tensor core gets (mma, cp, shift) follows earlier such operations in
 * pipelines; everything else has to know them to be complete, and across threads behind
 * a pair of tcgen05 fences.
 */
#include <stdlib.h>

#include "events.h"

static inline u64 ones(u64 n) { return n < 64 ? (1ull << n) - 1 : ~0ull; }

static u32 pipe_comp(const Detector *d, u32 slot, u32 kind, u32 warp) {
  return slot % d->cluster * d->per_cta + detector_pipe_comp(d, kind, warp);
}

/* --- issue -------------------------------------------------------------------------- */
/* Lanes of a warp know of the issue of what is at `clock` of component c. */
static void issued(WarpAgent *w, u32 lanes, u32 c, u32 clock) {
  for (u32 s = 0; s < w->n; s++)
    if (w->strand[s].lanes & lanes) clock_row(w->strand[s].known, ROW_ISSUED)[c] = clock;
}

/* What was issued to the pipe, and what the thread that issues now knows: that alone is
 * in d->scratch afterwards. */
static Knowledge *pipe_known(Detector *d, u32 slot, u32 warp, u32 lane) {
  PipeAgent *p = &d->cta[slot].pipe[warp];
  if (!p->known) p->known = knowledge_new(d->per_group, d->rows);
  if (!p->known) {
    d->lost++;
    return NULL;
  }
  warp_release(&d->cta[slot].warp[warp], 1u << lane, d->scratch);
  knowledge_join(p->known, d->scratch);
  memcpy(clock_row(p->known, ROW_READY), clock_row(d->scratch, ROW_READY),
         p->known->n * sizeof(u32));
  return p->known;
}

static u32 form_of(Detector *d, u32 form) {
  u32 at = 0;
  while (at < d->n_forms && d->form[at] != form) at++;
  if (at == d->n_forms && at < FORMS) d->form[d->n_forms++] = form;
  u32 id = FORM_FIRST + (at < FORMS ? at : FORMS - 1);
  return id + (id >= ANY_LANE);
}

/* Copies are in the pipe's clock as well: nobody knows one to be complete but by a commit,
 * which tracks all before it. */
u32 detector_core(Detector *d, u32 slot, u32 warp, u32 lane, u32 form) {
  PipeAgent *p = &d->cta[slot].pipe[warp];
  Knowledge *k = pipe_known(d, slot, warp, lane);
  u32 id = k ? detector_begin(d, slot, warp, 1u << lane, d->scratch) : 0;
  EngineAgent *e = detector_engine(d, id);
  if (!e) return 0;
  e->comp = pipe_comp(d, slot, PIPE_CORE, warp);
  e->clock = p->by_lane[lane] = ++p->clock[PIPE_CORE];
  e->form = form < FORM_FIRST ? form : form_of(d, form);
  issued(&d->cta[slot].warp[warp], 1u << lane, e->comp, e->clock);
  detector_note_id(d, id);
  return id;
}

/* What a warp has issued and lanes of it know is behind their fence: of everything, or of
 * what a commit tracks. */
static void sent(Detector *d, u32 slot, u32 warp, u32 lanes, u32 pipes) {
  CtaAgent *c = &d->cta[slot];
  for (u32 s = 0; s < c->warp[warp].n; s++) {
    if (!(c->warp[warp].strand[s].lanes & lanes)) continue;
    Knowledge *k = c->warp[warp].strand[s].known;
    u32 *to = clock_row(k, ROW_SENT);
    const u32 *from = clock_row(k, ROW_ISSUED);
    for (u32 p = 0; p < pipes; p++) {
      u32 at = pipe_comp(d, slot, p, warp);
      to[at] = from[at];
    }
  }
}

/* tcgen05.commit: completes with all that its lane has issued, and what that came after.
 * What other lanes issued in between counts as issued by it. */
u32 detector_commit(Detector *d, u32 slot, u32 warp, u32 lane) {
  sent(d, slot, warp, 1u << lane, 1);
  Knowledge *k = pipe_known(d, slot, warp, lane);
  u32 id = k ? detector_start(d, slot, warp, 1u << lane, k) : 0;
  EngineAgent *e = detector_engine(d, id);
  for (u32 at = 0; e && at < PROXIES; at++)
    knowledge_raise(e->known, at, pipe_comp(d, slot, PIPE_CORE, warp),
                    d->cta[slot].pipe[warp].by_lane[lane], ANY_LANE);
  return id;
}

void detector_fence_before(Detector *d, u32 slot, u32 warp, u32 lanes) {
  if (d->rows) sent(d, slot, warp, lanes, PIPES);
}

void detector_fence_after(Detector *d, u32 slot, u32 warp, u32 lanes) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  for (u32 s = 0; d->rows && s < w->n; s++) {
    if (!(w->strand[s].lanes & lanes)) continue;
    u32 *to = clock_row(w->strand[s].known, ROW_READY), n = w->strand[s].known->n;
    const u32 *from = clock_row(w->strand[s].known, ROW_SENT);
    for (u32 c = 0; c < n; c++) to[c] = to[c] > from[c] ? to[c] : from[c];
  }
}

/* tcgen05.wait::ld and ::st. */
void detector_tensor_wait(Detector *d, u32 slot, u32 warp, u32 kind) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 comp = pipe_comp(d, slot, kind, warp), clock = d->cta[slot].pipe[warp].clock[kind];
  for (u32 s = 0; s < w->n; s++)
    for (u32 p = 0; p < PROXIES; p++)
      knowledge_raise(w->strand[s].known, p, comp, clock, ANY_LANE);
  if (kind == PIPE_LOAD) d->cta[slot].pipe[warp].over = clock;
}

u32 tensor_over(const Detector *d, u32 group, const Knowledge *k, u32 c) {
  u32 at = c % d->per_cta, first = d->warps + ENGINES + PIPE_LOAD * d->warps;
  if (!k->rows || d->profile != PROFILE_PRACTICE || at < first || at >= first + d->warps)
    return 0;
  const PipeAgent *p = &d->cta[group * d->cluster + c / d->per_cta].pipe[at - first];
  u32 use = k->entry[(PLANES * 3 + ROW_ISSUED) * k->n + c - first];
  return use && p->uses - use < LOADS ? p->over_by[use % LOADS] : 0;
}

void tensor_only(const Detector *d, Knowledge *k) {
  for (u32 row = 0; row < 3 * PROXIES; row++)
    for (u32 c = 0; c < k->n; c++)
      if (!detector_is_tensor(d, c)) k->entry[row * k->n + c] = 0;
}

/* --- loads and their registers -------------------------------------------------------- */
static void note_load(PipeAgent *p, u32 number, u32 second) {
  u32 clock = p->clock[PIPE_LOAD];
  for (u32 k = 1 + second; k < LOADS; k++) { /* its registers are written anew */
    Load *l = &p->load[(clock - k) % LOADS];
    if (l->number == number && !l->used) l->used = NEVER;
  }
  p->load[clock % LOADS] = (Load){.clock = clock, .number = number};
}

void detector_load_used(Detector *d, u32 slot, u32 warp, u32 number) {
  PipeAgent *p = &d->cta[slot].pipe[warp];
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 any = 0;
  for (u32 k = 0; k < LOADS; k++) {
    Load *l = &p->load[k];
    if (!l->clock || l->number != number || l->used) continue;
    if (!any++) p->uses++;
    l->used = p->uses;
  }
  const Load *next = &p->load[(p->over + 1) % LOADS];
  while (next->clock == p->over + 1 && next->used && next->used != NEVER)
    next = &p->load[(++p->over + 1) % LOADS];
  p->over_by[p->uses % LOADS] = p->over;
  /* the warp's own place in the row of what it issued is free for its uses */
  if (any) issued(w, FULL, w->comp, p->uses);
}

/* Whether the accessor knows that the registers of load `e` were used. Loads too long
 * ago to be remembered are taken to be over, which can only hide a race. */
static int load_over(const Detector *d, const Accessor *a, const Entry *e) {
  const CtaAgent *c = &d->cta[detector_cta_of(d, e->comp)];
  u32 warp = detector_pipe_warp(d, e->comp);
  const Load *l = &c->pipe[warp].load[e->clock % LOADS];
  u32 comp = detector_cta_of(d, e->comp) * d->per_cta + warp - a->first_comp;
  if (l->clock != e->clock) return 1;
  return l->used && l->used != NEVER && knows_row(a->known, ROW_ISSUED, comp, l->used);
}

/* --- order ---------------------------------------------------------------------------- */
/* Whether a pipeline keeps the second operation behind the first (PTX ISA, Pipelined
 * tcgen05 Instructions): 1: promised; 2: only by practice. */
static u32 pipelined(u32 first, u32 second) {
  if (second == FORM_COPY) return 0;
  if (second == FORM_SMALL_COPY) return first == FORM_SHIFT;
  if (second == FORM_SHIFT)
    return first == FORM_SHIFT ? 2 : first >= FORM_FIRST;
  return first < FORM_FIRST || first == second ? 1 : 2;
}

static u32 owner(const Detector *d, u32 comp) {
  return detector_cta_of(d, comp) * d->warps + detector_pipe_warp(d, comp);
}

static u32 relaxed(Detector *d, const Accessor *a, u32 which, u32 verdict) {
  if (d->profile == PROFILE_ISA) return verdict;
  d->relaxed[which] += a->count;
  return APART;
}

static inline int in_core(const Detector *d, const Entry *e) {
  u32 at = e->comp % d->per_cta;
  return at >= d->warps + ENGINES && at < d->warps + ENGINES + d->warps;
}

u32 tensor_order(Detector *d, const Accessor *a, const Entry *e) {
  const Entry *now = &a->entry;
  const Knowledge *k = a->known;
  u32 c = e->comp - a->first_comp;
  if (c >= k->n) return UNORDERED;
  if (e->comp == now->comp && e->clock == now->clock) return APART;
  int engines = entry_flags(e) & entry_flags(now) & ENTRY_ENGINE;
  u32 unfenced = knows_row(k, ROW_SENT, c, e->clock) ? TENSOR_UNRECEIVED : TENSOR_UNSENT;
  if (engines && in_core(d, e) && in_core(d, now) &&
      knows_row(k, ROW_ISSUED, c, e->clock) && !detector_other_lane(d, a, e)) {
    u32 pair = pipelined(e->lane, now->lane);
    if (owner(d, e->comp) == owner(d, now->comp)) {
      if (pair == 1 || knows_row(k, ROW_SENT, c, e->clock)) return APART;
      if (pair && !relaxed(d, a, RELAX_ISSUE_ORDER, UNORDERED)) return APART;
    } else if (pair) {
      if (knows_row(k, ROW_READY, c, e->clock)) return APART;
      return relaxed(d, a, RELAX_TENSOR_HANDOFF, unfenced);
    }
  }
  if (!(entry_flags(e) & ENTRY_ENGINE)) /* alloc or dealloc */
    return knows_warp(k, c, e->clock) || e->comp == now->comp ? APART : UNORDERED;
  if (!knows(k, PLANE_ORDER, c, e->clock, ANY_LANE)) {
    if (known_over(d, a, e)) return APART;
    u32 kind = (e->comp % d->per_cta - d->warps - ENGINES) / d->warps;
    if (in_core(d, e) || kind != PIPE_LOAD || !load_over(d, a, e)) return UNORDERED;
    if (relaxed(d, a, RELAX_LOAD_USED, UNORDERED)) return UNORDERED;
  }
  /* what is synchronous needs no fence */
  if (!engines || knows_row(k, ROW_READY, c, e->clock)) return APART;
  if (owner(d, e->comp) == owner(d, now->comp) && !in_core(d, e)) return APART;
  return relaxed(d, a, RELAX_TENSOR_HANDOFF, unfenced);
}

/* --- accesses ------------------------------------------------------------------------- */
static void tensor(Detector *d, Accessor *a, u32 memory, u32 lane, u32 lanes, u32 column,
                   u32 columns) {
  a->space = RACE_TENSOR;
  a->async_plane = PLANE_ORDER; /* no proxies */
  Block *blocks = d->cta[memory].tmem;
  if (!blocks || column + columns > TMEM_COLUMNS || lane + lanes > 128) return;
  int whole = lane % TMEM_CELL_LANES == 0 && lanes % TMEM_CELL_LANES == 0;
  u64 cells = ones(lanes / TMEM_CELL_LANES) << lane / TMEM_CELL_LANES; /* of a column */
  for (u32 c = column, n; c < column + columns; c += n) {
    u32 in = c % BLOCK_COLUMNS, first = c - in;
    Block *b = &blocks[c / BLOCK_COLUMNS];
    n = BLOCK_COLUMNS - in;
    if (n > column + columns - c) n = column + columns - c;
    if (whole) {
      u64 some = cells * (ones(n * TMEM_CELLS_COLUMN) / 0xff) << in * TMEM_CELLS_COLUMN;
      block_access(d, b, a, first, some);
      continue;
    }
    for (u32 k = in; k < in + n; k++)
      for (u32 l = lane & ~(TMEM_CELL_LANES - 1u); l < lane + lanes; l += TMEM_CELL_LANES) {
        u32 low = lane > l ? lane - l : 0;
        u32 high = lane + lanes < l + TMEM_CELL_LANES ? lane + lanes - l : TMEM_CELL_LANES;
        a->address = (u64)l << 16 | (first + k);
        block_part(d, b, a, k * TMEM_CELLS_COLUMN + l / TMEM_CELL_LANES,
                   ALL_BYTES << low & ALL_BYTES >> (TMEM_CELL_LANES - high));
      }
  }
}

void detector_engine_tensor(Detector *d, u32 id, u32 pc, u32 memory, u32 lane, u32 lanes,
                            u32 column, u32 columns, u32 flags) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  u32 first = e->group * d->per_group;
  Accessor a = {.known = e->known, .first_comp = first};
  a.entry = (Entry){.clock = e->clock, .pc = pc, .comp = first + e->comp, .lane = e->form};
  entry_set_flags(&a.entry, flags | ENTRY_ENGINE);
  tensor(d, &a, memory, lane, lanes, column, columns);
}

void detector_warp_tensor(Detector *d, u32 slot, u32 warp, u32 pc, u32 kind, u32 number,
                          u32 second, u32 lane, u32 lanes, u32 column, u32 columns) {
  CtaAgent *c = &d->cta[slot];
  WarpAgent *w = &c->warp[warp];
  u32 first = slot / d->cluster * d->per_group, comp = pipe_comp(d, slot, kind, warp);
  if (!d->rows) return;
  warp_release(w, w->live, d->scratch);
  Accessor a = {.known = d->scratch, .first_comp = first};
  a.entry = (Entry){.clock = ++c->pipe[warp].clock[kind], .pc = pc, .comp = first + comp};
  entry_set_flags(&a.entry, ENTRY_ENGINE | (kind == PIPE_STORE ? ENTRY_WRITE : 0));
  detector_note_issue(d, a.entry.comp, a.entry.clock, slot, warp, d->scratch);
  issued(w, w->live, comp, a.entry.clock);
  if (kind == PIPE_LOAD) note_load(&c->pipe[warp], number, second);
  tensor(d, &a, slot, lane, lanes, column, columns);
}

void detector_tensor_own(Detector *d, u32 slot, u32 warp, u32 pc, u32 column, u32 columns,
                         u32 what) {
  CtaAgent *c = &d->cta[slot];
  WarpAgent *w = &c->warp[warp];
  if (!c->tmem) return;
  if (!c->freed && !(c->freed = knowledge_new(d->per_group, d->rows))) {
    d->lost++;
    return;
  }
  if (what != TENSOR_FREED) warp_acquire(w, w->live, c->freed);
  if (what == TENSOR_TAKEN_BY_PAIR) return; /* the peer's threads know of it otherwise */
  u32 first = slot / d->cluster * d->per_group;
  warp_release(w, w->live, d->scratch);
  Accessor a = {.known = d->scratch, .first_comp = first, .lanes = w->live};
  a.entry = (Entry){.clock = w->clock, .pc = pc, .comp = first + w->comp, .lane = ANY_LANE};
  entry_set_flags(&a.entry, ENTRY_WRITE);
  tensor(d, &a, slot, 0, 128, column, columns);
  if (what != TENSOR_FREED) return;
  warp_release(w, w->live, d->scratch);
  knowledge_join(c->freed, d->scratch);
}
