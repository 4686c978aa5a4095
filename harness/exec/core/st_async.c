/* st.async and red.async (PTX ISA): single accesses to a cluster's shared memory that
 * complete at an mbarrier, and to global memory, which are complete when the CTA ends.
 *
 * a = address, imm = offset, b = mbarrier (row as wide as a), x[0] = space | ADDR64,
 * x[1] = bytes of an element, x[2] = offset of the mbarrier, x[3] = 0 for a store,
 * else 1 + operation | type << 8; ext = elements.
 */
#include "access.h"
#include "atomic.h"
#include "cluster.h"
#include "mbarrier.h"
#include "observer.h"

enum { A_AT = 0, A_MBAR, A_SIZE, A_HOW, A_DATA };

static void land(Machine *m, Async *op) {
  u32 size = (u32)op->arg[A_SIZE], how = (u32)op->arg[A_HOW];
  u32 addr = (u32)op->arg[A_AT];
  u8 *at = smem_ptr(op->cta, addr, size); /* checked when issued */
  if (smem_gone(op->cta, addr)) {
    fault_at(m, op->insn, op->cta, op->warp->id, op->lane, FAULT_CLUSTER, addr, size,
             CLUSTER_EXITED);
    return;
  }
  OBSERVE(m, engine, op, SPACE_SHARED, addr, size, how ? ACCESS_ATOMIC : ACCESS_WRITE);
  if (at && !how) {
    memcpy(at, &op->arg[A_DATA], size);
  } else if (at) {
    u64 old = 0, new;
    memcpy(&old, at, size);
    new = atomic_word((how & 0xff) - 1, how >> 8, size == 8, old, op->arg[A_DATA]);
    memcpy(at, &new, size);
  }
  mbarrier_complete_tx(m, op->insn, op->cta, (u32)op->arg[A_MBAR], size);
}

/* Element k of lane l into 16 bytes at out + k * size. */
static void take(const Warp *w, const Insn *i, u32 l, u64 *out) {
  u32 size = (u32)i->x[1];
  for (s32 k = 0; k < i->n_ext; k++) {
    s32 ref = w->m->ext[i->ext + k];
    u64 v[2] = {0, 0};
    if (size == 4) v[0] = R32(ref)[l];
    else v[0] = R64(ref)[l];
    if (size == 16) v[1] = R64(ref)[LANES + l];
    memcpy((u8 *)out + size * (u32)k, v, size);
  }
}

static int st_async(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES], bar[LANES];
  u32 space = (u32)i->x[0] & 0xff, size = (u32)i->x[1] * (u32)i->n_ext;
  lane_addresses(w, i, i->a, addr);
  for (u32 l = 0; l < LANES; l++)
    bar[l] = i->x[0] & ADDR64 ? R64(i->b)[l] + (u64)(s64)i->x[2]
                              : (u32)(R32(i->b)[l] + (u32)i->x[2]);
  if (size > 16) return stop_launch(w, i, ST_UNSUPPORTED);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u32 at = shared_address(w, i, l, space, addr[l], size);
    u32 mbar = shared_address(w, i, l, space, bar[l], 8);
    if (!at || !mbar || !smem(w, i, l, at, size, size) || !smem(w, i, l, mbar, 8, 8))
      continue;
    int own = smem_cta(w->cta, at) == w->cta;
    u32 error = w->m->cluster_size < 2                           ? CLUSTER_ALONE
                : smem_cta(w->cta, at) != smem_cta(w->cta, mbar) ? CLUSTER_APART
                : i->x[3] && own                                 ? CLUSTER_OWN
                                                                 : CLUSTER_OK;
    if (error) {
      fault(w, i, l, FAULT_CLUSTER, at, mbar, error);
      continue;
    }
    Async *op = async_new(w, i, ASYNC_OTHER, land);
    if (!op) return STEP_STOP;
    op->lane = l;
    op->mask = 1u << l;
    op->arg[A_AT] = at;
    op->arg[A_MBAR] = mbar;
    op->arg[A_SIZE] = size;
    op->arg[A_HOW] = (u32)i->x[3];
    op->arg[A_DATA] = op->arg[A_DATA + 1] = 0;
    take(w, i, l, &op->arg[A_DATA]);
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

static void global_land(Machine *m, Async *op) {
  u32 size = (u32)op->arg[A_SIZE], how = (u32)op->arg[A_HOW];
  u8 *at = gmem_async(m, op->insn, op->cta, op->warp->id, op->lane, op->arg[A_AT], size,
                      size, how ? ACCESS_ATOMIC : ACCESS_WRITE);
  if (!at) return;
  OBSERVE(m, engine, op, SPACE_GLOBAL, op->arg[A_AT], size, how ? ACCESS_ATOMIC : ACCESS_WRITE);
  u64 old = 0, new = op->arg[A_DATA];
  if (how) {
    memcpy(&old, at, size);
    new = atomic_word((how & 0xff) - 1, how >> 8, size == 8, old, new);
  }
  memcpy(at, &new, size);
}

/* As above without a barrier: one element, an address in global memory. */
static int global_async(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    if (addr[l] >> WINDOW_SHIFT) {
      fault(w, i, l, FAULT_ILLEGAL, addr[l], (u32)i->x[1], 0);
      continue;
    }
    Async *op = async_new(w, i, ASYNC_OTHER, global_land);
    if (!op) return STEP_STOP;
    op->lane = l;
    op->mask = 1u << l;
    op->arg[A_AT] = addr[l];
    op->arg[A_SIZE] = (u32)i->x[1];
    op->arg[A_HOW] = (u32)i->x[3];
    s32 ref = w->m->ext[i->ext];
    op->arg[A_DATA] = i->x[1] == 8 ? R64(ref)[l] : R32(ref)[l];
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

const OpEntry ops_st_async[] = {
    {"st.async", st_async}, {"async.global", global_async}, {0, 0}};
