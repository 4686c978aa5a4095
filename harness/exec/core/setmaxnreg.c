/* setmaxnreg: warps hand registers to each other through a pool of the CTA.
 *
 * PTX ISA, Miscellaneous Instructions: setmaxnreg. The pool starts empty. What a warp
 * owns at first is the compiler's choice and not in the text, so that a first request
 * in the wrong direction is not a defect.
 */
#include "core.h"

enum { LEAST = 24, MOST = 256, STEP = 8 };
enum { WARPGROUP = 4 };
enum SetmaxnregError { NREG_COUNT = 1, NREG_DIRECTION, NREG_DIVERGED, NREG_PARTIAL };

static void count(Warp *w, const Insn *i) {
  w->nreg_times++;
  w->nreg_pc = pc_of(w->m, i);
}

/* x[0] = inc, imm = registers */
static int setmaxnreg(Warp *w, const Insn *i, u32 m) {
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  u32 first = (u32)__builtin_ctz(m), error = 0;
  if (i->imm < LEAST || i->imm > MOST || i->imm % STEP) {
    fault(w, i, first, FAULT_SETMAXNREG, (u64)i->imm, w->nreg, NREG_COUNT);
    return STEP_NEXT;
  }
  u32 n = (u32)i->imm;
  if (m != w->live) error = NREG_DIVERGED;
  int wrong = i->x[0] ? w->nreg > n : w->nreg < n;
  if (wrong && w->nreg_set) error = NREG_DIRECTION;
  if (error) fault(w, i, first, FAULT_SETMAXNREG, n, w->nreg, error);
  if (wrong) {
    if (!w->nreg_set) w->nreg = n;
    w->nreg_set = 1;
    count(w, i);
    return STEP_NEXT;
  }
  if (i->x[0] && n - w->nreg > w->cta->regs_pool) {
    block_on(w, BLOCK_SETMAXNREG, n, w->cta->regs_pool);
    return STEP_BLOCK;
  }
  w->cta->regs_pool += w->nreg - n; /* modulo 2^32: an increase takes away */
  w->nreg = n;
  w->nreg_set = 1;
  count(w, i);
  w->m->progress++;
  return STEP_NEXT;
}

void setmaxnreg_finish(Cta *c) {
  Machine *m = c->m;
  const Warp *first = &m->warps[c->slot * m->warps_per_cta];
  for (u32 k = 0; k < m->warps_per_cta; k++) {
    const Warp *lead = &first[k / WARPGROUP * WARPGROUP], *w = &first[k];
    if (w->nreg_times == lead->nreg_times) continue;
    const Warp *more = w->nreg_times > lead->nreg_times ? w : lead;
    fault_at(m, &m->code[more->nreg_pc], c, more->id, NO_LANE, FAULT_SETMAXNREG,
             more->nreg, more->nreg, NREG_PARTIAL);
  }
}

const OpEntry ops_setmaxnreg[] = {{"setmaxnreg", setmaxnreg}, {0, 0}};
