/* Who has done what at which mbarrier: kept for the report of a deadlock.
 *
 * An entry is one instruction of one warp at one barrier, arrivals and waits that were
 * passed alike. It tells the last phase in which that happened, so that those who came
 * in earlier phases and not in the one that is stuck can be named.
 */
#ifndef SIDESTREAM_LEDGER_H
#define SIDESTREAM_LEDGER_H

#include "core.h"

typedef struct LedgerEntry {
  u32 used;
  u32 at;     /* offset of the barrier in its CTA's shared memory */
  u32 pc;     /* LEDGER_PHASE: the entry tells of the barrier itself */
  u32 agent;  /* rank of the CTA in the cluster << 16 | warp */
  u32 op;     /* enum MbarOp */
  u32 last;   /* phase, counted from 0; of a wait: phases known to be over */
  u32 phases; /* in how many it came */
  u32 pad;
  u64 amount, before; /* arrivals or bytes of its last phase, and of the one before */
} LedgerEntry;
#define LEDGER_PHASE 0xffffffffu

typedef struct Ledger {
  LedgerEntry *entries; /* open addressing; a power of two of them */
  u32 capacity, n;
} Ledger;

/* What Python reads (exec/abi.py). */
typedef struct LedgerLine {
  u32 cta[3]; /* of the barrier */
  u32 by[3];  /* the CTA of the warp */
  u32 at, pc, warp, op;
  u32 last, phases, phase, pad; /* `phase`: the one that the barrier is in */
  u64 amount, before;
} LedgerLine;

void ledger_clear(Ledger *g);
void ledger_free(Ledger *g);
/* An operation that succeeded; `completed`: it ended the phase. */
void ledger_note(Cta *owner, u32 at, u32 pc, const Cta *by, u32 warp, u32 op, u64 amount,
                 u32 completed);
/* Phases of the barrier that are over since its initialisation. */
u32 ledger_phase(const Cta *owner, u32 at);

#endif
