/* clusterlaunchcontrol: requests to cancel a cluster that has not started, and what
 * their responses say.
 *
 * The ISA calls a response opaque. cuDNN frontend reads its words all the same
 * (frost/tile_dsl/scheduler.py), so they lie where it looks for them: x of the first
 * CTA of the cancelled cluster; y in the low half, z in the high one; the grant in bit
 * 0, beside RESPONSE; and a word that nobody reads.
 */
#include "clc.h"

#include "access.h"
#include "dependent.h"
#include "mbarrier.h"
#include "observer.h"
#include "schedule.h"

#define RESPONSE 0xc1c05e5eu
enum { RESPONSE_BYTES = 16, REFUSE_ONE_IN = 8 };
enum { A_ADDR = 0, A_MBAR, A_ALL };

static ClcState state_of(const Cta *c) {
  const Machine *m = c->m;
  return (ClcState){m->next_cta / m->cluster_size, m->n_ctas / m->cluster_size,
                    m->ctas[c->first_slot].clc_closed, c->clc_failed};
}

/* Write the response to the CTA of rank `rank` and signal its mbarrier. */
static void respond(Machine *m, const Async *op, u32 rank, const u32 *words) {
  u32 to = rank << 24, addr = (u32)op->arg[A_ADDR] & 0xffffffu;
  u32 mbar = (u32)op->arg[A_MBAR] & 0xffffffu;
  const Cta *target = smem_cta(op->cta, to);
  if (!target || !target->live_warps) {
    fault_at(m, op->insn, op->cta, op->warp->id, op->lane, FAULT_CLC, to | addr,
             RESPONSE_BYTES, CLC_EXITED);
    return;
  }
  u8 *p = smem_ptr(op->cta, to | addr, RESPONSE_BYTES); /* checked when issued */
  OBSERVE(m, engine, op, SPACE_CLUSTER, to | addr, RESPONSE_BYTES, ACCESS_WRITE);
  if (p) memcpy(p, words, RESPONSE_BYTES);
  mbarrier_complete_tx(m, op->insn, op->cta, to | mbar, RESPONSE_BYTES);
}

static void land(Machine *m, Async *op) {
  int refused = m->seed && decide(m, 0, next_random(m) % REFUSE_ONE_IN == 0);
  ClcResult r = clc_step(state_of(op->cta), CLC_DECIDE, (u32)refused);
  m->ctas[op->cta->first_slot].clc_closed = r.state.closed;
  m->next_cta = r.state.next * m->cluster_size;
  u32 words[4] = {0, 0, RESPONSE & ~1u, 0};
  if (r.value) {
    m->dependency = grid_step(m->dependency, GRID_CANCEL, m->cluster_size).state;
    u32 id[3];
    cta_coordinates(m, r.value - 1, 0, id);
    words[0] = id[0];
    words[1] = id[1] | id[2] << 16;
    words[2] |= 1u;
  }
  if (!op->arg[A_ALL]) respond(m, op, op->cta->rank, words);
  for (u32 k = 0; op->arg[A_ALL] && k < m->cluster_size; k++) respond(m, op, k, words);
}

/* The CTA's own shared memory at `addr`: 0, or enum ClcError. */
static u32 wrong_place(const Warp *w, u32 addr, u32 size) {
  if (addr & (size - 1)) return CLC_ALIGNMENT;
  if (smem_cta(w->cta, addr) != w->cta) return CLC_FOREIGN;
  return smem_ptr(w->cta, addr, size) ? CLC_OK : CLC_FOREIGN;
}

/* a = address of the response, imm = offset, b = mbarrier (row as wide as a),
 * x[0] = space | ADDR64, x[1] = offset of the mbarrier, x[2] = 1 for all CTAs */
static int try_cancel(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES];
  u32 space = (u32)i->x[0] & 0xff;
  lane_addresses(w, i, i->a, addr);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u64 bar = i->x[0] & ADDR64 ? R64(i->b)[l] + (u64)(s64)i->x[1]
                               : (u32)(R32(i->b)[l] + (u32)i->x[1]);
    u32 at = shared_address(w, i, l, space, addr[l], RESPONSE_BYTES);
    u32 mbar = shared_address(w, i, l, space, bar, 8);
    if (!at || !mbar) continue;
    u32 error = clc_step(state_of(w->cta), CLC_ISSUE, 0).error;
    if (!error) error = wrong_place(w, at, RESPONSE_BYTES);
    if (!error) error = wrong_place(w, mbar, 8);
    if (error) {
      fault(w, i, l, FAULT_CLC, at, RESPONSE_BYTES, error);
      continue;
    }
    Async *op = async_new(w, i, ASYNC_CLC, land);
    if (!op) return STEP_STOP;
    op->lane = l;
    op->mask = 1u << l;
    op->arg[A_ADDR] = at;
    op->arg[A_MBAR] = mbar;
    op->arg[A_ALL] = (u64)i->x[2];
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

/* The word of a lane's response that holds the grant; none if it is no response. */
static u32 head_of(Warp *w, const Insn *i, u32 l) {
  u32 head = (u32)R64(i->a)[LANES + l];
  if ((head & ~1u) == (RESPONSE & ~1u)) return head;
  fault(w, i, l, FAULT_CLC, 0, RESPONSE_BYTES, CLC_NO_RESPONSE);
  return RESPONSE & ~1u;
}

/* d = predicate, a = response (128-bit row) */
static int is_canceled(Warp *w, const Insn *i, u32 m) {
  u32 granted = 0;
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left), yes = head_of(w, i, l) & 1u;
    granted |= yes << l;
    ClcResult r = clc_step(state_of(w->cta), CLC_OBSERVE, yes);
    w->cta->clc_failed = r.state.failed;
  }
  set_pred(w, i->d, granted, m);
  return STEP_NEXT;
}

/* a = response, x[0] = 1 if the program drops what a failed response gives,
 * ext = rows of x, y, z, any of them NOREF */
static int first_ctaid(Warp *w, const Insn *i, u32 m) {
  const s32 *ref = w->m->ext + i->ext;
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u32 granted = head_of(w, i, l) & 1u;
    u64 low = R64(i->a)[l];
    u32 id[3] = {(u32)low, (u32)(low >> 32) & 0xffffu, (u32)(low >> 48)};
    if (!granted && !i->x[0]) fault(w, i, l, FAULT_CLC, 0, RESPONSE_BYTES, CLC_NO_ID);
    for (s32 k = 0; k < 3 && k < i->n_ext; k++) /* a failed one names no CTA of a grid */
      if (ref[k] != NOREF) R32(ref[k])[l] = granted ? id[k] : ~(u32)w->m->seed;
  }
  return STEP_NEXT;
}

/* For the property tests: steps `state` (next, end, closed, failed) in place; the
 * value in the low half, the error in the high one. */
u64 ss_clc_step(u32 *state, u32 op, u32 arg) {
  ClcState s = {state[0], state[1], state[2], state[3]};
  ClcResult r = clc_step(s, op, arg);
  memcpy(state, &r.state, sizeof r.state);
  return (u64)r.error << 32 | r.value;
}

const OpEntry ops_clc[] = {{"clc.try_cancel", try_cancel},
                           {"clc.is_canceled", is_canceled},
                           {"clc.first_ctaid", first_ctaid},
                           {0, 0}};
