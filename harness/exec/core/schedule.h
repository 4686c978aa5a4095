/* The choices that an execution leaves open, and who makes them.
 *
 * Which warp runs next and for how long, which operation lands, whether a cluster starts
 * now: each is a decision, numbered as they come. The usual answer is that of the plain
 * order (warps in turn, everything lands at once, in order). A policy draws others, and
 * every answer that is not the usual one is kept: the list of them is the schedule. Told
 * that list, an execution makes the same decisions again.
 */
#ifndef SIDESTREAM_SCHEDULE_H
#define SIDESTREAM_SCHEDULE_H

#include "core.h"

enum Policy {
  POLICY_RANDOM = 0, /* every decision is drawn */
  POLICY_PCT,        /* the warp of highest priority runs; `depth` times it falls */
  POLICY_GIVEN       /* the usual answers but for those given */
};

typedef struct Choice {
  u32 at, answer; /* number of the decision, counted from 0 */
} Choice;
enum { MAX_CHOICES = 1 << 20, MAX_DEPTH = 16 };

typedef struct Schedule {
  u32 policy, depth;
  u64 decisions;
  const Choice *given; /* in order of `at` */
  u32 n_given, next_given;
  Choice *made; /* what was not usual */
  u32 n_made, cap_made, dropped;
  u64 *priority;    /* of warps, by POLICY_PCT; higher runs first */
  u64 *stalled;     /* 1 + machine->progress when the warp last had to wait */
  u64 falls[MAX_DEPTH]; /* executed instructions at which the running warp falls */
  u32 n_falls;
  u64 lowest;
} Schedule;

/* Make one decision: the usual answer or the drawn one, as the policy has it. */
u32 decide(Machine *m, u32 usual, u32 drawn);
/* The next warp to run, or NULL if all are done. */
Warp *schedule_warp(Machine *m);
/* How many instructions it may run. */
u64 schedule_quantum(Machine *m);
/* Tell what became of its turn. */
void schedule_ran(Machine *m, const Warp *w, u64 executed);
int schedule_init(Machine *m, u32 policy, u32 depth, u64 horizon, const Choice *given,
                  u32 n_given);
void schedule_free(Machine *m);

#endif
