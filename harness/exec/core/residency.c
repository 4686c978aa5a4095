/* Which CTAs live where: clusters start in free slots and leave them.
 *
 * A grid that shares the chip with another one may be held to fewer CTAs than it has
 * slots (max_ctas, see dependent.c).
 */
#include "clc.h"
#include "core.h"
#include "dependent.h"
#include "ledger.h"
#include "mbarrier.h"
#include "observer.h"
#include "schedule.h"
#include "tmem.h"

static void fill32(u8 *p, u64 bytes, u32 v) {
  u32 *q = (u32 *)p;
  for (u64 k = 0; k < bytes / 4; k++) q[k] = v;
}

/* Clusters in x-fastest order, and the CTAs of a cluster likewise. */
void cta_coordinates(const Machine *m, u32 cluster, u32 rank, u32 *id) {
  for (int k = 0; k < 3; k++) {
    u32 n = m->grid[k] / m->cluster[k];
    id[k] = cluster % n * m->cluster[k] + rank % m->cluster[k];
    cluster /= n;
    rank /= m->cluster[k];
  }
}

static void start_cta(Machine *m, u32 slot, u32 cluster) {
  Cta *c = &m->ctas[slot];
  c->rank = slot % m->cluster_size;
  c->linear = cluster * m->cluster_size + c->rank;
  c->first_slot = slot - c->rank;
  cta_coordinates(m, cluster, c->rank, c->id);
  memset(c->bar, 0, sizeof c->bar);
  c->pending_async = 0;
  c->regs_pool = 0;
  c->clc_closed = c->clc_failed = 0;
  fill32(c->smem, (m->smem_size + 3ull) & ~3ull, m->smem_fill);
  memset(c->mbar_live, 0, m->smem_size / 8 + 1);
  ledger_clear(c->ledger);
  if (c->tmem) tmem_start(c);
  u64 threads = (u64)m->block[0] * m->block[1] * m->block[2];
  ClusterBarrier *bar = &m->ctas[c->first_slot].cluster_bar;
  if (!c->rank) *bar = (ClusterBarrier){(u32)threads * m->cluster_size, 0, 0};
  c->live_warps = m->warps_per_cta;
  c->dependents_counted = 0;
  m->live_ctas++;
  m->live_warps += m->warps_per_cta;
  for (u32 k = 0; k < m->warps_per_cta; k++) {
    Warp *w = &m->warps[slot * m->warps_per_cta + k];
    u64 left = threads - (u64)k * 32;
    w->initial = left >= 32 ? FULL : (1u << left) - 1;
    w->live = w->initial;
    w->done = 0;
    w->block_kind = BLOCK_NONE;
    memset(w->blocks, 0, sizeof w->blocks);
    w->cc = 0;
    w->nreg = m->regs_per_thread;
    w->nreg_set = 0;
    memset(w->wait_active, 0, sizeof w->wait_active);
    memset(w->bar_lanes, 0, sizeof w->bar_lanes);
    memset(w->bar_trues, 0, sizeof w->bar_trues);
    memset(w->bar_falses, 0, sizeof w->bar_falses);
    memset(w->cpa_committed, 0, sizeof w->cpa_committed);
    memset(w->bulk_committed, 0, sizeof w->bulk_committed);
    memset(w->cluster_lane, 0, sizeof w->cluster_lane);
    w->tmem_loads = w->tmem_stores = 0;
    w->tc_fence = w->tc_own = 0;
    w->nreg_times = 0;
    fill32(w->rf, m->rf_bytes, m->reg_fill);
    fill32(w->local, (u64)m->local_bytes * LANES & ~3ull, m->reg_fill);
    paths_init(w, 0, w->initial);
  }
}

/* Start whole clusters where slots are free. A seed holds some back, since a device
 * takes time to start a grid: others may cancel them meanwhile. */
void start_ctas(Machine *m, int must) {
  m->held = 0;
  for (u32 s = 0; s < m->n_slots && m->next_cta < m->n_ctas; s += m->cluster_size) {
    if (m->live_ctas + m->cluster_size > m->max_ctas) {
      m->held = m->max_ctas < m->n_slots;
      return;
    }
    int idle = 1;
    for (u32 k = 0; k < m->cluster_size; k++) idle &= m->ctas[s + k].live_warps == 0;
    if (!idle) continue;
    if (m->seed && m->live_warps && !must && decide(m, 0, (next_random(m) & 3) != 0)) return;
    ClcState grid = {m->next_cta / m->cluster_size, m->n_ctas / m->cluster_size, 0, 0};
    u32 cluster = clc_step(grid, CLC_LAUNCH, 0).value - 1;
    m->next_cta += m->cluster_size;
    for (u32 k = 0; k < m->cluster_size; k++) start_cta(m, s + k, cluster);
    for (u32 k = 0; k < m->cluster_size; k++) OBSERVE(m, cta, &m->ctas[s + k]);
  }
}

void finish_warp(Machine *m, Warp *w) {
  Cta *c = w->cta;
  m->live_warps--;
  m->progress++;
  if (--c->live_warps) return;
  async_land_cta(m, c);
  m->unfinished += mbarrier_unfinished(c);
  m->live_ctas--;
  grid_step_cta(c);
  OBSERVE(m, over, c);
  if (c->tmem) tmem_finish(c);
  mbarrier_finish(w);
  setmaxnreg_finish(c);
}
