/* Issue of tcgen05 operations that complete through an mbarrier: mma, cp, shift and the
 * commit that tracks them; and which may land before which.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Pipelined tcgen05 Instructions,
 * Implicitly pipelined tcgen05 Instructions, tcgen05.fence.
 */
#ifndef SIDESTREAM_TCGEN05_ORDER_H
#define SIDESTREAM_TCGEN05_ORDER_H

#include "tcgen05.h"

#define TC_CALL_BYTES 160 /* operands of an operation, kept in Async.arg */

/* What `ready` needs to know beside the operands. */
typedef struct TcIssue {
  u64 own;   /* earlier operations of the same warp numbered below it land first */
  u64 pair;  /* the same for all operations of the CTA pair */
  u32 form;  /* tells operations that a pipeline promises no order for apart */
  u32 small; /* tcgen05.cp.4x256b, which follows a shift */
} TcIssue;

static inline TcIssue *tcgen05_issued(const Async *op) {
  return (TcIssue *)((u8 *)op->arg + TC_CALL_BYTES);
}

/* What is issued: enum AsyncKind; form and small as in TcIssue, work and units as in
 * Async. */
typedef struct TcOp {
  u32 kind, form, small, units;
  u64 work;
} TcOp;

/* Let `lane` of `w` start an operation: at once where the schedule is round-robin, else
 * when `ready` and the scheduler let it land. Returns STEP_NEXT, or STEP_STOP. */
int tcgen05_issue(Warp *w, const Insn *i, u32 lane, TcOp what, LandFn land,
                  const void *call, u32 size);

/* Whether the pair of the issuing CTA is still there at the landing of an operation with
 * .cta_group `group`; records the fault if not. */
int tcgen05_pair_alive(Machine *m, const Async *op, u32 group);

#endif
