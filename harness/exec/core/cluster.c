/* The CTAs of a cluster: their barrier and each other's shared memory.
 *
 * PTX ISA, Parallel Synchronization and Communication Instructions: barrier.cluster;
 * Data Movement and Conversion Instructions: mapa, getctarank.
 */
#include "observer.h"
#include "cluster_barrier.h"
#include "named_barrier.h"

/* Misuse of barrier.cluster; the info of FAULT_NAMED_BARRIER, beside the codes of
 * named_barrier.h. */
enum { CLUSTER_ARRIVED_TWICE = 16, CLUSTER_NOT_ARRIVED };

static void step(Warp *w, u32 op, u32 n) {
  Cta *lead = &w->m->ctas[w->cta->first_slot];
  ClusterBarrierResult r = cluster_barrier_step(lead->cluster_bar, op, n);
  if (r.completed) {
    OBSERVE(w->m, cluster_complete, lead);
    w->m->progress++;
  }
  lead->cluster_bar = r.state;
}

void cluster_exit(Warp *w, u32 lanes) {
  u64 now = 1 + w->m->ctas[w->cta->first_slot].cluster_bar.phase;
  u32 arrived = 0;
  for (u32 l = 0; l < LANES; l++)
    arrived += lane_on(lanes, (int)l) && w->cluster_lane[l] == now;
  if (arrived) step(w, CLUSTER_EXIT_ARRIVED, arrived);
  u32 others = (u32)__builtin_popcount(lanes) - arrived;
  if (others) step(w, CLUSTER_EXIT, others);
}

/* The aligned forms (x[0]) need the whole warp: 0 while lanes are elsewhere. */
static int together(Warp *w, const Insn *i, u32 m) {
  if (!i->x[0]) return 1;
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return 0;
  }
  if (m != w->live) /* a guard lets only a part of them execute it */
    fault(w, i, (u32)__builtin_ctz(m), FAULT_NAMED_BARRIER, 0, m, BARRIER_NOT_CONVERGED);
  return 1;
}

static int cluster_arrive(Warp *w, const Insn *i, u32 m) {
  if (!together(w, i, m)) return STEP_BLOCK;
  Cta *lead = &w->m->ctas[w->cta->first_slot];
  u32 n = 0;
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (w->cluster_lane[l]) { /* a second arrive without the wait between */
      fault(w, i, l, FAULT_NAMED_BARRIER, 0, 0, CLUSTER_ARRIVED_TWICE);
      continue;
    }
    w->cluster_lane[l] = 1 + lead->cluster_bar.phase;
    n++;
  }
  OBSERVE(w->m, cluster_arrive, w, i, m);
  w->m->progress++;
  if (n) step(w, CLUSTER_ARRIVE, n);
  return STEP_NEXT;
}

static int cluster_wait(Warp *w, const Insn *i, u32 m) {
  if (!together(w, i, m)) return STEP_BLOCK;
  const Cta *lead = &w->m->ctas[w->cta->first_slot];
  for (u32 l = 0; l < LANES; l++)
    if (lane_on(m, (int)l) && lead->cluster_bar.phase < w->cluster_lane[l]) {
      block_on(w, BLOCK_CLUSTER, 0, lead->cluster_bar.arrived);
      return STEP_BLOCK;
    }
  OBSERVE(w->m, cluster_wait, w, i, m);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (!w->cluster_lane[l])
      fault(w, i, l, FAULT_NAMED_BARRIER, 0, 0, CLUSTER_NOT_ARRIVED);
    w->cluster_lane[l] = 0;
  }
  return STEP_NEXT;
}

/* mapa: the address in the CTA of rank b that corresponds to a. A 32-bit shared
 * address, a 64-bit one, or a generic one (x[0] = 1), whose window stays. */
static int mapa(Warp *w, const Insn *i, u32 m, int wide) {
  const u32 *rank = R32(i->b);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u64 a = wide ? R64(i->a)[l] : R32(i->a)[l];
    if (rank[l] >= w->m->cluster_size || (i->x[0] && a >> WINDOW_SHIFT != WINDOW_SHARED))
      fault(w, i, l, FAULT_ILLEGAL, a, rank[l], w->m->cluster_size);
    a = (a & ~0xff000000ull) | (u64)(rank[l] & 0xffu) << 24;
    if (wide) R64(i->d)[l] = a;
    else R32(i->d)[l] = (u32)a;
  }
  return STEP_NEXT;
}
static int mapa_32(Warp *w, const Insn *i, u32 m) { return mapa(w, i, m, 0); }
static int mapa_64(Warp *w, const Insn *i, u32 m) { return mapa(w, i, m, 1); }

/* getctarank: rank of the CTA that address a (32 bits, 64 if x[1]) lies in */
static int getctarank(Warp *w, const Insn *i, u32 m) {
  u64 a[LANES];
  u32 *d = R32(i->d);
  for (u32 l = 0; l < LANES; l++) a[l] = i->x[1] ? R64(i->a)[l] : R32(i->a)[l];
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    if (i->x[0] && a[l] >> WINDOW_SHIFT != WINDOW_SHARED)
      fault(w, i, l, FAULT_ILLEGAL, a[l], 0, 0);
    d[l] = (u32)a[l] >> 24;
  }
  return STEP_NEXT;
}

/* For the property tests: steps live, arrived, phase in place; 1 if a phase ended. */
u32 ss_cluster_barrier_step(u64 *state, u32 op, u32 n) {
  ClusterBarrier s = {(u32)state[0], (u32)state[1], state[2]};
  ClusterBarrierResult r = cluster_barrier_step(s, op, n);
  state[0] = r.state.live;
  state[1] = r.state.arrived;
  state[2] = r.state.phase;
  return r.completed;
}

const OpEntry ops_cluster[] = {
    {"barrier.cluster.arrive", cluster_arrive},
    {"barrier.cluster.wait", cluster_wait},
    {"mapa.b32", mapa_32},
    {"mapa.b64", mapa_64},
    {"getctarank", getctarank},
    {0, 0},
};
