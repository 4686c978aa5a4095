/* Special registers. */
#include "core.h"

enum {
  SR_TID_X, SR_TID_Y, SR_TID_Z, SR_NTID_X, SR_NTID_Y, SR_NTID_Z,
  SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_NCTAID_X, SR_NCTAID_Y, SR_NCTAID_Z,
  SR_LANEID, SR_WARPID, SR_NWARPID, SR_SMID, SR_NSMID, SR_GRIDID,
  SR_LANEMASK_EQ, SR_LANEMASK_LE, SR_LANEMASK_LT, SR_LANEMASK_GE, SR_LANEMASK_GT,
  SR_CLOCK, SR_DYNAMIC_SMEM, SR_TOTAL_SMEM,
  SR_CLUSTERID_X, SR_CLUSTERID_Y, SR_CLUSTERID_Z,
  SR_NCLUSTERID_X, SR_NCLUSTERID_Y, SR_NCLUSTERID_Z,
  SR_CLUSTER_CTAID_X, SR_CLUSTER_CTAID_Y, SR_CLUSTER_CTAID_Z,
  SR_CLUSTER_NCTAID_X, SR_CLUSTER_NCTAID_Y, SR_CLUSTER_NCTAID_Z,
  SR_CLUSTER_CTARANK, SR_CLUSTER_NCTARANK, SR_IS_EXPLICIT_CLUSTER, SR_COUNT
};

static u64 value(const Warp *w, u32 which, u32 l, s64 imm) {
  const Machine *m = w->m;
  const Cta *c = w->cta;
  u32 t = w->id * 32 + l;
  u32 r = c->rank;
  switch (which) {
    case SR_TID_X: return t % m->block[0];
    case SR_TID_Y: return t / m->block[0] % m->block[1];
    case SR_TID_Z: return t / m->block[0] / m->block[1];
    case SR_NTID_X: case SR_NTID_Y: case SR_NTID_Z: return m->block[which - SR_NTID_X];
    case SR_CTAID_X: case SR_CTAID_Y: case SR_CTAID_Z: return c->id[which - SR_CTAID_X];
    case SR_NCTAID_X: case SR_NCTAID_Y: case SR_NCTAID_Z:
      return m->grid[which - SR_NCTAID_X];
    case SR_LANEID: return l;
    case SR_WARPID: return w->id;
    case SR_NWARPID: return m->warps_per_cta;
    case SR_SMID: return c->slot % (m->n_sms ? m->n_sms : 1);
    case SR_NSMID: return m->n_sms;
    case SR_GRIDID: return 0;
    case SR_LANEMASK_EQ: return 1u << l;
    case SR_LANEMASK_LE: return (2ull << l) - 1;
    case SR_LANEMASK_LT: return (1u << l) - 1;
    case SR_LANEMASK_GE: return (u32)(FULL << l);
    case SR_LANEMASK_GT: return (u32)((u64)FULL << (l + 1));
    case SR_CLOCK: return m->executed + w->executed; /* monotonic, not time */
    case SR_DYNAMIC_SMEM: return (u64)imm;
    case SR_TOTAL_SMEM: return m->smem_size;
    case SR_CLUSTERID_X: case SR_CLUSTERID_Y: case SR_CLUSTERID_Z: {
      u32 k = which - SR_CLUSTERID_X;
      return c->id[k] / m->cluster[k];
    }
    case SR_NCLUSTERID_X: case SR_NCLUSTERID_Y: case SR_NCLUSTERID_Z: {
      u32 k = which - SR_NCLUSTERID_X;
      return m->grid[k] / m->cluster[k];
    }
    case SR_CLUSTER_CTAID_X: return r % m->cluster[0];
    case SR_CLUSTER_CTAID_Y: return r / m->cluster[0] % m->cluster[1];
    case SR_CLUSTER_CTAID_Z: return r / m->cluster[0] / m->cluster[1];
    case SR_CLUSTER_NCTAID_X: case SR_CLUSTER_NCTAID_Y: case SR_CLUSTER_NCTAID_Z:
      return m->cluster[which - SR_CLUSTER_NCTAID_X];
    case SR_CLUSTER_CTARANK: return r;
    case SR_CLUSTER_NCTARANK: return m->cluster_size;
    default: return m->cluster_size > 1;
  }
}

/* x[0] = which (the order of exec/lower/special.py), imm = extra */
static int special32(Warp *w, const Insn *i, u32 m) {
  u32 *d = R32(i->d);
  LANE_LOOP(u32, d, (u32)value(w, (u32)i->x[0], (u32)l, i->imm));
}

static int special64(Warp *w, const Insn *i, u32 m) {
  u64 *d = R64(i->d);
  LANE_LOOP(u64, d, value(w, (u32)i->x[0], (u32)l, i->imm));
}

const OpEntry ops_special[] = {
    {"special.32", special32}, {"special.64", special64}, {0, 0}};
