/* What orders tcgen05 operations: wait, fence, the scoreboard; and the rules that
 * every issue obeys.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: tcgen05.wait, tcgen05.fence,
 * Memory Consistency Model (Register dependencies, same thread).
 */
#include "observer.h"
#include "tcgen05.h"

int tcgen05_gather(Warp *w, const Insn *i, u32 m) {
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return 1;
  }
  if (m != w->initial)
    fault(w, i, (u32)__builtin_ctz(m), FAULT_TCGEN05, m, w->initial, TC_DIVERGED);
  return 0;
}

u32 tcgen05_group(Warp *w, const Insn *i, u32 lane, u32 group) {
  TmemState *s = w->cta->tmem_state;
  u32 error = TC_OK;
  if (!s->group) s->group = (u8)group;
  if (s->group != group) {
    error = TC_TWO_GROUPS;
  } else if (group == 2) {
    const Cta *peer = tcgen05_peer(w->cta);
    error = !peer ? TC_NO_PEER : !peer->live_warps ? TC_PEER_GONE : TC_OK;
  }
  if (error) fault(w, i, lane, FAULT_TCGEN05, group, s->group, error);
  return error;
}

static int in_flight(Warp *w, const Insn *i, u32 m, u32 n, u32 access) {
  if (tcgen05_gather(w, i, m)) return STEP_BLOCK;
  if (!n) {
    OBSERVE(w->m, tensor_wait, w, access);
    return STEP_NEXT;
  }
  block_on(w, BLOCK_TCGEN05, 0, n);
  return STEP_BLOCK;
}

static int wait_ld(Warp *w, const Insn *i, u32 m) {
  return in_flight(w, i, m, w->tmem_loads, ACCESS_READ);
}

static int wait_st(Warp *w, const Insn *i, u32 m) {
  return in_flight(w, i, m, w->tmem_stores, ACCESS_WRITE);
}

/* The hardware holds back an instruction that touches a register which a load has not
 * written yet. ext = numbers of the loads (x[3] of their rows), imm = those of them that
 * come first of which a register is read here; inserted by lowering. */
static int scoreboard(Warp *w, const Insn *i, u32 m) {
  (void)m;
  OBSERVE(w->m, tensor_used, w, i);
  if (__builtin_expect(!w->tmem_loads, 1)) return STEP_NEXT;
  const Machine *mach = w->m;
  for (u32 k = 0; k < mach->n_queue; k++) {
    const Async *op = mach->queue[k];
    if (op->warp != w || op->kind != ASYNC_TMEM_LD) continue;
    for (s32 n = 0; n < i->n_ext; n++) {
      if (mach->ext[i->ext + n] != op->insn->x[3]) continue;
      block_on(w, BLOCK_TCGEN05, 0, w->tmem_loads);
      return STEP_BLOCK;
    }
  }
  return STEP_NEXT;
}

/* What this warp issued lands before what it issues from here on. For other threads,
 * what counts is who comes after (fence_after). */
static int fence_before(Warp *w, const Insn *i, u32 m) {
  OBSERVE(w->m, fence, w, i, m);
  w->tc_own = w->m->async_seq;
  return STEP_NEXT;
}

/* Everything issued by now lands before what this warp issues from here on: more than
 * the fence promises, which is only about what the thread has observed. */
static int fence_after(Warp *w, const Insn *i, u32 m) {
  OBSERVE(w->m, fence, w, i, m);
  w->tc_fence = w->m->async_seq;
  return STEP_NEXT;
}

const OpEntry ops_tcgen05_sync[] = {
    {"tcgen05.wait::ld", wait_ld},
    {"tcgen05.wait::st", wait_st},
    {"tcgen05.scoreboard", scoreboard},
    {"tcgen05.fence::before_thread_sync", fence_before},
    {"tcgen05.fence::after_thread_sync", fence_after},
    {0, 0},
};
