/* Shared memory and the generic address windows. */
#include "cluster.h"

Cta *smem_cta(const Cta *c, u32 addr) {
  u32 rank = addr >> 24;
  if (rank >= c->m->cluster_size) return NULL;
  return &c->m->ctas[c->first_slot + rank];
}

u8 *smem_ptr(Cta *c, u32 addr, u64 size) {
  Cta *target = smem_cta(c, addr);
  u32 off = addr & 0xffffffu;
  if (!target || off < SMEM_BASE) return NULL;
  off -= SMEM_BASE;
  if (size > c->m->smem_size || off > c->m->smem_size - size) return NULL;
  return target->smem + off;
}

int smem_gone(const Cta *c, u32 addr) {
  const Cta *target = smem_cta(c, addr);
  return target && target != c && !target->live_warps;
}

u8 *smem(Warp *w, const Insn *i, u32 lane, u32 addr, u32 size, u32 align) {
  if (align && (addr & (align - 1))) {
    fault(w, i, lane, FAULT_SMEM_MISALIGNED, addr, size, 0);
    return NULL;
  }
  u8 *p = smem_ptr(w->cta, addr, size);
  if (!p) fault(w, i, lane, FAULT_SMEM_OOB, addr, size, w->m->smem_size);
  if (!smem_gone(w->cta, addr)) return p;
  fault(w, i, lane, FAULT_CLUSTER, addr, size, CLUSTER_EXITED);
  return NULL;
}

u8 *resolve(Warp *w, const Insn *i, u32 lane, u32 space, u64 addr, u32 size, u32 align,
            u32 access) {
  Machine *m = w->m;
  if (space == SPACE_GENERIC) {
    switch (addr >> WINDOW_SHIFT) {
      case WINDOW_SHARED: space = SPACE_CLUSTER; break;
      case WINDOW_LOCAL: space = SPACE_LOCAL; break;
      case WINDOW_PARAM: space = SPACE_PARAM; break;
      default: space = SPACE_GLOBAL;
    }
    if (space != SPACE_GLOBAL) addr &= (1ull << WINDOW_SHIFT) - 1;
  }
  switch (space) {
    case SPACE_GLOBAL:
      return gmem(w, i, lane, addr, size, align, access);
    case SPACE_SHARED:
    case SPACE_CLUSTER:
      if (addr >> 32) {
        fault(w, i, lane, FAULT_SMEM_OOB, addr, size, m->smem_size);
        return NULL;
      }
      if (space == SPACE_SHARED && smem_cta(w->cta, (u32)addr) &&
          smem_cta(w->cta, (u32)addr) != w->cta) {
        fault(w, i, lane, FAULT_CLUSTER, addr, size, CLUSTER_FOREIGN);
        return NULL;
      }
      return smem(w, i, lane, (u32)addr, size, align);
    case SPACE_LOCAL:
      if ((align && (addr & (align - 1))) || size > m->local_bytes ||
          addr > m->local_bytes - size) {
        fault(w, i, lane, FAULT_LOCAL_OOB, addr, size, m->local_bytes);
        return NULL;
      }
      return w->local + (u64)lane * m->local_bytes + addr;
    default:
      if ((access & ACCESS_WRITE) || size > m->n_params || addr > m->n_params - size) {
        fault(w, i, lane, FAULT_PARAM_OOB, addr, size, m->n_params);
        return NULL;
      }
      return (u8 *)m->params + addr;
  }
}
