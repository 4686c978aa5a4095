/* Bulk copies without a tensor map, and bulk async-groups (PTX ISA, "cp.async.bulk",
 * "cp.reduce.async.bulk", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group").
 *
 * ext = destination, source, size, mbarrier, mask (CTAs, or bytes of 16), bytes to
 * ignore at the left and at the right (.ignore_oob);
 * x = reduction (loads: 1 if only the CTA's own memory will do), its type, offset of
 * the mbarrier, offset of the destination;
 * imm = offset of the source.
 */
#include <stdlib.h>

#include "bulk_group.h"
#include "bulk_reduce.h"
#include "cluster.h"
#include "mbarrier.h"
#include "observer.h"

enum { EXT_DST = 0, EXT_SRC, EXT_SIZE, EXT_MBAR, EXT_MASK, EXT_LEFT, EXT_RIGHT };
enum { X_RED = 0, X_OWN = X_RED, X_TYPE, X_MBAR_OFFSET, X_DST_OFFSET };
enum { INDETERMINATE = 0xdb };
enum { A_DST = 0, A_SRC, A_SIZE, A_MBAR, A_MASK, A_LEFT, A_RIGHT, A_END };
/* What is wrong with a copy; the info of FAULT_BULK. */
enum { BULK_SIZE = 1, BULK_DST_ALIGN, BULK_SRC_ALIGN, BULK_MBAR_ALIGN, BULK_IGNORED };

static u8 *shared(Machine *m, const Async *op, u32 addr, u64 size, u32 access) {
  u8 *p = smem_ptr(op->cta, addr, size);
  int gone = smem_gone(op->cta, addr);
  if (p && !gone) {
    OBSERVE(m, engine, op, SPACE_SHARED, addr, size, access);
    return p;
  }
  fault_at(m, op->insn, op->cta, op->warp->id, op->lane,
           gone ? FAULT_CLUSTER : FAULT_SMEM_OOB, addr, size,
           gone ? CLUSTER_EXITED : m->smem_size);
  return NULL;
}

static u8 *global(Machine *m, const Async *op, u64 va, u64 size, u32 access) {
  u8 *p = gmem_async(m, op->insn, op->cta, op->warp->id, op->lane, va, size, 0, access);
  if (p) OBSERVE(m, engine, op, SPACE_GLOBAL, va, size, access);
  return p;
}

/* Write `from`, or zeros for a source that could not be read, and count the bytes. */
static void deliver(Machine *m, const Async *op, u32 dst, u32 mbar, const u8 *from,
                    u32 red) {
  u64 size = op->arg[A_SIZE];
  u8 *to = shared(m, op, dst, size, red ? ACCESS_ATOMIC : ACCESS_WRITE);
  if (to && red && from) reduce_elements(red, (u32)op->insn->x[X_TYPE], to, from, size);
  else if (to && from) memmove(to, from, size);
  else if (to && !red) memset(to, 0, size);
  m->tma_bytes += size;
  if (size <= m->smem_size)
    mbarrier_complete_tx(m, op->insn, op->cta, mbar, (u32)size);
}

static void load_land(Machine *m, Async *op) {
  u64 size = op->arg[A_SIZE], left = op->arg[A_LEFT];
  u64 kept = size - left - op->arg[A_RIGHT]; /* the rest need not even exist */
  const u8 *from = global(m, op, op->arg[A_SRC] + left, kept, ACCESS_READ);
  u32 dst = (u32)op->arg[A_DST], mbar = (u32)op->arg[A_MBAR];
  if (kept < size && from) { /* ignored bytes are indeterminate: never what they were */
    op->data = malloc(size);
    if (op->data) {
      memset(op->data, INDETERMINATE, size);
      memcpy(op->data + left, from, kept);
    }
    from = op->data;
  }
  if (m->ext[op->insn->ext + EXT_MASK] == NOREF) {
    deliver(m, op, dst, mbar, from, 0);
    return;
  }
  for (u32 rank = 0; rank < 16; rank++)
    if (op->arg[A_MASK] >> rank & 1u)
      deliver(m, op, rank << 24 | (dst & 0xffffffu), rank << 24 | (mbar & 0xffffffu), from, 0);
}

static void cluster_land(Machine *m, Async *op) {
  op->element = reduce_bytes((u32)op->insn->x[X_RED], (u32)op->insn->x[X_TYPE]);
  const u8 *from = shared(m, op, (u32)op->arg[A_SRC], op->arg[A_SIZE], ACCESS_READ);
  deliver(m, op, (u32)op->arg[A_DST], (u32)op->arg[A_MBAR], from,
          (u32)op->insn->x[X_RED]);
}

static void write_land(Machine *m, Async *op) {
  u64 size = op->arg[A_SIZE];
  u32 red = (u32)op->insn->x[X_RED];
  u64 mask = op->arg[A_MASK];
  op->element = reduce_bytes(red, (u32)op->insn->x[X_TYPE]);
  m->tma_bytes += size;
  if (mask == 0xffff || red) {
    u8 *to = global(m, op, op->arg[A_DST], size, red ? ACCESS_ATOMIC : ACCESS_WRITE);
    if (to && red) reduce_elements(red, (u32)op->insn->x[X_TYPE], to, op->data, size);
    else if (to) memcpy(to, op->data, size);
    return;
  }
  /* .cp_mask: bit k says whether byte k of every 16 is written */
  for (u64 k = 0; k < size; k++) {
    if (!(mask >> (k & 15) & 1u)) continue;
    u8 *to = global(m, op, op->arg[A_DST] + k, 1, ACCESS_WRITE);
    if (to) *to = op->data[k];
  }
}

static void read_land(Machine *m, Async *op) {
  u64 size = op->arg[A_SIZE];
  const u8 *from = shared(m, op, (u32)op->arg[A_SRC], size, ACCESS_READ);
  if (!from) return;
  u8 *data = malloc(size ? size : 1);
  Async *next = data ? async_new(op->warp, op->insn, ASYNC_BULK_WRITE, write_land) : NULL;
  if (!next) {
    free(data);
    stop_launch(op->warp, op->insn, ST_INTERNAL);
    return;
  }
  memcpy(data, from, size);
  next->data = data;
  memcpy(next->arg, op->arg, A_END * sizeof *op->arg);
  next->cta = op->cta;
  next->lane = op->lane;
  next->mask = op->mask;
  next->group = op->group;
  async_push(m, next);
}

/* Size and alignment rules; 0 or what is broken. */
static u32 wrong(const u64 *a, u32 element, int has_mbar) {
  if (a[A_SIZE] & 15 || (element && a[A_SIZE] % element)) return BULK_SIZE;
  if (a[A_DST] & 15) return BULK_DST_ALIGN;
  if (a[A_SRC] & 15) return BULK_SRC_ALIGN;
  if (a[A_LEFT] > 15 || a[A_RIGHT] > 15 || a[A_LEFT] + a[A_RIGHT] > a[A_SIZE])
    return BULK_IGNORED;
  return has_mbar && a[A_MBAR] & 7 ? BULK_MBAR_ALIGN : 0;
}

/* Whose shared memory a copy names: enum ClusterError. `masked`: to several CTAs. */
static u32 wrong_cta(const Warp *w, const Insn *i, const u64 *a, LandFn land, int masked) {
  const Cta *to = smem_cta(w->cta, (u32)a[A_DST]), *from = smem_cta(w->cta, (u32)a[A_SRC]);
  const Cta *bar = smem_cta(w->cta, (u32)a[A_MBAR]);
  if (land != load_land && from != w->cta) return from ? CLUSTER_FOREIGN : CLUSTER_NO_CTA;
  if (land == read_land) return CLUSTER_OK;
  if (!to || !bar) return CLUSTER_NO_CTA;
  if (land == cluster_land) return to == w->cta ? CLUSTER_OWN : CLUSTER_OK;
  if (masked && a[A_MASK] >> w->m->cluster_size) return CLUSTER_NO_CTA;
  return i->x[X_OWN] && to != w->cta ? CLUSTER_FOREIGN : CLUSTER_OK;
}

/* Lanes are threads of their own here: each issues its copy. */
static int issue(Warp *w, const Insn *i, u32 m, u32 kind, LandFn land, int wide_dst,
                 int wide_src) {
  const s32 *ref = w->m->ext + i->ext;
  int has_mbar = ref[EXT_MBAR] != NOREF, has_mask = ref[EXT_MASK] != NOREF;
  u32 red = land == load_land ? 0 : (u32)i->x[X_RED];
  u32 element = red ? reduce_bytes(red, (u32)i->x[X_TYPE]) : 0;
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    u64 a[A_END];
    a[A_DST] = wide_dst ? R64(ref[EXT_DST])[l] + (u64)(s64)i->x[X_DST_OFFSET]
                        : R32(ref[EXT_DST])[l] + (u32)i->x[X_DST_OFFSET];
    a[A_SRC] = wide_src ? R64(ref[EXT_SRC])[l] + (u64)i->imm
                        : R32(ref[EXT_SRC])[l] + (u32)i->imm;
    a[A_SIZE] = R32(ref[EXT_SIZE])[l];
    a[A_MBAR] = has_mbar ? R32(ref[EXT_MBAR])[l] + (u32)i->x[X_MBAR_OFFSET] : 0;
    a[A_LEFT] = ref[EXT_LEFT] != NOREF ? R32(ref[EXT_LEFT])[l] : 0;
    a[A_RIGHT] = ref[EXT_RIGHT] != NOREF ? R32(ref[EXT_RIGHT])[l] : 0;
    a[A_MASK] = has_mask ? R32(ref[EXT_MASK])[l] & 0xffffu : 0xffff;
    u32 error = wrong(a, element, has_mbar);
    u32 peer = error ? 0 : wrong_cta(w, i, a, land, has_mask);
    if (error || peer) {
      fault(w, i, l, error ? FAULT_BULK : FAULT_CLUSTER, a[A_DST], a[A_SIZE],
            error ? error : peer);
      continue;
    }
    Async *op = async_new(w, i, kind, land);
    if (!op) return STEP_STOP;
    memcpy(op->arg, a, sizeof a);
    op->lane = l;
    op->mask = 1u << l;
    op->group = bulk_group_step(w->bulk_committed[l], BULK_GROUP_ISSUE, 0, 0).value;
    op->work = a[A_SIZE];
    async_push(w->m, op);
  }
  return STEP_NEXT;
}

static int load(Warp *w, const Insn *i, u32 m) {
  return issue(w, i, m, ASYNC_BULK_LOAD, load_land, 0, 1);
}
static int cluster(Warp *w, const Insn *i, u32 m) {
  return issue(w, i, m, ASYNC_BULK_LOAD, cluster_land, 0, 0);
}
static int store(Warp *w, const Insn *i, u32 m) {
  return issue(w, i, m, ASYNC_BULK_STORE, read_land, 1, 0);
}

/* ext as above: nothing moves, but size and address have their rules. */
static int prefetch(Warp *w, const Insn *i, u32 m) {
  const s32 *ref = w->m->ext + i->ext;
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    u64 a[A_END] = {0};
    a[A_SRC] = R64(ref[EXT_SRC])[l] + (u64)i->imm;
    a[A_SIZE] = R32(ref[EXT_SIZE])[l];
    u32 error = wrong(a, 0, 0);
    if (error) fault(w, i, l, FAULT_BULK, a[A_SRC], a[A_SIZE], error);
  }
  return STEP_NEXT;
}

static int commit(Warp *w, const Insn *i, u32 m) {
  (void)i;
  u32 *c = w->bulk_committed;
  for (int l = 0; l < LANES; l++)
    if (lane_on(m, l)) c[l] = bulk_group_step(c[l], BULK_GROUP_COMMIT, 0, 0).committed;
  return STEP_NEXT;
}

static void tell(const Warp *w, const Insn *i, u32 m) {
  u32 end[LANES], n = (u32)i->x[0];
  for (u32 l = 0; l < LANES; l++)
    end[l] = w->bulk_committed[l] > n ? w->bulk_committed[l] - n : 0;
  OBSERVE(w->m, groups, w, i, m, ASYNC_BULK_STORE, end, (u32)i->x[1]);
}

/* x[0] = N, x[1] = 1 for .read: only the reading of the sources is waited for */
static int wait(Warp *w, const Insn *i, u32 m) {
  const Machine *mach = w->m;
  u32 pending = 0;
  for (u32 k = 0; k < mach->n_queue; k++) {
    const Async *op = mach->queue[k];
    int reading = op->kind == ASYNC_BULK_STORE, writing = op->kind == ASYNC_BULK_WRITE;
    if (op->warp != w || !(reading || (writing && !i->x[1]))) continue;
    for (u32 left = op->mask & m; left; left &= left - 1) {
      u32 c = w->bulk_committed[__builtin_ctz(left)];
      pending += bulk_group_step(c, BULK_GROUP_WAIT, (u32)i->x[0], op->group).value;
    }
  }
  if (!pending) {
    if (mach->observer) tell(w, i, m);
    return STEP_NEXT;
  }
  block_on(w, BLOCK_ASYNC, 0, pending);
  return STEP_BLOCK;
}

/* For the property tests: committed in the low half, value in the high one. */
u64 ss_bulk_group_step(u32 committed, u32 op, u32 arg, u32 group) {
  BulkGroupResult r = bulk_group_step(committed, op, arg, group);
  return (u64)r.value << 32 | r.committed;
}

const OpEntry ops_bulk[] = {
    {"bulk.load", load},         {"bulk.cluster", cluster}, {"bulk.store", store},
    {"bulk.prefetch", prefetch}, {"bulk.commit", commit},   {"bulk.wait", wait},
    {0, 0}};
