/* The cost model: virtual clocks beside the execution, which they never change.
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

#include "core.h"

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
  const CostRow *rows; /* NULL: no cost model */
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

/* Call all of these only if m->cost is there. */
int cost_create(Machine *m, const CostTable *table);
void cost_destroy(Machine *m);
void cost_start_cta(Machine *m, const Cta *c);
void cost_finish_cta(Machine *m, const Cta *c);

/* --- the interpreter ------------------------------------------------------------ */
/* `w` runs; then, around each instruction: it begins, and it was executed. One whose
 * guard holds in no lane does not begin, but takes its slot: active = 0. */
void cost_run(Machine *m, const Warp *w);
void cost_begin(Machine *m, u32 pc);
void cost_executed(Machine *m, const Warp *w, u32 pc, u32 active);

/* --- operations in flight --------------------------------------------------------- */
/* Flops or bytes of the operation that is issued next, and how many units share it. */
void cost_work(Machine *m, u64 size, u32 units);
void cost_issued(Machine *m, Async *op);
/* Around op->land: what it signals, it signals at the operation's time. */
const CostPath *cost_land(Machine *m, const Async *op);
void cost_landed(Machine *m, Async *op, const CostPath *before);

/* --- who waits for whom ------------------------------------------------------------ */
/* The object at 8 * index of the CTA's shared memory: set up, arrived at, phase of that
 * parity over, seen to be over. */
void cost_mbarrier_init(Machine *m, const Cta *c, u32 index);
void cost_mbarrier_arrive(Machine *m, const Cta *c, u32 index);
void cost_mbarrier_phase(Machine *m, const Cta *c, u32 index, u32 parity);
void cost_mbarrier_pass(Machine *m, const Cta *c, u32 index, u32 parity, const Warp *w);

/* Named barrier `id` of a CTA; COST_CLUSTER_BARRIER of rank 0 is the cluster's. */
enum { COST_CLUSTER_BARRIER = 16, COST_BARRIERS };
void cost_barrier_arrive(Machine *m, const Cta *c, u32 id, const Warp *w);
void cost_barrier_release(Machine *m, const Cta *c, u32 id, u64 generation);
void cost_barrier_pass(Machine *m, const Cta *c, u32 id, u64 generation, const Warp *w);

/* The warp has seen groups below `end` complete: kind ASYNC_CP, ASYNC_BULK_STORE for
 * sources read, ASYNC_BULK_WRITE. */
void cost_groups_pass(Machine *m, const Warp *w, u32 kind, u32 end);

#endif
