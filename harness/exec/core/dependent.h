/* Programmatic dependent launch as a pure step function (PTX ISA, "griddepcontrol").
 *
 * Dependent grids may start once every CTA of this one has executed launch_dependents
 * or is over; only the first execution of a CTA counts. griddepcontrol.wait waits while
 * a prerequisite grid has not completed.
 */
#ifndef SIDESTREAM_DEPENDENT_H
#define SIDESTREAM_DEPENDENT_H

#include "core.h"

enum GridOp {
  GRID_SIGNAL = 0, /* a CTA lets dependents start, or exits; n = 1 if it did before */
  GRID_CANCEL,     /* n CTAs will never start */
  GRID_PREREQUISITE, /* n = 1: a prerequisite is running, 0: all have completed */
  GRID_WAIT        /* value: 1 if the thread has to wait */
};

typedef struct GridResult {
  GridState state;
  u32 value; /* of all but GRID_WAIT: whether dependents may start */
} GridResult;

static inline GridResult grid_step(GridState s, u32 op, u32 n) {
  switch (op) {
    case GRID_SIGNAL: s.ready += !n; break;
    case GRID_CANCEL: s.ready += n; break;
    case GRID_PREREQUISITE: s.pending = n; break;
    default: return (GridResult){s, s.pending};
  }
  return (GridResult){s, s.ready == s.ctas};
}

/* A CTA lets dependents start, or is over. */
static inline void grid_step_cta(Cta *c) {
  Machine *m = c->m;
  m->dependency = grid_step(m->dependency, GRID_SIGNAL, c->dependents_counted).state;
  c->dependents_counted = 1;
}

#endif
