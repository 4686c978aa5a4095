/* Global memory: every access is checked against the allocations.
 *
 * A kernel sees virtual addresses; an allocation says where its bytes are, so that a
 * recorded launch can run on buffers that lie elsewhere. Faulty reads give zero and
 * faulty writes are dropped by the callers, which get NULL.
 */
#include "core.h"

/* Last allocation with va <= addr, or NULL. */
static const Alloc *below(const Machine *m, u64 addr) {
  u32 lo = 0, hi = m->n_allocs;
  while (lo < hi) {
    u32 mid = (lo + hi) / 2;
    if (m->allocs[mid].va <= addr) lo = mid + 1;
    else hi = mid;
  }
  return lo ? &m->allocs[lo - 1] : NULL;
}

static inline int holds(const Alloc *a, u64 va, u64 size) {
  return va >= a->va && size <= a->size && va - a->va <= a->size - size;
}

static const Alloc *find(Machine *m, u32 pc, u64 va, u64 size) {
  u32 hint = m->alloc_hint[pc];
  if (hint < m->n_allocs && holds(&m->allocs[hint], va, size)) return &m->allocs[hint];
  const Alloc *a = below(m, va);
  if (!a || !holds(a, va, size)) return NULL;
  m->alloc_hint[pc] = (u32)(a - m->allocs);
  return a;
}

u8 *gmem_async(Machine *m, const Insn *i, const Cta *c, u32 warp, u32 lane, u64 va,
               u64 size, u32 align, u32 access) {
  u32 kind = 0;
  const Alloc *a = NULL;
  if (align && (va & (align - 1))) {
    kind = FAULT_MISALIGNED;
  } else {
    a = find(m, pc_of(m, i), va, size);
    if (!a) kind = access & ACCESS_WRITE ? FAULT_OOB_WRITE : FAULT_OOB_READ;
    else if (a->flags & ALLOC_FREED) kind = FAULT_FREED;
    else if ((access & ACCESS_WRITE) && !(a->flags & ALLOC_WRITE)) kind = FAULT_READONLY;
  }
  if (kind) {
    fault_at(m, i, c, warp, lane, kind, va, size, access);
    return NULL;
  }
  u64 off = va - a->va;
  if (a->init) {
    if ((access & ACCESS_READ) && memchr(a->init + off, 0, size))
      fault_at(m, i, c, warp, lane, FAULT_UNINIT, va, size, access);
    if (access & ACCESS_WRITE) memset(a->init + off, 1, size);
  }
  return a->host + off;
}

u8 *gmem(Warp *w, const Insn *i, u32 lane, u64 va, u32 size, u32 align, u32 access) {
  return gmem_async(w->m, i, w->cta, w->id, lane, va, size, align, access);
}

const Alloc *gmem_span(Machine *m, const Insn *i, u64 lo, u64 hi, u32 access) {
  const Alloc *a = gmem_tracked_span(m, i, lo, hi, access);
  return a && !a->init ? a : NULL;
}

const Alloc *gmem_tracked_span(Machine *m, const Insn *i, u64 lo, u64 hi, u32 access) {
  if (hi <= lo) return NULL;
  const Alloc *a = find(m, pc_of(m, i), lo, hi - lo);
  if (!a || (a->flags & ALLOC_FREED)) return NULL;
  if ((access & ACCESS_WRITE) && !(a->flags & ALLOC_WRITE)) return NULL;
  return a;
}
