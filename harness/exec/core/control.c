/* Control flow: branches, exit, traps and the instruction nobody modelled. */
#include "observer.h"

/* imm = target */
static int bra(Warp *w, const Insn *i, u32 m) {
  paths_branch(w, m, (u32)i->imm);
  return STEP_JUMP;
}

/* a = index, ext = targets, as bytecode indices */
static int brx(Warp *w, const Insn *i, u32 m) {
  const u32 *idx = R32(i->a);
  u32 next = w->pc + 1, rest = w->mask & ~m;
  for (int l = 0; l < LANES; l++) {
    if (lane_on(m, l) && idx[l] >= (u32)i->n_ext) {
      fault(w, i, (u32)l, FAULT_ILLEGAL, 0, 0, idx[l]);
      return stop_launch(w, i, ST_TRAP);
    }
  }
  w->mask = 0;
  if (rest) paths_add(w, next, rest);
  for (u32 left = m; left;) {
    u32 v = idx[__builtin_ctz(left)], group = 0;
    for (int l = 0; l < LANES; l++)
      if (lane_on(left, l) && idx[l] == v) group |= 1u << l;
    paths_add(w, (u32)w->m->ext[i->ext + (s32)v], group);
    left &= ~group;
  }
  return STEP_JUMP;
}

static int exit_(Warp *w, const Insn *i, u32 m) {
  (void)i;
  OBSERVE(w->m, exit, w, m);
  cluster_exit(w, m);
  paths_exit(w, m);
  w->m->progress++;
  return STEP_JUMP;
}

static int trap(Warp *w, const Insn *i, u32 m) {
  fault(w, i, (u32)__builtin_ctz(m), FAULT_TRAP, 0, 0, 0);
  return stop_launch(w, i, ST_TRAP);
}

static int unsupported(Warp *w, const Insn *i, u32 m) {
  (void)m;
  return stop_launch(w, i, ST_UNSUPPORTED);
}

static int nop(Warp *w, const Insn *i, u32 m) {
  (void)w, (void)i, (void)m;
  return STEP_NEXT;
}

/* A fence: nothing to order, since instructions execute one after another and in every
 * proxy; but the observer wants to know. */
static int fence(Warp *w, const Insn *i, u32 m) {
  OBSERVE(w->m, fence, w, i, m);
  return STEP_NEXT;
}

static int yield(Warp *w, const Insn *i, u32 m) {
  (void)w, (void)i, (void)m;
  return STEP_YIELD;
}

const OpEntry ops_control[] = {
    {"unsupported", unsupported}, {"bra", bra},   {"brx", brx},     {"exit", exit_},
    {"trap", trap},               {"nop", nop},   {"yield", yield},
    {"fence", fence},             {0, 0},
};
