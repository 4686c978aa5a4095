/* The barrier of a cluster as a pure step function (PTX ISA, "barrier.cluster").
 *
 * It completes when all threads of the cluster that have not exited have arrived, and
 * is then ready for its next phase. An exit therefore can complete it as an arrival can.
 */
#ifndef SIDESTREAM_CLUSTER_BARRIER_H
#define SIDESTREAM_CLUSTER_BARRIER_H

#include "core.h"

enum ClusterBarrierOp {
  CLUSTER_ARRIVE = 0,  /* n threads arrive */
  CLUSTER_EXIT,        /* n threads exit that have not arrived in this phase */
  CLUSTER_EXIT_ARRIVED /* n threads exit that have */
};

typedef struct ClusterBarrierResult {
  ClusterBarrier state;
  u32 completed; /* this step ended a phase */
} ClusterBarrierResult;

static inline ClusterBarrierResult cluster_barrier_step(ClusterBarrier s, u32 op, u32 n) {
  if (op == CLUSTER_ARRIVE) s.arrived += n;
  else s.live -= n;
  if (op == CLUSTER_EXIT_ARRIVED) s.arrived -= n;
  ClusterBarrierResult r = {s, s.live && s.arrived == s.live};
  if (r.completed) {
    r.state.arrived = 0;
    r.state.phase++;
  }
  return r;
}

#endif
