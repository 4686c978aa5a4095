/* From the events of the virtual GPU to those of the detector. */
#include <string.h>

#include "watch.h"

#include <stdlib.h>

#include "tcgen05_operand.h"
#include "tcgen05_order.h"
#include "tma.h"

/* --- CTAs ------------------------------------------------------------------------- */
static void cta(void *state, const Cta *c) {
  Watch *h = state;
  const Machine *m = c->m;
  for (u32 w = 0; w < m->warps_per_cta; w++)
    h->list[c->slot * m->warps_per_cta + w].n = 0;
  if (h->written) written_clear(h->written, c->slot);
  if (h->registers) registers_clear(h->registers, c->slot);
  detector_cta(h->detector, c->slot, m->block[0] * m->block[1] * m->block[2], c->linear);
}

static void leave(void *state, const Warp *w, u32 lanes) {
  Watch *h = state;
  detector_exit(h->detector, w->cta->slot, w->id, lanes);
}

/* --- accesses by lanes -------------------------------------------------------------- */
static u32 flags_of(u32 access, Note n) {
  return (access & ACCESS_WRITE ? ENTRY_WRITE : 0) |
         (n.sem || access == ACCESS_ATOMIC ? ENTRY_STRONG : 0);
}

/* A strong access may hand over what the thread knows, and may learn. */
static void synchronise(Watch *h, const Warp *w, u32 lanes, const u64 *addr, u64 space,
                        u32 access, Note n) {
  u32 slot = w->cta->slot;
  for (u32 left = lanes; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u64 at = addr[l];
    if (space) { /* a word of one CTA's shared memory */
      u64 rank = at >> 24 & 0xff;
      at = 1ull << 63 | (w->cta->first_slot + rank) << 24 | (at & 0xffffffu);
    }
    if (access & ACCESS_READ && !n.red)
      detector_acquire(h->detector, slot, w->id, l, at,
                       n.sem != SEM_ACQUIRE && n.sem != SEM_ACQ_REL, n.scope);
    if (access & ACCESS_WRITE)
      detector_release(h->detector, slot, w->id, l, at,
                       n.sem != SEM_RELEASE && n.sem != SEM_ACQ_REL, n.scope,
                       access == ACCESS_ATOMIC);
  }
}

/* Lanes whose store will leave the bytes as they are. */
static u32 unchanged(const Warp *w, u32 lanes, u32 slot, const u32 *offset, u32 size) {
  u32 same = 0;
  for (u32 left = lanes; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    const u8 *value = (const u8 *)w->storing + l * size;
    same |= (u32)!memcmp(w->m->ctas[slot].smem + offset[l], value, size) << l;
  }
  return same;
}

static void shared(Watch *h, const Warp *w, const Insn *i, u32 m, const u64 *addr,
                   u32 size, u32 access, Note n) {
  const Machine *mach = w->m;
  for (u32 left = m, group = 0; left; left &= ~group) {
    u32 rank = (u32)addr[__builtin_ctz(left)] >> 24, offset[LANES];
    group = 0;
    for (u32 l = 0; l < LANES; l++) {
      u32 at = ((u32)addr[l] & 0xffffffu) - SMEM_BASE;
      int inside = size <= mach->smem_size && at <= mach->smem_size - size;
      group |= (u32)((u32)addr[l] >> 24 == rank) << l;
      offset[l] = at;
      if (!inside) left &= ~(1u << l); /* a fault, told elsewhere */
    }
    group &= left;
    if (group && rank < mach->cluster_size) {
      u32 slot = w->cta->first_slot + rank, flags = flags_of(access, n);
      if (h->written)
        written_lanes(h->written, w, pc_of(mach, i), group, slot, offset, size, access);
      const u8 *value = flags == ENTRY_WRITE ? w->storing : NULL;
      u32 same = value ? unchanged(w, group, slot, offset, size) : 0;
      Detector *d = told(h, w);
      if (group & ~same)
        detector_shared(d, w->cta->slot, w->id, pc_of(mach, i), group & ~same, slot, offset,
                        size, flags, n.scope, value);
      if (same)
        detector_shared(d, w->cta->slot, w->id, pc_of(mach, i), same, slot, offset, size,
                        flags, WRITE_KEEPS, value);
    }
    if (!group) return;
  }
}

/* `m` access words at addr[lane], one operation of the memory model each. */
static void words(Watch *h, const Warp *w, const Insn *i, u32 m, u32 space, const u64 *addr,
                  u32 size, u32 access, Note n) {
  u32 global = 0, local = 0;
  for (u32 l = 0; l < LANES; l++) {
    u64 window = space == SPACE_GENERIC ? addr[l] >> WINDOW_SHIFT
                 : space == SPACE_SHARED || space == SPACE_CLUSTER ? WINDOW_SHARED
                                                                   : 0;
    global |= (u32)(window == 0) << l;
    local |= (u32)(window == WINDOW_SHARED) << l;
  }
  global &= m;
  local &= m;
  if (local) {
    shared(h, w, i, local, addr, size, access, n);
    if (n.sem) synchronise(h, w, local, addr, 1, access, n);
  }
  if (global) {
    u32 flags = flags_of(access, n);
    detector_global(told(h, w), w->cta->slot, w->id, pc_of(w->m, i), global, addr, size,
                    flags, n.constant ? READ_CONSTANT : n.scope, flags == ENTRY_WRITE ? w->storing : NULL);
    if (n.sem) synchronise(h, w, global, addr, 0, access, n);
  }
}

static void lanes(void *state, const Warp *w, const Insn *i, u32 m, u32 space,
                  const u64 *addr, u32 size, u32 access) {
  Watch *h = state;
  Note n = note_of(h, w, i);
  if ((access == ACCESS_ATOMIC || access == ACCESS_TRIED) && !n.sem) n.sem = SEM_RELAXED;
  /* PTX ISA, Memory Consistency Model: Operation types: a write "if they result in" one */
  if (access == ACCESS_TRIED) access = ACCESS_READ;
  if (space == SPACE_LOCAL || space == SPACE_PARAM) return;
  if (h->detector->keep_digest)
    detector_digest(h->detector, w->cta->slot, w->id, (u32)__builtin_ctz(m));
  if (!n.sem || !n.unit) {
    words(h, w, i, m, space, addr, size, access, n);
    return;
  }
  /* Only of strong operations it matters that a vector is several. */
  u64 at[LANES];
  memcpy(at, addr, sizeof at);
  for (u32 done = 0; done < size; done += n.unit) {
    words(h, w, i, m, space, at, n.unit, access, n);
    for (u32 l = 0; l < LANES; l++) at[l] += n.unit;
  }
}

/* --- engines ------------------------------------------------------------------------ */
/* PTX ISA, Proxies: cp.async, st.async and red.async are of the generic proxy. */
static u32 proxy_of(const Async *op) {
  return op->kind == ASYNC_CP || op->kind == ASYNC_CP_ARRIVE || op->kind == ASYNC_OTHER
             ? 0
             : ENTRY_ASYNC;
}

/* Lanes that do the same store give the same; another store gives the same by chance. */
static u32 task_of(const Async *op) {
  u32 hash = 2166136261u;
  for (u32 k = 0; k < sizeof op->arg / sizeof *op->arg; k++) {
    u64 word = k == A_LANE ? 0 : op->arg[k];
    hash = (hash ^ (u32)word) * 16777619u;
    hash = (hash ^ (u32)(word >> 32)) * 16777619u;
  }
  return hash | 1u;
}

static u32 form_of(const Async *op) {
  if (op->kind == ASYNC_TC_MMA) return tcgen05_issued(op)->form;
  if (op->kind == ASYNC_TC_SHIFT) return FORM_SHIFT;
  return tcgen05_issued(op)->small ? FORM_SMALL_COPY : FORM_COPY;
}

static void issue(void *state, Async *op, const Async *parent) {
  Watch *h = state;
  const Warp *w = op->warp;
  u32 of = op->mask ? op->mask : 1u << op->lane;
  Detector *d = told(h, w);
  u32 slot = w->cta->slot;
  if (op->kind == ASYNC_TMEM_LD || op->kind == ASYNC_TMEM_ST) return; /* see tensor() */
  if (d->keep_digest && !parent) detector_digest(d, slot, w->id, (u32)__builtin_ctz(of));
  if (parent) op->agent = detector_follow(d, parent->agent);
  else if (op->kind == ASYNC_TC_MMA || op->kind == ASYNC_TC_SHIFT || op->kind == ASYNC_TC_CP)
    op->agent = detector_core(d, slot, w->id, op->lane, form_of(op));
  else if (op->kind == ASYNC_TC_COMMIT)
    op->agent = detector_commit(d, slot, w->id, op->lane);
  else op->agent = detector_issue(d, slot, w->id, of);
  if (op->kind == ASYNC_BULK_STORE) detector_task(d, op->agent, task_of(op));
  if (watch_grouped(op->kind)) watch_group(h, op, of);
}

static void engine(void *state, const Async *op, u32 space, u64 addr, u64 size,
                   u32 access) {
  Watch *h = state;
  u32 flags = (access & ACCESS_WRITE ? ENTRY_WRITE : 0) | proxy_of(op) |
              (access == ACCESS_ATOMIC ? ENTRY_STRONG : 0);
  if (access == ACCESS_MAP) flags = ENTRY_MAP;
  u32 pc = pc_of(op->cta->m, op->insn);
  EngineAgent *e = detector_engine(h->detector, op->agent);
  if (e) e->element = op->element;
  if (space == SPACE_GLOBAL) {
    detector_engine_global(h->detector, op->agent, pc, addr, size, flags);
  } else {
    u32 at = (u32)addr & 0xffffffu, rank = (u32)addr >> 24;
    u32 slot = op->cta->first_slot + rank;
    if (at < SMEM_BASE || rank >= op->cta->m->cluster_size) return;
    detector_engine_shared(h->detector, op->agent, pc, slot, at - SMEM_BASE, size, flags);
    if (h->written) written_engine(h->written, op, pc, slot, at - SMEM_BASE, size, access);
  }
}

static void engine_chunks(void *state, const Async *op, const u32 *addr, u32 n) {
  Watch *h = state;
  u32 rank = addr[0] >> 24, offset[2 * TC_ROWS];
  if (rank >= op->cta->m->cluster_size) return;
  u32 slot = op->cta->first_slot + rank, pc = pc_of(op->cta->m, op->insn);
  for (u32 k = 0; k < n; k++) offset[k] = (addr[k] & 0xffffffu) - SMEM_BASE;
  detector_engine_chunks(h->detector, op->agent, pc, slot, offset, n, proxy_of(op));
  if (h->written) written_chunks(h->written, op, pc, slot, offset, n);
}

static void engine_tensor(void *state, const Async *op, const Cta *c, u32 lane, u32 n,
                          u32 column, u32 columns, u32 access) {
  Watch *h = state;
  detector_engine_tensor(h->detector, op->agent, pc_of(c->m, op->insn), c->slot, lane, n,
                         column, columns, access & ACCESS_WRITE ? ENTRY_WRITE : 0);
}

static void tensor(void *state, const Warp *w, const Insn *i, u32 lane, u32 n, u32 column,
                   u32 columns, u32 access, u32 second) {
  Watch *h = state;
  if (h->detector->keep_digest) detector_digest(h->detector, w->cta->slot, w->id, 0);
  detector_warp_tensor(told(h, w), w->cta->slot, w->id, pc_of(w->m, i),
                       access & ACCESS_WRITE ? PIPE_STORE : PIPE_LOAD, (u32)i->x[3], second,
                       lane, n, column, columns);
}

static void tensor_used(void *state, const Warp *w, const Insn *i) {
  Watch *h = state;
  const s32 *number = w->m->ext + i->ext;
  for (s64 k = 0; k < i->imm; k++)
    detector_load_used(h->detector, w->cta->slot, w->id, (u32)number[k]);
}

static void tensor_own(void *state, const Warp *w, const Insn *i, u32 column, u32 columns,
                       u32 taken) {
  Watch *h = state;
  u32 what = !taken ? TENSOR_FREED : i->x[1] == 2 ? TENSOR_TAKEN_BY_PAIR : TENSOR_TAKEN;
  detector_tensor_own(told(h, w), w->cta->slot, w->id, pc_of(w->m, i), column, columns, what);
}

static void tensor_wait(void *state, const Warp *w, u32 access) {
  Watch *h = state;
  if (weak(h, w)) return;
  detector_tensor_wait(told(h, w), w->cta->slot, w->id,
                       access & ACCESS_WRITE ? PIPE_STORE : PIPE_LOAD);
}

static void landed(void *state, const Async *op) {
  Watch *h = state;
  if (!watch_grouped(op->kind)) detector_drop(h->detector, op->agent);
}

/* --- barriers ----------------------------------------------------------------------- */
static void mbarrier(void *state, const Warp *w, const Insn *i, u32 m, u32 addr, u32 op) {
  Watch *h = state;
  Detector *d = told(h, w);
  u32 slot = w->cta->slot, pc = pc_of(w->m, i), rank = addr >> 24;
  Note n = note_of(h, w, i);
  if (rank >= w->m->cluster_size) return;
  u32 memory = w->cta->first_slot + rank, at = addr & 0xffffffu;
  u32 scope = n.scope | (n.sem == SEM_RELAXED ? SCOPE_RELAXED : 0u);
  switch (op) {
    case MBAR_INIT:
      detector_mbar_init(d, slot, w->id, pc, (u32)__builtin_ctz(m), memory, at);
      if (h->written && at >= SMEM_BASE) written_set(h->written, memory, at - SMEM_BASE, 8);
      break;
    case MBAR_ARRIVE:
    case MBAR_DROP:
      if (n.weak) detector_tick(d, slot, w->id);
      else detector_mbar_arrive(d, slot, w->id, pc, m, memory, at, scope);
      break;
    case MBAR_TEST_PARITY:
    case MBAR_TEST_STATE:
      if (!n.weak) detector_mbar_wait(d, slot, w->id, pc, m, at, scope);
      break;
    default:
      break;
  }
}

static void mbarrier_engine(void *state, const Async *op, u32 addr, u32 what) {
  Watch *h = state;
  const Machine *m = op->cta->m;
  u32 rank = addr >> 24, pc = pc_of(m, op->insn);
  if (rank >= m->cluster_size || what == MBAR_PEND) return;
  u32 memory = op->cta->first_slot + rank, at = addr & 0xffffffu;
  if (pc < h->n_notes && h->note[pc].weak) return; /* a commit or cp.async arrive */
  if (what == MBAR_ARRIVE && op->kind == ASYNC_CP_ARRIVE)
    watch_copies_before(h, op, pc, memory, at);
  detector_mbar_engine(h->detector, op->agent, pc, memory, at,
                       op->kind == ASYNC_TC_COMMIT);
}

static void mbarrier_phase(void *state, const Cta *c, u32 addr) {
  Watch *h = state;
  u32 rank = addr >> 24;
  if (rank < c->m->cluster_size)
    detector_mbar_phase(h->detector, c->first_slot + rank, addr & 0xffffffu);
}

static void barrier_arrive(void *state, const Warp *w, u32 m, u32 barrier) {
  Watch *h = state;
  if (weak(h, w)) detector_tick(h->detector, w->cta->slot, w->id);
  else detector_named_arrive(told(h, w), w->cta->slot, w->id, m, barrier);
}

static void barrier_complete(void *state, const Cta *c, u32 barrier) {
  Watch *h = state;
  detector_named_complete(h->detector, c->slot, barrier);
}

static void barrier_leave(void *state, const Warp *w, u32 m, u32 barrier) {
  Watch *h = state;
  if (!weak(h, w)) detector_named_leave(told(h, w), w->cta->slot, w->id, m, barrier);
}

static void cluster_arrive(void *state, const Warp *w, const Insn *i, u32 m) {
  Watch *h = state;
  Note n = note_of(h, w, i);
  if (n.weak) detector_tick(h->detector, w->cta->slot, w->id);
  else detector_cluster_arrive(told(h, w), w->cta->slot, w->id, m, n.sem == SEM_RELAXED);
}

static void cluster_complete(void *state, const Cta *c) {
  Watch *h = state;
  detector_cluster_complete(h->detector, c->slot);
}

static void cluster_wait(void *state, const Warp *w, const Insn *i, u32 m) {
  Watch *h = state;
  Note n = note_of(h, w, i);
  if (!n.weak) detector_cluster_wait(told(h, w), w->cta->slot, w->id, m, n.sem == SEM_RELAXED);
}

/* --- fences ------------------------------------------------------------------------- */
static void converge(void *state, const Warp *w, const Insn *i, u32 m) {
  (void)i;
  Watch *h = state;
  if (weak(h, w)) detector_tick(h->detector, w->cta->slot, w->id);
  else detector_converge(told(h, w), w->cta->slot, w->id, m);
}

static void meet(void *state, const Warp *w, const Insn *i, u32 m) {
  (void)i;
  Watch *h = state;
  detector_meet(h->detector, w->cta->slot, w->id, m);
}

/* --- other grids -------------------------------------------------------------------- */
static void grid_wait(void *state, const Warp *w, const Insn *i, u32 m) {
  Watch *h = state;
  if (!note_of(h, w, i).weak) detector_grid_wait(told(h, w), w->cta->slot, w->id, m);
}

static void grid_signal(void *state, const Warp *w, const Insn *i, u32 m) {
  (void)i;
  Watch *h = state;
  detector_grid_signal(told(h, w), w->cta->slot, w->id, m);
}

/* Of the tensor maps: the lanes of an acquire may name several. */
static void map_fence(Watch *h, const Warp *w, const Insn *i, u32 m, u32 which) {
  Detector *d = told(h, w);
  u32 slot = w->cta->slot, scope = note_of(h, w, i).scope;
  const u64 *base = which == MAP_ACQUIRE ? R64(i->a) : NULL;
  for (u32 left = m, group = 0; left; left &= ~group) {
    u32 lead = (u32)__builtin_ctz(left);
    group = left;
    for (u32 l = 0; base && l < LANES; l++)
      if (base[l] != base[lead]) group &= ~(1u << l);
    detector_map_fence(d, slot, w->id, group, which, scope,
                       base ? base[lead] + (u64)i->imm : 0);
  }
  detector_tick(d, slot, w->id);
}

static void fence(void *state, const Warp *w, const Insn *i, u32 m) {
  Watch *h = state;
  Detector *d = told(h, w);
  u32 slot = w->cta->slot, kind = note_of(h, w, i).fence, sem = note_of(h, w, i).sem;
  if (weak(h, w)) {
    u32 ticks = kind == FENCE_ASYNC || kind == FENCE_MAP_COPY ? 2
                : kind && kind != FENCE_TENSOR_BEFORE && kind != FENCE_TENSOR_AFTER;
    for (u32 k = ticks; k; k--)
      detector_tick(d, slot, w->id);
    return;
  }
  if (kind == FENCE_TENSOR_BEFORE) detector_fence_before(d, slot, w->id, m);
  if (kind == FENCE_TENSOR_AFTER) detector_fence_after(d, slot, w->id, m);
  if (kind == FENCE_MEMORY)
    detector_fence(d, slot, w->id, m, note_of(h, w, i).scope, sem != SEM_RELEASE,
                   sem != SEM_ACQUIRE);
  /* The lanes copy the map together: who comes after one of them comes after it all. */
  if (kind == FENCE_MAP_COPY) detector_converge(d, slot, w->id, m);
  if (kind == FENCE_MAP_RELEASE || kind == FENCE_MAP_COPY) map_fence(h, w, i, m, MAP_RELEASE);
  if (kind == FENCE_MAP_ACQUIRE) map_fence(h, w, i, m, MAP_ACQUIRE);
  if (kind == FENCE_INIT) detector_fence_init(d, slot, w->id, m);
  if (kind == FENCE_ASYNC || kind == FENCE_ASYNC_SHARED)
    detector_fence_proxy(d, slot, w->id, m, PLANE_ASYNC_SHARED);
  if (kind == FENCE_ASYNC || kind == FENCE_ASYNC_GLOBAL)
    detector_fence_proxy(d, slot, w->id, m, PLANE_ASYNC_GLOBAL);
}

/* --- life --------------------------------------------------------------------------- */
void race_watch_free(Watch *h) {
  if (!h) return;
  u32 n = h->detector ? h->detector->n_slots * h->detector->warps : 0;
  for (u32 k = 0; h->list && k < n; k++) free(h->list[k].at);
  free(h->list);
  written_free(h->written);
  registers_free(h->registers);
  detector_free(h->detector);
  free(h);
}

Watch *race_watch_new(u32 slots, u32 cluster, u32 warps, u32 smem_bytes, u32 profile,
                      u32 tensor_memory, u32 unwritten, const Note *notes, u32 n_notes) {
  Watch *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  h->detector = detector_new(slots, cluster, warps, smem_bytes, profile,
                             tensor_memory);
  h->list = calloc((u64)slots * warps, sizeof *h->list);
  if (unwritten && smem_bytes) h->written = written_new(slots, smem_bytes);
  if (!h->detector || !h->list || (unwritten && smem_bytes && !h->written)) {
    race_watch_free(h);
    return NULL;
  }
  h->note = notes;
  h->n_notes = n_notes;
  h->observer = (Observer){
      .state = h,
      .cta = cta,
      .over = watch_finished,
      .exit = leave,
      .lanes = lanes,
      .issue = issue,
      .engine = engine,
      .engine_chunks = engine_chunks,
      .engine_tensor = engine_tensor,
      .tensor = tensor,
      .tensor_wait = tensor_wait,
      .tensor_used = tensor_used,
      .tensor_own = tensor_own,
      .landed = landed,
      .groups = watch_groups,
      .mbarrier = mbarrier,
      .mbarrier_engine = mbarrier_engine,
      .mbarrier_phase = mbarrier_phase,
      .barrier_arrive = barrier_arrive,
      .barrier_complete = barrier_complete,
      .barrier_leave = barrier_leave,
      .cluster_arrive = cluster_arrive,
      .cluster_complete = cluster_complete,
      .cluster_wait = cluster_wait,
      .converge = converge,
      .meet = meet,
      .fence = fence,
      .grid_wait = grid_wait,
      .grid_signal = grid_signal,
  };
  return h;
}

/* Before the launch begins: it may do so before the one before it has completed. */
void race_depend(Watch *h) { h->detector->grids.dependent = 1; }
void race_keep_digest(Watch *h) { h->detector->keep_digest = 1; }
const Observer *race_observer(const Watch *h) { return &h->observer; }
const Detector *race_detector(const Watch *h) { return h->detector; }
/* Before the launch begins: look for reads of registers that nothing wrote, too. */
static void begin(void *state, const Warp *w, const Insn *i) {
  Watch *h = state;
  registers_begin(h->registers, w, pc_of(w->m, i));
}
static void executed(void *state, const Warp *w, const Insn *i, u32 m) {
  Watch *h = state;
  registers_executed(h->registers, w, pc_of(w->m, i), m);
}
u32 race_watch_registers(Watch *h, const RegisterUse *use, u32 n_code) {
  const Detector *d = h->detector;
  h->registers = registers_new(d->n_slots, d->warps, use, n_code);
  if (!h->registers) return 0;
  h->observer.begin = begin;
  h->observer.executed = executed;
  return 1;
}
/* NULL: nobody looks for such reads. */
const UnwrittenReads *race_written(const Watch *h) {
  return h->written ? &h->written->reads : NULL;
}
const UnwrittenReads *race_registers(const Watch *h) {
  return h->registers ? &h->registers->reads : NULL;
}
