/* Warps and engines: who knows what, and how it passes on.
 *
 * The lanes of a warp share one knowledge until some of them learn more than the
 * others; a strand is a set of lanes with equal knowledge. Clocks of a component rise
 * with every release, and go on rising when another CTA takes the slot.
 */
#ifndef SIDESTREAM_AGENTS_H
#define SIDESTREAM_AGENTS_H

#include "clock.h"

enum { MAX_STRANDS = 8, ENGINES = 48, RELEASES = 16, MEETINGS = 64 };
#define NO_PC 0xffffffffu

/* How far a scope reaches; `within_of` of one that is not given is the CTA. */
enum Within { WITHIN_CTA = 0, WITHIN_CLUSTER, WITHIN_GPU, WITHINS };
static inline u32 within_of(u32 scope) { return scope < 2 ? 0 : scope - 1 < 2 ? scope - 1 : 2; }

typedef struct Strand {
  u32 lanes;
  Knowledge *known;
  /* what it knew at its last releasing fence of a scope; what relaxed operations saw, to
   * be known at an acquiring fence whose scope reaches as far */
  Knowledge *released[WITHINS], *pending[WITHINS];
  u8 has_released[WITHINS], has_pending[WITHINS];
} Strand;

typedef struct WarpAgent {
  u32 comp; /* of the group */
  u32 clock;
  u32 rounds; /* of barrier.cluster that it has waited for */
  u32 live; /* lanes */
  u32 n;    /* strands in use; at least 1 */
  Strand strand[MAX_STRANDS];
  /* for witnesses: the instruction that runs, the last ones that handed over (by their
   * clocks, in a ring) and the last that learned */
  u32 pc, release_pc[RELEASES], release_clock[RELEASES], n_releases, learned_pc;
  u32 meeting[MEETINGS], n_meetings; /* clocks from which lanes had met, in a ring */
  u32 *touched, n_touched, cap_touched; /* clocks that have an access, for the digest */
  u32 fenced[PROXIES][LANES]; /* own accesses of a lane that lie before its proxy fence */
  /* parts.c: by each lane of each other one, since a part of the warp synchronised */
  u32 (*known_lanes)[LANES], parted;
} WarpAgent;

/* One operation of an engine, from its issue until it has landed. */
typedef struct EngineAgent {
  u32 comp, clock; /* of its reads and writes */
  u32 group;
  Knowledge *known; /* by the thread that issued it */
  u32 warp, lanes;
  u32 form; /* enum Form, or 0 */
  u32 element; /* bytes of what it reduces one by one, or 0 */
  u32 task; /* of a bulk store: what it stores and where to, as a hash; or 0 */
} EngineAgent;

void warp_begin(WarpAgent *w, u32 comp, u32 live);
void warp_free(WarpAgent *w);
/* The knowledge of a lane. */
Strand *warp_strand(WarpAgent *w, u32 lane);
/* Lanes learn. */
void warp_acquire(WarpAgent *w, u32 lanes, const Knowledge *news);
void warp_acquire_later(WarpAgent *w, u32 lanes, const Knowledge *news, u32 within);
/* What lanes that synchronise hand over: into `out`, which is overwritten. */
void warp_release(WarpAgent *w, u32 lanes, Knowledge *out);
/* The first instruction remembered that handed over what was done at `clock`. */
u32 warp_handed_over(const WarpAgent *w, u32 clock);
/* What they hand over by a relaxed operation: what a fence of exactly this reach before
 * it released. 0: none. */
int warp_release_fenced(WarpAgent *w, u32 lanes, u32 within, Knowledge *out);
/* The same of fences that reach at least so far. */
int warp_release_within(WarpAgent *w, u32 lanes, u32 within, Knowledge *out);
/* bar.warp.sync and its like: lanes of the mask know each other's accesses. */
int warp_converge(WarpAgent *w, u32 lanes); /* 0: no memory to tell parts apart */
/* All lanes meet at a .sync instruction that orders no memory. */
void warp_meet(WarpAgent *w, u32 lanes);
/* The first clock after `clock` by which all lanes had met, or 0. */
u32 warp_met(const WarpAgent *w, u32 clock);
void warp_fence_proxy(WarpAgent *w, u32 lanes, u32 plane);
void warp_fence(WarpAgent *w, u32 lanes, u32 within, u32 acquires, u32 releases);

/* --- parts.c --------------------------------------------------------------------- */
/* Lanes synchronise, before their strands do: a part of the warp, or the whole. */
int part_sync(WarpAgent *w, u32 lanes); /* whether there was memory for it */
/* Lanes of a warp with `parted` learn otherwise. */
void part_learn(WarpAgent *w, u32 lanes, const Knowledge *news);
/* Whether each of `lanes` can know what `lane`, or some lane, of its warp did at a clock.
 * Of several lanes that made one access the latest that is known stands for all. */
int part_knows(const WarpAgent *w, u32 lanes, u32 clock, u32 lane);

#endif
