/* Addresses of a whole warp at once: one check for the usual case, lane by lane
 * only when something is unusual (two allocations, init tracking, a fault). */
#include "access.h"

#include "observer.h"

#define SCRATCH 64

typedef struct Span {
  u64 lo, hi, low_bits;
} Span;

/* Least and greatest address of the active lanes and the union of their low bits. */
static Span span_of(const u64 *addr, u32 m) {
  u64 lo = ~0ull, hi = 0, bits = 0;
  for (int l = 0; l < LANES; l++) {
    u64 on = (u64)0 - ((m >> l) & 1u);
    u64 a = addr[l] & on, b = addr[l] | ~on;
    bits |= a;
    hi = a > hi ? a : hi;
    lo = b < lo ? b : lo;
  }
  return (Span){lo, hi, bits};
}

static void point(u8 **p, const u64 *addr, u32 m, u64 base, u8 *scratch) {
  if (m == FULL) {
    for (int l = 0; l < LANES; l++) p[l] = (u8 *)(base + addr[l]);
  } else {
    for (int l = 0; l < LANES; l++)
      p[l] = (m >> l) & 1u ? (u8 *)(base + addr[l]) : scratch;
  }
}

static void one_by_one(Warp *w, const Insn *i, u32 m, u32 space, const u64 *addr,
                       u32 size, u32 align, u32 access, u8 **p, u8 *scratch) {
  for (u32 l = 0; l < LANES; l++) {
    u8 *q = lane_on(m, (int)l)
                ? resolve(w, i, l, space, addr[l], size, align, access)
                : NULL;
    p[l] = q ? q : scratch;
  }
}

/* Heed the init map for all lanes: 0 if one of them reads what nobody wrote. */
static int track(const Alloc *a, const u64 *addr, u32 m, u32 size, u32 access) {
  if (access & ACCESS_READ) {
    u64 unset = 0;
    for (u32 left = m; left; left &= left - 1) {
      const u8 *at = a->init + (addr[__builtin_ctz(left)] - a->va);
      for (u32 k = 0; k < size; k++) unset |= at[k] == 0;
    }
    if (unset) return 0;
  }
  if (access & ACCESS_WRITE) {
    for (u32 left = m; left; left &= left - 1) {
      u8 *at = a->init + (addr[__builtin_ctz(left)] - a->va);
      for (u32 k = 0; k < size; k++) at[k] = 1;
    }
  }
  return 1;
}

void lane_pointers(Warp *w, const Insn *i, u32 m, u32 space, const u64 *addr, u32 size,
                   u32 align, u32 access, u8 **p) {
  OBSERVE(w->m, lanes, w, i, m, space, addr, size, access);
  static _Thread_local u8 scratch[SCRATCH];
  memset(scratch, 0, sizeof scratch);
  const Machine *mach = w->m;
  Span s = span_of(addr, m);
  u32 where = space;
  u64 strip = 0;
  if (space == SPACE_GENERIC) {
    u64 window = s.lo >> WINDOW_SHIFT;
    if (window == s.hi >> WINDOW_SHIFT && window <= WINDOW_SHARED) {
      where = window ? SPACE_CLUSTER : SPACE_GLOBAL;
      strip = window << WINDOW_SHIFT;
    }
  }
  int aligned = !align || !(s.low_bits & (align - 1));
  if (where == SPACE_GLOBAL && aligned && s.hi < ~0ull - size) {
    const Alloc *a = gmem_tracked_span(w->m, i, s.lo, s.hi + size, access);
    if (a && (!a->init || track(a, addr, m, size, access))) {
      point(p, addr, m, (u64)a->host - a->va, scratch);
      return;
    }
  } else if ((where == SPACE_SHARED || where == SPACE_CLUSTER) && aligned) {
    /* the window of one CTA; anything else takes the long way */
    const Cta *c = where == SPACE_SHARED ? w->cta : smem_cta(w->cta, (u32)s.lo);
    if (!c || !c->live_warps) c = w->cta;
    u64 base = ((u64)c->rank << 24) + SMEM_BASE + strip;
    if (size <= mach->smem_size && s.lo >= base &&
        s.hi - base <= mach->smem_size - size) {
      point(p, addr, m, (u64)c->smem - base, scratch);
      return;
    }
  } else if (where == SPACE_LOCAL && aligned && size <= mach->local_bytes &&
             s.hi <= mach->local_bytes - size) {
    for (u32 l = 0; l < LANES; l++)
      p[l] = (m >> l) & 1u ? w->local + (u64)l * mach->local_bytes + addr[l] : scratch;
    return;
  }
  one_by_one(w, i, m, space, addr, size, align, access, p, scratch);
}

u32 shared_address(Warp *w, const Insn *i, u32 lane, u32 space, u64 addr, u32 size) {
  if (space == SPACE_GENERIC) {
    if (addr >> WINDOW_SHIFT != WINDOW_SHARED) {
      fault(w, i, lane, FAULT_ILLEGAL, addr, size, 0);
      return 0;
    }
    addr &= (1ull << WINDOW_SHIFT) - 1;
  }
  if (addr >> 32 || !addr) {
    fault(w, i, lane, FAULT_SMEM_OOB, addr, size, w->m->smem_size);
    return 0;
  }
  return (u32)addr;
}
