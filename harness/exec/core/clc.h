/* Cluster launch control as a pure step function (PTX ISA,
 * "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel").
 *
 * Clusters of a grid start, or are cancelled, in the order of their numbers, and each
 * of them exactly once. A request may be refused although clusters are left, as a
 * device does that wants its processors back; the requesting cluster then gets no more.
 */
#ifndef SIDESTREAM_CLC_H
#define SIDESTREAM_CLC_H

#include "core.h"

enum ClcOp {
  CLC_LAUNCH = 0, /* value: 1 + the cluster to start, 0 if none is left */
  CLC_ISSUE,      /* a CTA requests a cancellation */
  CLC_DECIDE,     /* the request is decided, arg = 1: refused; value as for a launch */
  CLC_OBSERVE     /* a CTA looks at a response, arg = 1 if it grants a cluster */
};

/* Misuse; the info of FAULT_CLC. */
enum ClcError {
  CLC_OK = 0,
  CLC_AFTER_FAILURE, /* a request by a CTA that has seen one fail */
  CLC_NO_ID,         /* get_first_ctaid of a response that grants nothing */
  CLC_NO_RESPONSE,   /* a query of something that is no response */
  CLC_FOREIGN,       /* address outside the CTA's own shared memory */
  CLC_ALIGNMENT,     /* response not on 16 bytes, or mbarrier not on 8 */
  CLC_EXITED         /* a CTA that gets the response has exited */
};

typedef struct ClcState {
  u32 next, end; /* clusters of the grid: the next to start or cancel, how many */
  u32 closed;    /* of the requesting cluster: a request of it was not granted */
  u32 failed;    /* of a CTA: it has seen a response that grants nothing */
} ClcState;

typedef struct ClcResult {
  ClcState state;
  u32 value, error; /* error: enum ClcError */
} ClcResult;

static inline ClcResult clc_step(ClcState s, u32 op, u32 arg) {
  ClcResult r = {s, 0, CLC_OK};
  int left = s.next < s.end;
  switch (op) {
    case CLC_ISSUE:
      if (s.failed) r.error = CLC_AFTER_FAILURE;
      break;
    case CLC_OBSERVE:
      if (!arg) r.state.failed = 1;
      break;
    case CLC_DECIDE:
      if (!left || arg || s.closed) {
        r.state.closed = 1;
        break;
      } /* fall through: granted, which takes a cluster as a launch does */
    default:
      if (left) r.value = 1 + r.state.next++;
  }
  return r;
}

#endif
