/* The cost model, an observer: virtual clocks beside the execution.
 *
 * Every warp has a clock that its instructions advance by the costs that Python gives
 * per bytecode row. An operation in flight ends at the later of its issue and the end of
 * the same warp's operation before it in the same unit, plus what its size costs there.
 * Whoever waits goes on at the later of its own time and the time of what it waited for.
 * The clock at the end of a CTA is the longest dependency chain through it, and beside
 * it every clock carries what that chain consists of. Times depend on program order and
 * on who waits for whom, not on the order in which the scheduler happens to run warps.
 */
#ifndef SIDESTREAM_COST_H
#define SIDESTREAM_COST_H

#include "observer.h"

/* What a chain consists of: issue slots of warp 0 .. 31, then units. The order is
 * mirrored in exec/cost.py. */
enum CostPart {
  COST_TENSOR = MAX_WARPS, /* tcgen05.mma, cp, shift, and their commits */
  COST_WARP_MMA,           /* mma.sync */
  COST_TMEM,               /* tcgen05.ld and st */
  COST_LOAD,               /* bulk copies to shared memory */
  COST_STORE,              /* bulk copies to global memory */
  COST_COPY,               /* cp.async */
  COST_REMOTE,             /* st.async, red.async, cluster launch control */
  COST_PARTS
};

/* A point in time: units since the start of the CTA, and of what they are made. */
typedef struct CostPath {
  u64 at;
  u64 by; /* enum CostPart of who did the last step */
  u64 part[COST_PARTS];
} CostPath;

/* Costs of one bytecode row. */
typedef struct CostRow {
  u32 issue; /* units of the warp itself */
  u32 extra; /* units spent in `part` by the same warp */
  u32 part;
  u32 pad;
} CostRow;

/* Costs of operations in flight, by part: units = ceil(size / rate) + latency. */
typedef struct CostUnit {
  u32 rate; /* flops or bytes a unit of time */
  u32 latency;
} CostUnit;

typedef struct CostTable {
  const CostRow *rows;
  CostUnit unit[COST_PARTS - MAX_WARPS];
} CostTable;

enum CostWait {
  COST_WAIT_MBARRIER = 0,
  COST_WAIT_BARRIER, /* bar.sync, barrier.red */
  COST_WAIT_GROUP,   /* cp.async and bulk groups */
  COST_WAIT_CLUSTER,
  COST_WAITS
};

/* What one warp number (of all CTAs) waited for. */
typedef struct CostWaits {
  u64 waits[COST_WAITS];   /* passed */
  u64 late[COST_WAITS];    /* of these, those whose event came after the warp did */
  u64 units[COST_WAITS];   /* how much later, in sum */
  u64 cause[COST_PARTS];   /* the same units by who did the last step */
} CostWaits;

typedef struct CostTotals {
  u64 ctas;
  CostPath sum;     /* of the chains of all CTAs */
  CostPath longest; /* the longest of them */
} CostTotals;

typedef struct Cost Cost;

/* A cost model of one machine: its slots for CTAs, warps and bytes of shared memory of a
 * CTA, and bytecode rows. NULL when out of memory or when the table is not well-formed. */
Cost *cost_new(u32 slots, u32 warps, u32 smem, u32 n_code, const CostTable *table);
void cost_free(Cost *c);
/* By which it watches the machine. */
const Observer *cost_observer(const Cost *c);

#endif
