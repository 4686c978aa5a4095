/* Divergence and reconvergence: a warp is a set of paths, each a pc and a lane mask.
 *
 * One path is current. It runs until it reaches the pc of another path, where they
 * merge, or passes it, where the lower one takes over: the lowest pc runs first, so
 * that the arms of a branch meet again at the join without any control-flow analysis.
 * A path that blocks stalls and lets the others run (independent thread scheduling).
 */
#include "core.h"

#define NO_LIMIT UINT32_MAX

static void set_limit(Warp *w) {
  u32 limit = NO_LIMIT;
  for (u32 k = 0; k < w->n_paths; k++)
    if (w->path_pc[k] > w->pc && w->path_pc[k] < limit) limit = w->path_pc[k];
  w->limit = limit;
}

static void drop(Warp *w, u32 k) {
  w->n_paths--;
  w->path_pc[k] = w->path_pc[w->n_paths];
  w->path_mask[k] = w->path_mask[w->n_paths];
  w->path_stalled[k] = w->path_stalled[w->n_paths];
}

static void merge_equal(Warp *w) {
  for (u32 k = 0; k < w->n_paths;) {
    if (w->path_pc[k] == w->pc) {
      w->mask |= w->path_mask[k];
      drop(w, k);
    } else {
      k++;
    }
  }
}

void paths_init(Warp *w, u32 pc, u32 mask) {
  w->n_paths = 0;
  w->pc = pc;
  w->mask = mask;
  w->limit = NO_LIMIT;
}

void paths_add(Warp *w, u32 pc, u32 mask) {
  for (u32 k = 0; k < w->n_paths; k++) {
    if (w->path_pc[k] == pc) {
      w->path_mask[k] |= mask;
      w->path_stalled[k] = 0;
      return;
    }
  }
  w->path_pc[w->n_paths] = pc;
  w->path_mask[w->n_paths] = mask;
  w->path_stalled[w->n_paths] = 0;
  w->n_paths++;
}

/* Make the lowest path that is not stalled current. The current path has been put
 * back with paths_add by the caller, or is empty. */
int paths_pick(Warp *w) {
  u32 best = NO_LIMIT, at = 0;
  for (u32 k = 0; k < w->n_paths; k++) {
    if (!w->path_stalled[k] && w->path_pc[k] < best) {
      best = w->path_pc[k];
      at = k;
    }
  }
  if (best == NO_LIMIT) return 0;
  w->pc = w->path_pc[at];
  w->mask = w->path_mask[at];
  drop(w, at);
  set_limit(w);
  return 1;
}

void paths_branch(Warp *w, u32 taken, u32 target) {
  u32 rest = w->mask & ~taken;
  if (!rest) {
    w->pc = target;
  } else {
    paths_add(w, w->pc + 1, rest);
    paths_add(w, target, taken);
    w->mask = 0;
    paths_pick(w);
    return;
  }
  if (w->n_paths) paths_arrived(w);
}

void paths_arrived(Warp *w) {
  merge_equal(w);
  u32 lowest = NO_LIMIT;
  for (u32 k = 0; k < w->n_paths; k++)
    if (!w->path_stalled[k] && w->path_pc[k] < lowest) lowest = w->path_pc[k];
  if (lowest < w->pc) {
    paths_add(w, w->pc, w->mask);
    w->mask = 0;
    paths_pick(w);
  } else {
    set_limit(w);
  }
}

void paths_stall(Warp *w) {
  if (!w->n_paths) return;
  paths_add(w, w->pc, w->mask);
  for (u32 k = 0; k < w->n_paths; k++)
    if (w->path_pc[k] == w->pc) w->path_stalled[k] = 1;
  w->mask = 0;
}

void paths_wake(Warp *w) {
  if (!w->n_paths) return;
  for (u32 k = 0; k < w->n_paths; k++) w->path_stalled[k] = 0;
}

void paths_exit(Warp *w, u32 lanes) {
  w->live &= ~lanes;
  w->mask &= ~lanes;
  if (w->mask) {
    w->pc++;
    if (w->n_paths) paths_arrived(w);
  }
}
