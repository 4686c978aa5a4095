/* tcgen05.commit: an arrival on mbarriers once what this thread issued has landed.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: tcgen05.commit.
 */
#include "access.h"
#include "mbarrier.h"
#include "tcgen05_order.h"

typedef struct Commit {
  u32 addr; /* shared::cluster */
  u32 mask; /* bit per rank; 0: only `addr` itself */
} Commit;

static void land(Machine *m, Async *op) {
  const Commit *c = (const Commit *)op->arg;
  if (!c->mask) {
    mbarrier_arrive_async(m, op->insn, op->cta, c->addr, 1);
    return;
  }
  for (u32 left = c->mask; left; left &= left - 1) {
    u32 rank = (u32)__builtin_ctz(left);
    mbarrier_arrive_async(m, op->insn, op->cta, rank << 24 | (c->addr & 0xffffffu), 1);
  }
}

/* a = mbarrier (x[0] = space, imm = offset), b = mask of CTAs or NOREF, x[1] = group */
static int commit(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  u32 cluster = w->m->cluster_size;
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    if (tcgen05_group(w, i, l, (u32)i->x[1])) continue;
    Commit c = {shared_address(w, i, l, (u32)i->x[0] & 0xffu, addr[l], 8), 0};
    if (!c.addr) continue;
    if (i->b != NOREF) {
      u32 mask = R32(i->b)[l] & 0xffffu, allowed = (1u << cluster) - 1;
      if (mask & ~allowed)
        fault(w, i, l, FAULT_TCGEN05, mask, cluster, TC_CTA_MASK);
      c.mask = mask & allowed;
      if (!c.mask) continue;
    }
    TcOp what = {.kind = ASYNC_TC_COMMIT, .units = 1};
    if (tcgen05_issue(w, i, l, what, land, &c, sizeof c) == STEP_STOP)
      return STEP_STOP;
  }
  /* It implies a fence before_thread_sync of what it tracks. */
  w->tc_own = w->m->async_seq;
  return STEP_NEXT;
}

const OpEntry ops_tcgen05_commit[] = {{"tcgen05.commit", commit}, {0, 0}};
