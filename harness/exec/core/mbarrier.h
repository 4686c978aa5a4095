/* The mbarrier object as a pure state machine, and its use by other families.
 *
 * PTX ISA, "mbarrier" (Contents of the mbarrier object, Phase of the mbarrier object).
 * The opaque 64-bit word is laid out here, low bits first:
 *   pending 20 | expected 20 | tx-count 21 (two's complement) | phase 1 | tag 2
 * A phase ends when pending = 0 and tx-count = 0; then pending := expected.
 * A token, which an arrival returns, is laid out likewise, with the number of its phase
 * in the place of the expected arrivals.
 */
#ifndef SIDESTREAM_MBARRIER_H
#define SIDESTREAM_MBARRIER_H

#include "core.h"

#define MBAR_MAX ((1 << 20) - 1)

enum MbarOp {
  MBAR_INIT = 0,  /* count */
  MBAR_INVAL,
  MBAR_ARRIVE,    /* tx is expected first, then count arrive */
  MBAR_DROP,      /* the same, and later phases expect count fewer */
  MBAR_EXPECT_TX, /* tx */
  MBAR_COMPLETE_TX,
  MBAR_TEST_PARITY, /* count = parity */
  MBAR_TEST_STATE,  /* token */
  MBAR_PEND         /* one more arrival of this phase (cp.async.mbarrier.arrive) */
};
enum MbarFlag { MBAR_NO_COMPLETE = 1 };

/* Why an operation is undefined; the `info` of FAULT_MBARRIER. */
enum MbarError {
  MBAR_OK = 0,
  MBAR_UNINIT,       /* no mbarrier.init, or after mbarrier.inval */
  MBAR_CORRUPT,      /* something else was written over the object */
  MBAR_REINIT,       /* mbarrier.init of a live barrier */
  MBAR_BAD_COUNT,    /* count outside 1 .. 2^20-1 */
  MBAR_OVER_ARRIVAL, /* more arrivals than pending */
  MBAR_TX_RANGE,     /* tx-count outside -(2^20-1) .. 2^20-1 */
  MBAR_COMPLETED,    /* a .noComplete arrival would complete the phase */
  MBAR_BAD_PARITY,   /* parity other than 0 or 1 */
  MBAR_BAD_STATE,    /* a token that no arrival returned */
  MBAR_REMOTE,       /* another CTA's barrier where only the own one is allowed */
  MBAR_LEFTOVER,     /* its CTA is over, and its tx-count is negative */
  MBAR_DROPS_MORE,   /* arrive_drop of more than a phase expects */
  MBAR_STALE_STATE   /* a token of a phase before the one that ended last */
};

typedef struct MbarResult {
  u64 state;     /* the word afterwards; the old one if there was an error */
  u32 completed; /* this step ended a phase; for the tests: the phase waited for did */
  u32 error;     /* enum MbarError */
} MbarResult;

/* One atomic operation on the word. Pure. */
MbarResult mbarrier_step(u64 state, u32 op, u32 flags, u32 count, u32 tx, u64 token);
/* Pending count held by a word or token. */
static inline u32 mbarrier_pending(u64 word) { return (u32)(word & MBAR_MAX); }

/* Operations from outside a running warp (bulk copies, commits). `addr` is a
 * shared::cta or shared::cluster address as seen from `c`; faults are recorded. */
void mbarrier_complete_tx(Machine *m, const Insn *i, Cta *c, u32 addr, u32 bytes);
void mbarrier_arrive_async(Machine *m, const Insn *i, Cta *c, u32 addr, u32 count);
/* The warp is the last of its CTA to exit. */
void mbarrier_finish(const Warp *w);
/* Barriers of a CTA that have had some of the arrivals or bytes of their phase, not all. */
u32 mbarrier_unfinished(const Cta *c);
/* One more arrival expected of the current phase. */
void mbarrier_pend(const Warp *w, const Insn *i, u32 lane, u32 addr);

#endif
