/* cp.async: copies of 4, 8 or 16 bytes that land later, and how they are waited for.
 *
 * PTX ISA, Data Movement and Conversion Instructions: cp.async, cp.async.commit_group,
 * cp.async.wait_group, cp.async.wait_all; cp.async.mbarrier.arrive. Groups are a
 * thread's own; those of one group, and different groups, land in any order.
 */
#include "access.h"
#include "mbarrier.h"
#include "observer.h"

enum { MOST = 16 };

/* lanes[l] = {shared address | source bytes << 32, global address}; arg[0] = size */
static void land_copy(Machine *m, Async *op) {
  u32 size = (u32)op->arg[0];
  for (u32 left = op->mask; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u32 dst = (u32)op->lanes[l][0], bytes = (u32)(op->lanes[l][0] >> 32);
    u8 data[MOST] = {0};
    if (bytes) {
      const u8 *src = gmem_async(m, op->insn, op->cta, op->warp->id, l, op->lanes[l][1],
                                 bytes, 0, ACCESS_READ);
      OBSERVE(m, engine, op, SPACE_GLOBAL, op->lanes[l][1], bytes, ACCESS_READ);
      if (src) memcpy(data, src, bytes);
    }
    u8 *to = smem_ptr(op->cta, dst, size);
    OBSERVE(m, engine, op, SPACE_SHARED, dst, size, ACCESS_WRITE);
    if (to) memcpy(to, data, size); /* checked when it was issued */
  }
}

/* a = destination, imm = its offset, b = source (64-bit row), x[3] = its offset,
 * c = source bytes (NOREF: all), x[0] = space of the destination | ADDR64,
 * x[1] = size, x[2] = 1: c is a predicate that says to copy nothing. */
static int copy(Warp *w, const Insn *i, u32 m) {
  u64 dst[LANES];
  u32 size = (u32)i->x[1], good = 0, part[LANES];
  const u64 *src = R64(i->b);
  lane_addresses(w, i, i->a, dst);
  for (u32 l = 0; l < LANES; l++) {
    part[l] = i->c == NOREF ? size : i->x[2] ? (lane_on(RP(i->c), (int)l) ? 0 : size)
                                             : R32(i->c)[l];
    if (!lane_on(m, (int)l)) continue;
    u64 from = src[l] + (u64)(s64)i->x[3];
    if (part[l] > size) {
      fault(w, i, l, FAULT_ILLEGAL, from, part[l], size);
      part[l] = size;
    }
    if (part[l] && from & (size - 1)) {
      fault(w, i, l, FAULT_MISALIGNED, from, size, ACCESS_READ);
      part[l] = 0;
    }
    u32 to = shared_address(w, i, l, (u32)i->x[0] & 0xff, dst[l], size);
    if (to && smem(w, i, l, to, size, size)) good |= 1u << l;
    dst[l] = to;
  }
  /* one operation for the lanes whose group has the same number */
  for (u32 left = good; left;) {
    u32 number = w->cpa_committed[__builtin_ctz(left)];
    Async *op = async_new(w, i, ASYNC_CP, land_copy);
    if (!op) return STEP_STOP;
    op->group = number;
    op->arg[0] = size;
    for (u32 l = 0; l < LANES; l++) {
      if (!lane_on(left, (int)l) || w->cpa_committed[l] != number) continue;
      op->mask |= 1u << l;
      op->lanes[l][0] = (u32)dst[l] | (u64)part[l] << 32;
      op->lanes[l][1] = src[l] + (u64)(s64)i->x[3];
    }
    left &= ~op->mask;
    op->work = (u64)size * (u32)__builtin_popcount(op->mask);
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

static int commit(Warp *w, const Insn *i, u32 m) {
  (void)i;
  for (u32 l = 0; l < LANES; l++) w->cpa_committed[l] += (m >> l) & 1u;
  return STEP_NEXT;
}

/* Operations in flight that some lane of m may not leave behind: those of its groups
 * numbered below end[l]. */
static u32 outstanding(const Warp *w, u32 m, const u32 *end) {
  const Machine *mach = w->m;
  u32 n = 0;
  for (u32 k = 0; k < mach->n_queue; k++) {
    const Async *op = mach->queue[k];
    if (op->warp != w || op->kind != ASYNC_CP) continue;
    for (u32 left = op->mask & m; left; left &= left - 1) {
      if (op->group < end[__builtin_ctz(left)]) {
        n++;
        break;
      }
    }
  }
  return n;
}

/* imm = groups that may be pending; x[0] = 1: wait_all, uncommitted copies too */
static int wait_group(Warp *w, const Insn *i, u32 m) {
  if (!w->m->n_queue && !w->m->observer) return STEP_NEXT;
  u32 end[LANES];
  for (u32 l = 0; l < LANES; l++) {
    u64 done = w->cpa_committed[l];
    end[l] = i->x[0] ? (u32)done + 1 : done > (u64)i->imm ? (u32)(done - (u64)i->imm) : 0;
  }
  u32 n = outstanding(w, m, end);
  if (!n) {
    OBSERVE(w->m, groups, w, i, m, ASYNC_CP, end, 0);
    return STEP_NEXT;
  }
  block_on(w, BLOCK_ASYNC, 0, n);
  return STEP_BLOCK;
}

/* The arrival comes when the thread's earlier copies are complete: those still in
 * flight land now, just before it. arg[0] = barrier, lane = the thread. */
static void land_arrive(Machine *m, Async *op) {
  for (u32 k = 0; k < m->n_queue;) {
    const Async *other = m->queue[k];
    if (other->warp == op->warp && other->kind == ASYNC_CP && other->seq < op->seq &&
        ((other->mask >> op->lane) & 1u))
      async_land_one(m, k);
    else k++;
  }
  mbarrier_arrive_async(m, op->insn, op->cta, (u32)op->arg[0], 1);
}

/* a = address, imm = offset, x[0] = space | ADDR64, x[1] = noinc */
static int mbarrier_arrive(Warp *w, const Insn *i, u32 m) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u32 at = shared_address(w, i, l, (u32)i->x[0] & 0xff, addr[l], 8);
    if (!at || !smem(w, i, l, at, 8, 8)) continue;
    if (!i->x[1]) mbarrier_pend(w, i, l, at);
    Async *op = async_new(w, i, ASYNC_CP_ARRIVE, land_arrive);
    if (!op) return STEP_STOP;
    op->lane = l;
    op->mask = 1u << l;
    op->arg[0] = at;
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

const OpEntry ops_cp_async[] = {
    {"cp.async", copy}, {"cp.async.commit", commit}, {"cp.async.wait", wait_group},
    {"cp.async.mbarrier.arrive", mbarrier_arrive}, {0, 0},
};
