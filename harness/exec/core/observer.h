/* Who watches a launch: functions that are told of accesses and of synchronisation.
 *
 * Execution knows no more of it than this table, and it changes no byte of the launch.
 * Several may watch one launch; a function that an observer lacks is NULL.
 * Shared addresses are shared::cluster addresses (rank << 24 | offset) of the cluster
 * of the CTA given. A call comes before its effect unless said otherwise.
 */
#ifndef SIDESTREAM_OBSERVER_H
#define SIDESTREAM_OBSERVER_H

#include "core.h"

struct Observer {
  void *state;
  /* An instruction of a warp begins; it was executed by lanes m. One whose guard holds
   * in no lane does not begin, but is executed by none. */
  void (*begin)(void *state, const Warp *w, const Insn *i);
  void (*executed)(void *state, const Warp *w, const Insn *i, u32 m);
  /* A CTA has taken its slot, or is over and all that it issued has landed; lanes of a
   * warp exit. */
  void (*cta)(void *state, const Cta *c);
  void (*over)(void *state, const Cta *c);
  void (*exit)(void *state, const Warp *w, u32 lanes);
  /* Lanes access `size` bytes each, at addr[lane] of `space` (enum Space). */
  void (*lanes)(void *state, const Warp *w, const Insn *i, u32 m, u32 space,
                const u64 *addr, u32 size, u32 access);
  /* An operation is issued by op->mask of op->warp, or by the operation `parent` that
   * lands; it accesses `size` bytes; it has landed and is about to go. */
  void (*issue)(void *state, Async *op, const Async *parent);
  void (*engine)(void *state, const Async *op, u32 space, u64 addr, u64 size, u32 access);
  /* It reads the 16 bytes at each of n shared addresses of one CTA, at most
   * 2 * TC_ROWS (tcgen05_operand.h). */
  void (*engine_chunks)(void *state, const Async *op, const u32 *addr, u32 n);
  void (*engine_tensor)(void *state, const Async *op, const Cta *c, u32 lane, u32 lanes,
                        u32 column, u32 columns, u32 access);
  /* A warp's own loads and stores of tensor memory, at issue; `second`: the other place
   * of the instruction told of last. Its waits for them. */
  void (*tensor)(void *state, const Warp *w, const Insn *i, u32 lane, u32 lanes,
                 u32 column, u32 columns, u32 access, u32 second);
  void (*tensor_wait)(void *state, const Warp *w, u32 access);
  /* Registers of loads are used: the first i->imm of the numbers in i->ext. */
  void (*tensor_used)(void *state, const Warp *w, const Insn *i);
  /* A warp has allocated columns, or gives them back. */
  void (*tensor_own)(void *state, const Warp *w, const Insn *i, u32 column, u32 columns,
                     u32 taken);
  void (*landed)(void *state, const Async *op);
  /* Lanes wait no longer for groups of theirs numbered below end[lane]; `reads`: for
   * the reading of the sources alone. */
  void (*groups)(void *state, const Warp *w, const Insn *i, u32 m, u32 kind,
                 const u32 *end, u32 reads);
  /* An mbarrier operation (enum MbarOp) by lanes, or by an operation; a phase ended. */
  void (*mbarrier)(void *state, const Warp *w, const Insn *i, u32 m, u32 addr, u32 op);
  void (*mbarrier_engine)(void *state, const Async *op, u32 addr, u32 what);
  void (*mbarrier_phase)(void *state, const Cta *c, u32 addr);
  /* A warp has arrived at a named barrier, the barrier is complete, lanes leave it. */
  void (*barrier_arrive)(void *state, const Warp *w, u32 lanes, u32 barrier);
  void (*barrier_complete)(void *state, const Cta *c, u32 barrier);
  void (*barrier_leave)(void *state, const Warp *w, u32 lanes, u32 barrier);
  /* The same of barrier.cluster. */
  void (*cluster_arrive)(void *state, const Warp *w, const Insn *i, u32 m);
  void (*cluster_complete)(void *state, const Cta *c);
  void (*cluster_wait)(void *state, const Warp *w, const Insn *i, u32 m);
  /* bar.warp.sync of lanes; any fence. */
  void (*converge)(void *state, const Warp *w, const Insn *i, u32 lanes);
  /* elect, shfl, vote or match .sync: lanes meet, and nothing orders their memory. */
  void (*meet)(void *state, const Warp *w, const Insn *i, u32 lanes);
  void (*fence)(void *state, const Warp *w, const Insn *i, u32 m);
  /* griddepcontrol.wait goes on; launch_dependents, the first of its CTA. */
  void (*grid_wait)(void *state, const Warp *w, const Insn *i, u32 m);
  void (*grid_signal)(void *state, const Warp *w, const Insn *i, u32 m);
};

/* OBSERVE(machine, call, arguments...) */
#define OBSERVE(m, call, ...)                                                     \
  do {                                                                            \
    const Observer *const *observer_ = (m)->observer;                             \
    if (__builtin_expect(observer_ != NULL, 0))                                   \
      for (; *observer_; observer_++)                                             \
        if ((*observer_)->call) (*observer_)->call((*observer_)->state, __VA_ARGS__); \
  } while (0)

#endif
