/* Defects met while executing: folded by kind and instruction, never fatal. */
#include "core.h"

static u32 nearest(const Machine *m, u64 addr) {
  u32 best = ~0u;
  u64 gap = ~0ull;
  for (u32 k = 0; k < m->n_allocs; k++) {
    const Alloc *a = &m->allocs[k];
    u64 d = addr < a->va ? a->va - addr : addr - a->va < a->size ? 0 : addr - a->va - a->size + 1;
    if (d < gap) {
      gap = d;
      best = a->id;
    }
  }
  return best;
}

/* Kinds whose info is the code of one wrong among several: each is a defect of its own,
 * also where one instruction commits them all. */
static int coded(u32 kind) {
  return (kind >= FAULT_MBARRIER && kind <= FAULT_SETMAXNREG) ||
         (kind >= FAULT_TMEM_ALLOC && kind <= FAULT_TMEM_UNINIT);
}

void fault_at(Machine *m, const Insn *i, const Cta *c, u32 warp, u32 lane, u32 kind,
              u64 addr, u64 size, u64 info) {
  u32 pc = pc_of(m, i);
  for (u32 k = 0; k < m->n_faults; k++) {
    if (m->faults[k].kind == kind && m->faults[k].pc == pc &&
        (m->faults[k].info == info || !coded(kind))) {
      m->faults[k].count++;
      return;
    }
  }
  if (m->n_faults == MAX_FAULTS) {
    m->dropped_faults++;
    return;
  }
  Fault *f = &m->faults[m->n_faults++];
  f->kind = kind;
  f->pc = pc;
  for (int k = 0; k < 3; k++) f->cta[k] = c ? c->id[k] : 0;
  f->warp = warp;
  f->lane = lane;
  f->addr = addr;
  f->size = size;
  f->info = info;
  f->count = 1;
  f->engine = m->landing ? m->landing->kind : 0;
  f->alloc = kind <= FAULT_UNINIT ? nearest(m, addr) : ~0u;
}

void fault(Warp *w, const Insn *i, u32 lane, u32 kind, u64 addr, u64 size, u64 info) {
  fault_at(w->m, i, w->cta, w->id, lane, kind, addr, size, info);
}
