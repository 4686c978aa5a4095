/* Copies that a thread waits for by their groups (PTX ISA, "cp.async.wait_group",
 * "cp.async.bulk.wait_group", "cp.async.mbarrier.arrive"). */
#include <stdlib.h>

#include "watch.h"

static GroupList *list_of(Watch *h, const Warp *w) {
  return &h->list[w->cta->slot * w->m->warps_per_cta + w->id];
}

int watch_grouped(u32 kind) {
  return kind == ASYNC_CP || kind == ASYNC_BULK_STORE || kind == ASYNC_BULK_WRITE;
}

void watch_group(Watch *h, const Async *op, u32 lanes) {
  GroupList *list = list_of(h, op->warp);
  if (list->n == list->capacity) {
    u32 n = list->capacity ? 2 * list->capacity : 16;
    Grouped *more = realloc(list->at, n * sizeof *more);
    if (!more) {
      h->detector->lost++;
      return;
    }
    list->at = more;
    list->capacity = n;
  }
  list->at[list->n++] = (Grouped){op->agent, op->kind, op->group, lanes,
                                   pc_of(op->cta->m, op->insn), op->seq};
}

void watch_copies_before(Watch *h, const Async *op, u32 pc, u32 memory, u32 at) {
  const GroupList *list = list_of(h, op->warp);
  for (u32 k = 0; k < list->n; k++)
    if (list->at[k].kind == ASYNC_CP && list->at[k].seq < op->seq &&
        list->at[k].lanes >> op->lane & 1u)
      detector_mbar_engine(h->detector, list->at[k].agent, pc, memory, at, 0);
}

/* PTX ISA, cp.async.bulk.wait_group: only the thread that issued a bulk store can know
 * that its source has been read; what it did not wait for may read after the CTA. */
void watch_finished(void *state, const Cta *c) {
  Watch *h = state;
  detector_over(h->detector, c->slot, c->m->warps_per_cta);
  for (u32 w = 0; w < c->m->warps_per_cta; w++) {
    const GroupList *list = &h->list[c->slot * c->m->warps_per_cta + w];
    for (u32 k = 0; k < list->n; k++)
      if (list->at[k].kind == ASYNC_BULK_STORE)
        detector_unread(h->detector, list->at[k].agent, list->at[k].pc, c->slot, w);
  }
}

void watch_groups(void *state, const Warp *w, const Insn *i, u32 m, u32 kind,
                   const u32 *end, u32 reads) {
  (void)i;
  Watch *h = state;
  GroupList *list = list_of(h, w);
  u32 kept = 0;
  for (u32 k = 0; k < list->n; k++) {
    Grouped *g = &list->at[k];
    int of_kind = kind == ASYNC_CP ? g->kind == ASYNC_CP
                                   : g->kind == ASYNC_BULK_STORE ||
                                         (g->kind == ASYNC_BULK_WRITE && !reads);
    u32 over = 0;
    for (u32 left = of_kind ? g->lanes & m : 0; left; left &= left - 1) {
      u32 l = (u32)__builtin_ctz(left);
      over |= (u32)(g->group < end[l]) << l;
    }
    if (over && !weak(h, w)) detector_complete(told(h, w), g->agent, w->cta->slot, w->id, over);
    g->lanes &= ~over;
    if (g->lanes) list->at[kept++] = *g;
    else detector_drop(h->detector, g->agent);
  }
  list->n = kept;
}
