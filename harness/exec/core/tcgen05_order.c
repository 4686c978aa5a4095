/* The order in which tcgen05 operations land. */
#include "tcgen05_order.h"

_Static_assert(TC_CALL_BYTES + sizeof(TcIssue) <= sizeof(((Async *)0)->arg),
               "operands of a tcgen05 operation fit its Async");

static int tracked(u32 kind) {
  return kind == ASYNC_TC_MMA || kind == ASYNC_TC_CP || kind == ASYNC_TC_SHIFT;
}

/* Pipelined pairs, of one thread or ordered by fences. Beyond what the ISA promises (the
 * same accumulator, shape and kind), all mma of a thread are taken to be in order, as
 * published kernels rely on, unless m->isa_order. */
static int pipelined(const Machine *m, const Async *first, const Async *second) {
  u32 a = first->kind, b = second->kind;
  if (b == ASYNC_TC_MMA) {
    if (a != ASYNC_TC_MMA) return 1;
    return !m->isa_order || tcgen05_issued(first)->form == tcgen05_issued(second)->form;
  }
  if (b == ASYNC_TC_SHIFT) return a == ASYNC_TC_MMA || a == ASYNC_TC_SHIFT;
  return a == ASYNC_TC_SHIFT && tcgen05_issued(second)->small; /* cp */
}

static int same_pair(const Cta *a, const Cta *b) {
  return a->first_slot == b->first_slot && (a->rank | 1u) == (b->rank | 1u);
}

static int ready(const Machine *m, const Async *op) {
  const TcIssue *mine = tcgen05_issued(op);
  for (u32 k = 0; k < m->n_queue; k++) {
    const Async *e = m->queue[k];
    if (e == op) break; /* the queue is in order of issue */
    if (e->warp == op->warp) {
      int thread = e->lane == op->lane && tracked(e->kind);
      if (op->kind == ASYNC_TC_COMMIT) {
        if (thread) return 0;
        continue;
      }
      int tensor = tracked(e->kind) || e->kind == ASYNC_TMEM_LD || e->kind == ASYNC_TMEM_ST;
      if (tensor && e->seq < mine->own) return 0;
      if (thread && pipelined(m, e, op)) return 0;
    }
    if (op->kind != ASYNC_TC_COMMIT && tracked(e->kind) && e->seq < mine->pair &&
        same_pair(e->cta, op->cta) && pipelined(m, e, op))
      return 0;
  }
  return 1;
}

int tcgen05_issue(Warp *w, const Insn *i, u32 lane, TcOp what, LandFn land,
                  const void *call, u32 size) {
  Machine *m = w->m;
  if (!m->seed) {
    Async now = {.land = land, .insn = i, .warp = w, .cta = w->cta, .kind = what.kind};
    now.lane = lane;
    now.work = what.work;
    now.units = what.units;
    memcpy(now.arg, call, size);
    *tcgen05_issued(&now) = (TcIssue){.form = what.form, .small = what.small};
    now.seq = m->async_seq++;
    async_land_at_once(m, &now);
    return m->status == ST_RUNNING ? STEP_NEXT : STEP_STOP;
  }
  Async *op = async_new(w, i, what.kind, land);
  if (!op) return STEP_STOP;
  op->lane = lane;
  op->ready = ready;
  op->work = what.work;
  op->units = what.units;
  memcpy(op->arg, call, size);
  *tcgen05_issued(op) = (TcIssue){w->tc_own, w->tc_fence, what.form, what.small};
  async_push(m, op);
  return STEP_NEXT;
}

int tcgen05_pair_alive(Machine *m, const Async *op, u32 group) {
  const Cta *peer = group == 2 ? tcgen05_peer(op->cta) : NULL;
  if (!peer || peer->live_warps) return 1;
  fault_at(m, op->insn, op->cta, op->warp->id, op->lane, FAULT_TCGEN05, 2, 0, TC_PEER_GONE);
  return 0;
}
