/* griddepcontrol, and what drives two grids at once (exec/overlap.py). */
#include "dependent.h"

#include "observer.h"

static int launch_dependents(Warp *w, const Insn *i, u32 m) {
  if (!w->cta->dependents_counted) OBSERVE(w->m, grid_signal, w, i, m);
  grid_step_cta(w->cta);
  return STEP_NEXT;
}

static int wait(Warp *w, const Insn *i, u32 m) {
  if (!grid_step(w->m->dependency, GRID_WAIT, 0).value) {
    OBSERVE(w->m, grid_wait, w, i, m);
    return STEP_NEXT;
  }
  block_on(w, BLOCK_GRID, 0, 0);
  return STEP_BLOCK;
}

/* Whether a prerequisite grid of this one is still running. */
void ss_prerequisite(Machine *m, u32 pending) {
  m->dependency = grid_step(m->dependency, GRID_PREREQUISITE, pending).state;
  m->progress++;
}

/* Whether dependent grids may start. */
u32 ss_dependents_may_start(const Machine *m) {
  return grid_step(m->dependency, GRID_CANCEL, 0).value;
}

/* CTAs that may be alive at once, at most as many as there are slots. */
void ss_hold(Machine *m, u32 max_ctas) { m->max_ctas = max_ctas; }

u32 ss_live_ctas(const Machine *m) { return m->live_ctas; }
u32 ss_slots(const Machine *m) { return m->n_slots; }

/* For the property tests: steps ctas, ready, pending in place; the value. */
u32 ss_grid_step(u32 *state, u32 op, u32 n) {
  GridState s = {state[0], state[1], state[2]};
  GridResult r = grid_step(s, op, n);
  memcpy(state, &r.state, sizeof r.state);
  return r.value;
}

const OpEntry ops_dependent[] = {
    {"griddepcontrol.launch_dependents", launch_dependents},
    {"griddepcontrol.wait", wait},
    {0, 0}};
