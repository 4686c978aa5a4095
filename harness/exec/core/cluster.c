/* The CTAs of a cluster: their barrier and each other's shared memory.
 *
 * PTX ISA, Parallel Synchronization and Communication Instructions: barrier.cluster;
 * Data Movement and Conversion Instructions: mapa, getctarank.
 */
#include "observer.h"
#include "cost.h"

/* Misuse of barrier.cluster; the info of FAULT_NAMED_BARRIER, beside the codes of
 * named_barrier.h. */
enum { CLUSTER_ARRIVED_TWICE = 16, CLUSTER_NOT_ARRIVED };

/* barrier.cluster: x[0] = aligned. All threads of the cluster that have not exited. */
static int cluster_complete(const Machine *m, u32 first, u64 generation) {
  for (u32 s = first; s < first + m->cluster_size; s++)
    for (u32 k = 0; k < m->warps_per_cta; k++) {
      const Warp *v = &m->warps[s * m->warps_per_cta + k];
      for (u32 l = 0; l < LANES; l++)
        if (lane_on(v->live, (int)l) && v->cluster_lane[l] != generation + 1) return 0;
    }
  return 1;
}

static void cluster_settle(Machine *m, u32 first) {
  Cta *lead = &m->ctas[first];
  if (lead->cluster_arrived && cluster_complete(m, first, lead->cluster_gen)) {
    lead->cluster_arrived = 0;
    OBSERVE(m, cluster_complete, lead);
    if (m->cost) cost_barrier_release(m, lead, COST_CLUSTER_BARRIER, lead->cluster_gen);
    lead->cluster_gen++;
    m->progress++;
  }
}

static int cluster_arrive(Warp *w, const Insn *i, u32 m) {
  if (i->x[0] && lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  Cta *lead = &w->m->ctas[w->cta->first_slot];
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (w->cluster_lane[l]) /* a second arrive without the wait between */
      fault(w, i, l, FAULT_NAMED_BARRIER, 0, 0, CLUSTER_ARRIVED_TWICE);
    else lead->cluster_arrived++;
    w->cluster_lane[l] = 1 + lead->cluster_gen;
  }
  OBSERVE(w->m, cluster_arrive, w, i, m);
  if (w->m->cost) cost_barrier_arrive(w->m, lead, COST_CLUSTER_BARRIER, w);
  w->m->progress++;
  cluster_settle(w->m, w->cta->first_slot);
  return STEP_NEXT;
}

static int cluster_wait(Warp *w, const Insn *i, u32 m) {
  if (i->x[0] && lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  cluster_settle(w->m, w->cta->first_slot);
  const Cta *lead = &w->m->ctas[w->cta->first_slot];
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    if (!w->cluster_lane[l]) {
      fault(w, i, l, FAULT_NAMED_BARRIER, 0, 0, CLUSTER_NOT_ARRIVED);
    } else if (lead->cluster_gen < w->cluster_lane[l]) {
      block_on(w, BLOCK_CLUSTER, 0, lead->cluster_arrived);
      return STEP_BLOCK;
    }
  }
  OBSERVE(w->m, cluster_wait, w, i, m);
  u64 waited = w->cluster_lane[__builtin_ctz(m)];
  if (w->m->cost && waited)
    cost_barrier_pass(w->m, lead, COST_CLUSTER_BARRIER, waited - 1, w);
  for (u32 l = 0; l < LANES; l++)
    if (lane_on(m, (int)l)) w->cluster_lane[l] = 0;
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

const OpEntry ops_cluster[] = {
    {"barrier.cluster.arrive", cluster_arrive},
    {"barrier.cluster.wait", cluster_wait},
    {"mapa.b32", mapa_32},
    {"mapa.b64", mapa_64},
    {"getctarank", getctarank},
    {0, 0},
};
