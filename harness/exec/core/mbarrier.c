/* mbarrier: the state machine and its instructions (PTX ISA, mbarrier.*). */
#include "mbarrier.h"

#include "access.h"
#include "cluster.h"
#include "ledger.h"
#include "observer.h"

enum { AT_EXPECTED = 20, AT_TX = 40, AT_PHASE = 61, AT_TAG = 62, TX_BITS = 21 };
#define TAG 2ull

static inline u32 expected_of(u64 s) { return (u32)(s >> AT_EXPECTED) & MBAR_MAX; }
static inline u32 phase_of(u64 s) { return (u32)(s >> AT_PHASE) & 1u; }
static inline s64 tx_of(u64 s) {
  return (s64)(s << (64 - AT_TX - TX_BITS)) >> (64 - TX_BITS);
}
static inline u64 word(u32 pending, u32 expected, s64 tx, u32 phase) {
  return pending | (u64)expected << AT_EXPECTED |
         ((u64)tx & ((1u << TX_BITS) - 1)) << AT_TX | (u64)phase << AT_PHASE |
         TAG << AT_TAG;
}
static inline int valid(u64 s) {
  return s >> AT_TAG == TAG && mbarrier_pending(s) <= MBAR_MAX &&
         tx_of(s) >= -(s64)MBAR_MAX;
}

static MbarResult failed(u64 state, u32 error) { return (MbarResult){state, 0, error}; }

MbarResult mbarrier_step(u64 state, u32 op, u32 flags, u32 count, u32 tx, u64 token) {
  if (op == MBAR_INIT) {
    if (count < 1 || count > MBAR_MAX) return failed(state, MBAR_BAD_COUNT);
    return (MbarResult){word(count, count, 0, 0), 0, MBAR_OK};
  }
  if (!valid(state)) return failed(state, MBAR_CORRUPT);
  u32 pending = mbarrier_pending(state), expected = expected_of(state);
  u32 phase = phase_of(state);
  s64 left = tx_of(state);
  switch (op) {
    case MBAR_INVAL:
      return (MbarResult){0, 0, MBAR_OK};
    case MBAR_TEST_PARITY:
      if (count > 1) return failed(state, MBAR_BAD_PARITY);
      return (MbarResult){state, count != phase, MBAR_OK};
    case MBAR_TEST_STATE:
      if (!valid(token)) return failed(state, MBAR_BAD_STATE);
      return (MbarResult){state, phase_of(token) != phase, MBAR_OK};
    case MBAR_PEND:
      if (pending == MBAR_MAX) return failed(state, MBAR_BAD_COUNT);
      return (MbarResult){word(pending + 1, expected, left, phase), 0, MBAR_OK};
    case MBAR_COMPLETE_TX:
      left -= (s64)tx;
      break;
    default: /* expect-tx comes before the arrival, in one step */
      left += (s64)tx;
  }
  if (left < -(s64)MBAR_MAX || left > MBAR_MAX) return failed(state, MBAR_TX_RANGE);
  if (op == MBAR_ARRIVE || op == MBAR_DROP) {
    if (count < 1 || count > MBAR_MAX) return failed(state, MBAR_BAD_COUNT);
    if (count > pending) return failed(state, MBAR_OVER_ARRIVAL);
    pending -= count;
    if (op == MBAR_DROP) {
      if (count > expected) return failed(state, MBAR_DROPS_MORE);
      expected -= count;
    }
  }
  int complete = pending == 0 && left == 0;
  if (complete && (flags & MBAR_NO_COMPLETE)) return failed(state, MBAR_COMPLETED);
  if (complete) {
    pending = expected;
    phase ^= 1u;
  }
  return (MbarResult){word(pending, expected, left, phase), (u32)complete, MBAR_OK};
}

/* --- objects in shared memory -------------------------------------------------- */
typedef struct Object {
  u8 *at;   /* NULL: no such address */
  u8 *live; /* its byte in mbar_live */
  Cta *cta;
} Object;

static Object object_at(Cta *c, u32 addr) {
  u8 *at = addr & 7 ? NULL : smem_ptr(c, addr, 8);
  if (!at) return (Object){NULL, NULL, NULL};
  Cta *owner = smem_cta(c, addr);
  return (Object){at, owner->mbar_live + (u64)(at - owner->smem) / 8, owner};
}

/* Apply one operation; *old is the word before. The caller records the error. */
static MbarResult apply(Machine *m, Object o, u32 op, u32 flags, u32 count, u32 tx,
                        u64 token, u64 *old) {
  u64 state;
  memcpy(&state, o.at, 8);
  *old = state;
  if (op == MBAR_INIT && *o.live) return failed(state, MBAR_REINIT);
  if (op != MBAR_INIT && !*o.live) return failed(state, MBAR_UNINIT);
  MbarResult r = mbarrier_step(state, op, flags, count, tx, token);
  if (r.error) return r;
  if (op == MBAR_INIT) *o.live = 1;
  if (op == MBAR_INVAL) *o.live = 0;
  if (r.state != state) {
    memcpy(o.at, &r.state, 8);
    m->progress++;
  }
  return r;
}

/* PTX ISA, mbarrier.test_wait / mbarrier.try_wait: the state is of the current phase or of
 * the one before it. */
static u32 phases_behind(Object o, u64 token) {
  return (ledger_phase(o.cta, (u32)(o.at - o.cta->smem)) - expected_of(token)) & MBAR_MAX;
}

/* What an arrival in the phase of the word `old` returns; before it is noted. */
static u64 token_of(Object o, u64 old) {
  u32 number = ledger_phase(o.cta, (u32)(o.at - o.cta->smem)) & MBAR_MAX;
  return word(mbarrier_pending(old), number, 0, phase_of(old));
}

static void note(Object o, const Insn *i, const Machine *m, const Cta *by, u32 warp,
                 u32 op, u64 amount, MbarResult r) {
  ledger_note(o.cta, (u32)(o.at - o.cta->smem), pc_of(m, i), by, warp, op, amount,
              r.completed);
}

/* By the operation that lands, or a lane of `w` where none does. */
static void from_outside(Machine *m, const Insn *i, Cta *c, u32 addr, u32 op, u32 count,
                         u32 tx, const Warp *w, u32 lane) {
  const Async *by = m->landing;
  u32 warp = by ? by->warp->id : w ? w->id : 0;
  if (by) lane = by->lane;
  Object o = object_at(c, addr);
  if (smem_gone(c, addr)) {
    fault_at(m, i, c, warp, lane, FAULT_CLUSTER, addr, 8, CLUSTER_EXITED);
    return;
  }
  if (!o.at) {
    fault_at(m, i, c, warp, lane, addr & 7 ? FAULT_SMEM_MISALIGNED : FAULT_SMEM_OOB, addr, 8,
             m->smem_size);
    return;
  }
  u64 old;
  if (m->landing) OBSERVE(m, mbarrier_engine, m->landing, addr, op);
  MbarResult r = apply(m, o, op, 0, count, tx, 0, &old);
  if (r.completed) OBSERVE(m, mbarrier_phase, c, addr);
  if (!r.error)
    note(o, i, m, by ? by->cta : c, warp, op, op == MBAR_COMPLETE_TX ? tx : count, r);
  if (r.error) fault_at(m, i, c, warp, lane, FAULT_MBARRIER, addr, 8, r.error);
}

void mbarrier_complete_tx(Machine *m, const Insn *i, Cta *c, u32 addr, u32 bytes) {
  from_outside(m, i, c, addr, MBAR_COMPLETE_TX, 0, bytes, NULL, 0);
}

void mbarrier_arrive_async(Machine *m, const Insn *i, Cta *c, u32 addr, u32 count) {
  from_outside(m, i, c, addr, MBAR_ARRIVE, count, 0, NULL, 0);
}

void mbarrier_pend(const Warp *w, const Insn *i, u32 lane, u32 addr) {
  from_outside(w->m, i, w->cta, addr, MBAR_PEND, 0, 0, w, lane);
}

u32 mbarrier_unfinished(const Cta *c) {
  u32 n = 0;
  for (u32 k = 0; k < c->m->smem_size / 8; k++) {
    if (!c->mbar_live[k]) continue;
    u64 state;
    memcpy(&state, c->smem + 8ull * k, 8);
    n += mbarrier_pending(state) != expected_of(state) || tx_of(state);
  }
  return n;
}

/* --- instructions ----------------------------------------------------------------
 * a = address, imm = offset, b = count or parity, c = tx or token (NOREF: none),
 * d = state (64-bit row) or predicate, x[0] = space | ADDR64, x[1] = operation,
 * x[2] = flags, x[3] = 1 if the barrier must be the CTA's own. Lanes in order. */
static Object object_of(Warp *w, const Insn *i, u32 l, u64 addr, u32 *at) {
  u32 a = shared_address(w, i, l, (u32)i->x[0] & 0xff, addr, 8);
  *at = a;
  Object o = {NULL, NULL, NULL};
  if (!a) return o;
  o = object_at(w->cta, a);
  if (!o.at) {
    fault(w, i, l, a & 7 ? FAULT_SMEM_MISALIGNED : FAULT_SMEM_OOB, a, 8,
          w->m->smem_size);
  } else if (i->x[3] && smem_cta(w->cta, a) != w->cta) {
    fault(w, i, l, FAULT_MBARRIER, a, 8, MBAR_REMOTE);
    o.at = NULL;
  } else if (smem_gone(w->cta, a)) {
    fault(w, i, l, FAULT_CLUSTER, a, 8, CLUSTER_EXITED);
    o.at = NULL;
  }
  return o;
}

/* Bytes that came and were never expected. The tail of a pipeline of CUTLASS expects
 * bytes for a stage that it will not fill, which is no defect while nobody waits. */
void mbarrier_finish(const Warp *w) {
  Cta *c = w->cta;
  u32 n = w->m->smem_size / 8;
  for (const u8 *at = c->mbar_live; (at = memchr(at, 1, n - (u32)(at - c->mbar_live)));
       at++) {
    u64 state, offset = 8ull * (u64)(at - c->mbar_live);
    memcpy(&state, c->smem + offset, 8);
    if (valid(state) && tx_of(state) < 0)
      fault_at(w->m, &w->m->code[w->pc], c, w->id, NO_LANE, FAULT_MBARRIER,
               (u64)c->rank << 24 | (SMEM_BASE + offset), 8, MBAR_LEFTOVER);
  }
}

/* Lanes at one barrier are told together. */
static void tell(const Warp *w, const Insn *i, u32 m, const u64 *addr) {
  for (u32 left = m, group = 0; left; left &= ~group) {
    u32 l = (u32)__builtin_ctz(left);
    group = 0;
    for (u32 k = 0; k < LANES; k++) group |= (u32)(addr[k] == addr[l]) << k;
    group &= left;
    OBSERVE(w->m, mbarrier, w, i, group, (u32)addr[l], (u32)i->x[1]);
  }
}

static int update(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  u32 op = (u32)i->x[1];
  const u32 *count = i->b == NOREF ? NULL : R32(i->b);
  const u32 *tx = i->c == NOREF ? NULL : R32(i->c);
  if (w->m->observer) tell(w, i, m, addr);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left), at;
    u64 old = 0;
    Object o = object_of(w, i, l, addr[l], &at);
    if (o.at) {
      MbarResult r = apply(w->m, o, op, (u32)i->x[2], count ? count[l] : 1,
                           tx ? tx[l] : 0, 0, &old);
      if (i->d != NOREF && !r.error) old = token_of(o, old);
      if (r.completed) OBSERVE(w->m, mbarrier_phase, w->cta, at);
      if (!r.error) {
        u64 amount = op == MBAR_EXPECT_TX ? (tx ? tx[l] : 0) : count ? count[l] : 1;
        note(o, i, w->m, w->cta, w->id, op, amount, r);
      }
      if (r.error) fault(w, i, l, FAULT_MBARRIER, at, 8, r.error);
    }
    if (i->d != NOREF) R64(i->d)[l] = old;
  }
  return STEP_NEXT;
}

/* Lanes that ask the same as lane `lead`: one answer serves them all. */
static u32 same_question(const Warp *w, const Insn *i, const u64 *addr, u32 lead) {
  u32 same = 0;
  if (i->x[1] == MBAR_TEST_STATE) {
    const u64 *token = R64(i->c);
    for (u32 l = 0; l < LANES; l++)
      same |= (u32)(addr[l] == addr[lead] && token[l] == token[lead]) << l;
  } else {
    const u32 *parity = R32(i->b);
    for (u32 l = 0; l < LANES; l++)
      same |= (u32)((addr[l] == addr[lead]) & (parity[l] == parity[lead])) << l;
  }
  return same;
}

/* Lanes of m whose phase is over; a faulty wait counts as over. */
static u32 tested(Warp *w, const Insn *i, u32 m, u32 *at, u32 *want) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  u32 over = 0, group;
  for (u32 left = m; left; left &= ~group) {
    u32 l = (u32)__builtin_ctz(left);
    group = same_question(w, i, addr, l) & left;
    u32 parity = i->x[1] == MBAR_TEST_PARITY ? R32(i->b)[l] : 0;
    u64 token = i->x[1] == MBAR_TEST_STATE ? R64(i->c)[l] : 0, old;
    u32 address;
    Object o = object_of(w, i, l, addr[l], &address);
    if (!o.at) {
      over |= group;
      continue;
    }
    MbarResult r = apply(w->m, o, (u32)i->x[1], 0, parity, 0, token, &old);
    if (!r.error && i->x[1] == MBAR_TEST_STATE && phases_behind(o, token) > 1)
      r = failed(r.state, MBAR_STALE_STATE);
    if (r.error) fault(w, i, l, FAULT_MBARRIER, address, 8, r.error);
    if (r.completed) {
      OBSERVE(w->m, mbarrier, w, i, group, address, (u32)i->x[1]);
      note(o, i, w->m, w->cta, w->id, (u32)i->x[1], 0, r);
    }
    if (r.error || r.completed) {
      over |= group;
    } else {
      *at = address;
      *want = i->x[1] == MBAR_TEST_STATE ? phase_of(token) : parity;
    }
  }
  return over;
}

/* d = predicate. A false answer lets others run: who polls must not starve them. */
static int test_wait(Warp *w, const Insn *i, u32 m) {
  u32 at = 0, want = 0, over = tested(w, i, m, &at, &want);
  set_pred(w, i->d, over, m);
  return over == m ? STEP_NEXT : STEP_YIELD;
}

/* try_wait suspends while no lane's phase is over. The time limit passes only when
 * nothing else can happen (machine->timeout_epoch): it then answers false. */
static int try_wait(Warp *w, const Insn *i, u32 m) {
  u32 at = 0, want = 0, over = tested(w, i, m, &at, &want);
  u32 first = (u32)__builtin_ctz(m), mark = 0x80000000u | pc_of(w->m, i);
  if (!over) {
    int late = 0;
    for (u32 l = first; l < LANES; l++) {
      if (!lane_on(m, (int)l)) continue;
      if (w->wait_active[l] != mark) {
        w->wait_active[l] = mark;
        w->wait_gen[l] = w->m->timeout_epoch;
      } else if (w->wait_gen[l] != w->m->timeout_epoch) {
        late = 1;
      }
    }
    if (!late) {
      block_on(w, BLOCK_MBARRIER, at, want);
      return STEP_BLOCK;
    }
  }
  for (u32 l = 0; l < LANES; l++)
    w->wait_active[l] = lane_on(m, (int)l) ? 0 : w->wait_active[l];
  set_pred(w, i->d, over, m);
  return STEP_NEXT;
}

static int pending_count(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  u32 *d = R32(i->d);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (!valid(a[l])) fault(w, i, l, FAULT_MBARRIER, a[l], 8, MBAR_BAD_STATE);
    d[l] = mbarrier_pending(a[l]);
  }
  return STEP_NEXT;
}

const OpEntry ops_mbarrier[] = {
    {"mbarrier.update", update},
    {"mbarrier.test_wait", test_wait},
    {"mbarrier.try_wait", try_wait},
    {"mbarrier.pending_count", pending_count},
    {0, 0},
};
