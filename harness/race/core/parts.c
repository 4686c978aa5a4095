/* What lanes of one warp know of each other, once a part of it has synchronised.
 *
 * An entry of a Knowledge tells all lanes of a component, or one of them, up to a clock
 * (clock.h). A part of a warp is neither, so that bar.warp.sync of a part tells too much.
 * To others that is handed over as it is. Between lanes of the warp itself what counts
 * is kept here, lane by lane, until the whole warp synchronises.
 */
#include <stdlib.h>

#include "agents.h"

static void raise_to(u32 *known, u32 clock) {
  if (clock > *known) *known = clock;
}

void part_learn(WarpAgent *w, u32 lanes, const Knowledge *news) {
  const u32 *own = news->entry + w->comp;
  u32 all = own[0], one = own[news->n], lane = own[2 * news->n];
  for (u32 left = lanes; left; left &= left - 1) {
    u32 *known = w->known_lanes[__builtin_ctz(left)];
    for (u32 k = 0; k < LANES; k++) raise_to(&known[k], all);
    if (lane < LANES) raise_to(&known[lane], one);
  }
}

/* Nothing that a part told is in the strands yet. */
static int begin(WarpAgent *w) {
  if (!w->known_lanes) w->known_lanes = malloc(sizeof *w->known_lanes * LANES);
  if (!w->known_lanes) return 0;
  memset(w->known_lanes, 0, sizeof *w->known_lanes * LANES);
  w->parted = 1;
  for (u32 k = 0; k < w->n; k++) part_learn(w, w->strand[k].lanes, w->strand[k].known);
  return 1;
}

int part_sync(WarpAgent *w, u32 lanes) {
  if (lanes == w->live) {
    w->parted = 0;
    return 1;
  }
  if (!w->parted && !begin(w)) return 0;
  u32 known[LANES] = {0};
  for (u32 left = lanes; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    for (u32 k = 0; k < LANES; k++) raise_to(&known[k], w->known_lanes[l][k]);
    known[l] = w->clock;
  }
  for (u32 left = lanes; left; left &= left - 1)
    memcpy(w->known_lanes[__builtin_ctz(left)], known, sizeof known);
  return 1;
}

int part_knows(const WarpAgent *w, u32 lanes, u32 clock, u32 lane) {
  for (u32 left = w->parted ? lanes : 0; left; left &= left - 1) {
    u32 own = (u32)__builtin_ctz(left);
    if (own == lane) continue; /* it need not be told what it did itself */
    const u32 *known = w->known_lanes[own];
    u32 most = lane < LANES ? known[lane] : 0;
    for (u32 k = 0; lane >= LANES && k < LANES; k++) raise_to(&most, known[k]);
    if (most < clock) return 0;
  }
  return 1;
}
