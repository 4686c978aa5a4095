/* What is over, although the ISA promises no order for it.
 *
 * PTX ISA, Memory Consistency Model: Asynchronous Operations: the complete-tx of a bulk
 * copy orders the copy's own accesses alone, and nothing of the thread that issued it.
 * A relaxed arrival or wait orders nothing (mbarrier.arrive, mbarrier.test_wait). But a
 * copy is not complete before it is issued, and a thread does not arrive before it has
 * waited. So what it knew to be over by then is over for whoever sees that:
 *
 * - operations that are complete;
 * - what other threads did to shared memory, handed over behind their proxy fence, which
 *   has carried it out there. A thread's own accesses may still be on their way, and so
 *   may those of others without a fence.
 *
 * Over is not visible: by practice a write may follow, while a read needs an order, and
 * global memory is not meant, for caches lie before it. A CTA may exit by either profile.
 */
#include "events.h"

/* From `plane` into PLANE_OVER. */
static void add(Knowledge *k, u32 plane, u32 c) {
  const u32 *from = k->entry + plane * 3 * k->n + c;
  knowledge_raise(k, PLANE_OVER, c, from[0], ANY_LANE);
  if (from[k->n] > from[0]) knowledge_raise(k, PLANE_OVER, c, from[k->n], from[2 * k->n]);
}

/* What is over by `k`, which is about `group`, but for accesses of warp `own`. */
static void mark(const Detector *d, u32 group, Knowledge *k, u32 own) {
  for (u32 c = 0; c < d->per_group; c++) {
    if (c == own) continue;
    add(k, c % d->per_cta < d->warps ? PLANE_ASYNC_SHARED : PLANE_ORDER, c);
    knowledge_raise(k, PLANE_OVER, c, tensor_over(d, group, k, c), ANY_LANE);
  }
}

void over_issued(const Detector *d, u32 id) {
  const EngineAgent *e = detector_engine(d, id);
  if (!e) return;
  mark(d, e->group, e->known, d->cta[e->warp / d->warps].warp[e->warp % d->warps].comp);
}

void over_completed(const EngineAgent *e, Knowledge *handed) {
  memcpy(clock_all(handed, PLANE_OVER), clock_all(e->known, PLANE_OVER),
         3 * handed->n * sizeof(u32));
}

void over_only(const Detector *d, u32 group, Knowledge *k, u32 own) {
  mark(d, group, k, own);
  tensor_only(d, k);
}

u32 known_over(Detector *d, const Accessor *a, const Entry *e) {
  if (d->profile == PROFILE_ISA || a->space == RACE_GLOBAL) return 0;
  if (!(entry_flags(&a->entry) & ENTRY_WRITE)) return 0;
  if (!knows(a->known, PLANE_OVER, e->comp - a->first_comp, e->clock,
             a->space == RACE_TENSOR ? ANY_LANE : e->lane))
    return 0;
  d->relaxed[RELAX_OVER] += a->count;
  return 1;
}
