/* What an agent knows of the others: happens-before as vector clocks.
 *
 * A component is a warp or an asynchronous engine of the CTAs of one cluster. A warp
 * is 32 threads that nothing orders until they synchronise, so that an entry has two
 * parts: `all` is the clock up to which the accesses of every lane are known, and
 * `one` the later clock up to which those of the single lane `lane` are. A third
 * distinction that two such lanes would need is given up by raising `all`, which can
 * hide a race between lanes of one warp but never invents one.
 *
 * Planes tell through which proxy the knowledge may be used (PTX ISA, Memory
 * Consistency Model: Proxies): PLANE_ORDER is plain causality order, the others are
 * the part of it behind a proxy fence, so that the async proxy sees it. PLANE_OVER is
 * apart from those: what is over although nothing promises an order (detector.c).
 *
 * Where there is tensor memory, rows follow with one clock an entry, about operations of
 * the tcgen05 family (tensor.c).
 */
#ifndef SIDESTREAM_CLOCK_H
#define SIDESTREAM_CLOCK_H

#include "core.h"

enum Plane { PLANE_ORDER = 0, PLANE_ASYNC_SHARED, PLANE_ASYNC_GLOBAL, PROXIES,
             PLANE_OVER = PROXIES, PLANES };
#define ANY_LANE 32u

/* Of tcgen05 operations, complete or not: those known to be issued; those of them behind
 * a tcgen05.fence::before_thread_sync (or commit) of their own thread; those of these
 * before the knower's own tcgen05.fence::after_thread_sync, which tells nobody else. */
enum TensorRow { ROW_ISSUED = 0, ROW_SENT, ROW_READY, TENSOR_ROWS };

typedef struct Knowledge {
  u32 n;         /* entries a plane, a multiple of 16 */
  u32 rows;      /* TENSOR_ROWS or 0 */
  u32 entry[];   /* [plane][all | one | lane][n], [row][n] */
} Knowledge;

static inline u32 *clock_all(Knowledge *k, u32 plane) { return k->entry + plane * 3 * k->n; }
static inline u32 *clock_one(Knowledge *k, u32 plane) { return clock_all(k, plane) + k->n; }
static inline u32 *clock_lane(Knowledge *k, u32 plane) {
  return clock_all(k, plane) + 2 * k->n;
}
static inline u32 *clock_row(Knowledge *k, u32 row) {
  return k->entry + (PLANES * 3 + row) * k->n;
}

/* All entries 0; NULL without memory. */
Knowledge *knowledge_new(u32 components, u32 rows);
void knowledge_copy(Knowledge *to, const Knowledge *from);
void knowledge_clear(Knowledge *k);
/* to := what either knows, but for ROW_READY of `from`. */
void knowledge_join(Knowledge *to, const Knowledge *from);
/* Whether `from` tells `to` nothing new. */
int knowledge_covers(const Knowledge *to, const Knowledge *from);
/* Everything known becomes visible through `plane`. */
void knowledge_fence(Knowledge *k, u32 plane);
/* Component c is known up to `clock`: of every lane, or of one. */
void knowledge_raise(Knowledge *k, u32 plane, u32 c, u32 clock, u32 lane);

/* Whether an access of component c, lane `lane` (or ANY_LANE: of several), at `clock`
 * is known. */
static inline int knows(const Knowledge *k, u32 plane, u32 c, u32 clock, u32 lane) {
  const u32 *p = k->entry + plane * 3 * k->n + c;
  return clock <= p[0] || (clock <= p[k->n] && lane == p[2 * k->n]);
}
/* The same of what a warp did as a whole: any of its lanes may have told. */
static inline int knows_warp(const Knowledge *k, u32 c, u32 clock) {
  return clock <= k->entry[c] || clock <= k->entry[k->n + c];
}
static inline int knows_row(const Knowledge *k, u32 row, u32 c, u32 clock) {
  return k->rows && clock <= k->entry[(PLANES * 3 + row) * k->n + c];
}

#endif
