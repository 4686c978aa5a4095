/* Operations in flight: issued by a warp, landed by the scheduler, later. */
#include <stdlib.h>
#include <string.h>

#include "observer.h"

Async *async_new(Warp *w, const Insn *i, u32 kind, LandFn land) {
  Machine *m = w->m;
  Async *op = m->free_list;
  if (op) {
    m->free_list = (Async *)op->arg[0];
  } else {
    op = malloc(sizeof *op);
    if (!op) {
      stop_launch(w, i, ST_INTERNAL);
      return NULL;
    }
  }
  memset(op->arg, 0, sizeof op->arg); /* two that do the same look the same */
  op->land = land;
  op->ready = NULL;
  op->insn = i;
  op->warp = w;
  op->cta = w->cta;
  op->kind = kind;
  op->lane = 0;
  op->mask = 0;
  op->group = 0;
  op->data = NULL;
  op->agent = op->timed = 0;
  op->work = 0;
  op->units = 1;
  op->seq = m->async_seq++;
  return op;
}

static void land(Machine *m, Async *op) {
  const Async *outer = m->landing;
  m->landing = op;
  op->land(m, op);
  OBSERVE(m, landed, op);
  m->landing = outer;
}

void async_land_at_once(Machine *m, Async *op) {
  OBSERVE(m, issue, op, m->landing);
  land(m, op);
}

void async_push(Machine *m, Async *op) {
  OBSERVE(m, issue, op, m->landing);
  if (m->n_queue == m->cap_queue) {
    u32 cap = m->cap_queue ? m->cap_queue * 2 : 64;
    Async **q = realloc(m->queue, cap * sizeof *q);
    if (!q) { /* land at once rather than lose it */
      land(m, op);
      free(op->data);
      free(op);
      return;
    }
    m->queue = q;
    m->cap_queue = cap;
  }
  op->cta->pending_async++;
  m->queue[m->n_queue++] = op;
  m->progress++;
}

u32 async_ready(const Machine *m, u32 from) {
  for (u32 k = 0; k < m->n_queue; k++) {
    u32 j = from + k < m->n_queue ? from + k : from + k - m->n_queue;
    const Async *op = m->queue[j];
    if (!op->ready || op->ready(m, op)) return j;
  }
  return 0; /* the queue is in order of issue, and its head is always ready */
}

void async_land_one(Machine *m, u32 index) {
  Async *op = m->queue[index];
  memmove(&m->queue[index], &m->queue[index + 1],
          (m->n_queue - index - 1) * sizeof *m->queue);
  m->n_queue--;
  op->cta->pending_async--;
  m->progress++;
  land(m, op);
  free(op->data);
  op->arg[0] = (u64)m->free_list;
  m->free_list = op;
}

void async_land_cta(Machine *m, Cta *c) {
  for (u32 k = 0; k < m->n_queue;) {
    if (m->queue[k]->cta == c) async_land_one(m, k);
    else k++;
  }
}

u32 async_outstanding(const Warp *w, u32 kind, u32 lane, u32 group) {
  const Machine *m = w->m;
  u32 n = 0;
  for (u32 k = 0; k < m->n_queue; k++) {
    const Async *op = m->queue[k];
    if (op->warp == w && op->kind == kind && op->group <= group &&
        ((op->mask >> lane) & 1u))
      n++;
  }
  return n;
}
