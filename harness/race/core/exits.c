/* A CTA is over: what other CTAs still may do in its shared memory, or to its mbarriers.
 *
 * PTX ISA, Cluster of Cooperative Thread Arrays: a CTA may not exit before what others do
 * in its shared memory is complete. So one of its threads has to know of it. Whoever
 * waited for a phase of an mbarrier knows of its arrivals, relaxed or not.
 */
#include <stdlib.h>

#include "events.h"

/* --- signals from other CTAs ------------------------------------------------------------ */
/* An entry that is `cut` is of a phase that is complete. */
void signal_note(Detector *d, BarrierAgent *b, const Entry *e) {
  Signals *s = &b->signals;
  u32 k = 0;
  while (k < s->n && s->at[k].comp != e->comp) k++; /* the later one stands for both */
  if (k == s->n && s->n == s->capacity) {
    u32 n = s->capacity ? 2 * s->capacity : 8;
    Entry *more = realloc(s->at, n * sizeof *more);
    if (!more) {
      d->lost++;
      return;
    }
    s->at = more;
    s->capacity = n;
  }
  s->n += k == s->n;
  s->at[k] = *e;
  s->at[k].cut = 0;
}

void signal_phase(BarrierAgent *b) {
  for (u32 k = 0; k < b->signals.n; k++) b->signals.at[k].cut = 1;
}

void signal_waited(BarrierAgent *b) {
  Signals *s = &b->signals;
  u32 kept = 0;
  for (u32 k = 0; k < s->n; k++)
    if (!s->at[k].cut) s->at[kept++] = s->at[k];
  s->n = kept;
}

/* --- the end of a CTA ------------------------------------------------------------------- */
typedef struct End {
  Detector *d;
  Accessor by;
  u32 slot;
} End;

/* Whether it is of another CTA, and nothing says that it is over. */
static int outlasts(const End *end, const Entry *e) {
  u32 c = e->comp - end->by.first_comp;
  return detector_cta_of(end->d, e->comp) != end->slot && c < end->by.known->n &&
         e->clock >= detector_born(end->d, e->comp) &&
         !knows(end->by.known, PLANE_ORDER, c, e->clock, e->lane) &&
         !knows(end->by.known, PLANE_OVER, c, e->clock, e->lane);
}

static void judge(End *end, const Entry *e, u64 address, u32 cells) {
  if (!outlasts(end, e)) return;
  Detector *d = end->d;
  end->by.address = address;
  end->by.count = cells;
  detector_report(d, &end->by, e, OUTLASTS);
}

static void judge_cell(End *end, const Cell *cell, u64 address) {
  for (;;) {
    for (u32 k = 0; k < CELL_ENTRIES && cell->entry[k].bytes; k++)
      judge(end, &cell->entry[k], address, 1);
    if (!cell->more) return;
    cell = &end->d->shadow.chain[cell->more - 1];
  }
}

static void judge_block(End *end, const Block *b, u64 first) {
  const Span *s = b->more ? b->more : b->span;
  for (u32 k = 0; k < b->n; k++)
    if (s[k].cells)
      judge(end, &s[k].entry, first + (u32)__builtin_ctzll(s[k].cells) * CELL_BYTES,
            (u32)__builtin_popcountll(s[k].cells));
  for (u64 left = b->fine; left; left &= left - 1) {
    u32 at = (u32)__builtin_ctzll(left);
    judge_cell(end, &b->cell[at], first + at * CELL_BYTES);
  }
}

void detector_over(Detector *d, u32 slot, u32 warps) {
  CtaAgent *c = &d->cta[slot];
  if (d->cluster == 1) return;
  Knowledge *known = knowledge_new(d->per_group, d->rows);
  if (!known) {
    d->lost++;
    return;
  }
  for (u32 w = 0; w < warps; w++)
    for (u32 s = 0; s < c->warp[w].n; s++) knowledge_join(known, c->warp[w].strand[s].known);
  u32 first = slot / d->cluster * d->per_group;
  End end = {.d = d, .slot = slot,
             .by = {.known = known, .first_comp = first, .space = RACE_SHARED}};
  end.by.entry = (Entry){.clock = c->warp[0].clock, .pc = END_PC,
                         .comp = first + c->warp[0].comp, .lane = ANY_LANE};
  entry_set_flags(&end.by.entry, ENTRY_WRITE);
  for (u32 k = 0; k < c->n_barriers; k++) {
    BarrierAgent *b = &c->barrier[k];
    for (u32 n = 0; n < b->signals.n; n++) {
      if (d->profile == PROFILE_ISA) judge(&end, &b->signals.at[n], b->address - SMEM_BASE, 1);
      else if (outlasts(&end, &b->signals.at[n])) d->relaxed[RELAX_PEER_EXIT]++;
    }
    b->signals.n = 0;
  }
  for (u64 k = 0; c->smem && k < d->smem_blocks; k++)
    if (c->smem[k].touched) judge_block(&end, &c->smem[k], k * BLOCK_BYTES);
  free(known);
}
