/* Named barriers of a CTA as a pure state machine (PTX ISA, bar, barrier). */
#ifndef SIDESTREAM_NAMED_BARRIER_H
#define SIDESTREAM_NAMED_BARRIER_H

#include "core.h"

enum BarrierUse { BARRIER_SYNC = 0, BARRIER_ARRIVE, BARRIER_RED };
enum { BARRIER_KIND_RED = 1, BARRIER_KIND_PLAIN = 2 };

/* Why an operation is undefined; the `info` of FAULT_NAMED_BARRIER. */
enum BarrierError {
  BARRIER_OK = 0,
  BARRIER_BAD_ID,       /* not 0 .. 15 */
  BARRIER_BAD_COUNT,    /* not a positive multiple of 32 within the CTA */
  BARRIER_MIXED_COUNT,  /* another participant gave a different count */
  BARRIER_MIXED_RED,    /* barrier.red together with sync or arrive */
  BARRIER_NOT_UNIFORM,  /* the lanes of an aligned barrier differ in an operand */
  BARRIER_NOT_CONVERGED /* an aligned barrier under a predicate that splits the warp */
};

typedef struct BarrierCommand {
  u32 use;     /* enum BarrierUse */
  u32 threads; /* that take part; of the whole CTA if open */
  u32 open;    /* no count was given */
  u32 trues, falses; /* of the arriving warp's predicates */
} BarrierCommand;

typedef struct BarrierResult {
  Barrier state;
  u32 completed;
  u32 error; /* recorded, the arrival counts nevertheless unless the count is bad */
  u32 red;   /* of a completed barrier.red: popc | all << 16 | any << 17 */
} BarrierResult;

/* One warp arrives; `live` is the number of threads of warps that have not exited. */
BarrierResult barrier_step(Barrier b, BarrierCommand c, u32 live);
/* Nobody arrives, but warps may have exited. */
BarrierResult barrier_settle(Barrier b, u32 live);

#endif
