/* A launch on the virtual GPU: creation, CTA residency, the interpreter loop and the
 * scheduler. Warps run in slices; between slices asynchronous operations may land.
 * With seed 0 the order is round-robin and operations land at once; any other seed
 * draws slice lengths, warps and landings from it.
 */
#include <stdlib.h>

#include "core.h"
#include "ledger.h"
#include "observer.h"
#include "schedule.h"
#include "tmem.h"

extern const OpEntry *const all_ops[];

/* What Python passes to ss_create; field order is mirrored in exec/abi.py. */
typedef struct Config {
  const Insn *code;
  const s32 *ext;
  const u8 *consts;
  const u8 *params;
  Alloc *allocs;
  u64 seed, budget;
  u32 n_code, n_ext, n_consts, n_params, n_allocs;
  u32 rf_bytes, smem_size, local_bytes;
  u32 grid[3], block[3], cluster[3];
  u32 n_sms, ctas_per_sm, quantum, smem_fill, reg_fill, tmem_fill, arch, regs_per_thread;
  u32 tensor_memory; /* 1: the kernel has tcgen05 instructions */
  u32 tmem_check, isa_order; /* as in Machine */
  u32 policy, depth;
  u64 horizon;
  const Choice *choices;
  u64 n_choices;
  const Observer *const *observer; /* ended by NULL */
} Config;

typedef struct Blocked {
  u32 cta[3];
  u32 warp, pc, mask, kind, pad;
  u64 addr, info;
  u64 word; /* of the mbarrier that it waits for */
} Blocked;

typedef struct Stats {
  u64 executed, mma_flops, tma_bytes, dropped_faults, unfinished;
  u32 status, stop_pc, n_faults, live_warps;
} Stats;

/* --- the table ------------------------------------------------------------------ */
u32 ss_op_count(void) {
  u32 n = 0;
  for (u32 t = 0; all_ops[t]; t++)
    for (const OpEntry *e = all_ops[t]; e->name; e++) n++;
  return n;
}

static const OpEntry *op_at(u32 index) {
  for (u32 t = 0; all_ops[t]; t++)
    for (const OpEntry *e = all_ops[t]; e->name; e++)
      if (index-- == 0) return e;
  return NULL;
}

const char *ss_op_name(u32 index) {
  const OpEntry *e = op_at(index);
  return e ? e->name : NULL;
}

u32 ss_sizeof(u32 what) {
  switch (what) {
    case 0: return sizeof(Insn);
    case 1: return sizeof(Config);
    case 2: return sizeof(Fault);
    case 3: return sizeof(Alloc);
    case 4: return sizeof(Blocked);
    case 6: return sizeof(LedgerLine);
    default: return sizeof(Stats);
  }
}

/* --- creation --------------------------------------------------------------------- */
static u64 round_up(u64 v, u64 to) { return (v + to - 1) / to * to; }

void ss_destroy(Machine *m) {
  if (!m) return;
  schedule_free(m);
  for (u32 k = 0; k < m->n_queue; k++) {
    free(m->queue[k]->data);
    free(m->queue[k]);
  }
  while (m->free_list) {
    Async *next = (Async *)m->free_list->arg[0];
    free(m->free_list);
    m->free_list = next;
  }
  free(m->queue);
  for (u32 k = 0; m->ctas && k < m->n_slots; k++)
    if (m->ctas[k].ledger) ledger_free(m->ctas[k].ledger);
  free(m->ledgers);
  free(m->code);
  free(m->ctas);
  free(m->warps);
  free(m->allocs);
  free(m->alloc_hint);
  free(m->counts);
  free(m->memory);
  free(m);
}

static int link_code(Machine *m, const Config *c) {
  u32 n_ops = ss_op_count();
  OpFn *table = malloc(n_ops * sizeof *table);
  if (!table) return 0;
  u32 n = 0;
  for (u32 t = 0; all_ops[t]; t++)
    for (const OpEntry *e = all_ops[t]; e->name; e++) table[n++] = e->fn;
  int ok = 1;
  for (u32 k = 0; k < c->n_code && ok; k++) {
    Insn *i = &m->code[k];
    ok = i->op < n_ops && i->ext >= 0 && i->n_ext >= 0 &&
         (u64)i->ext + (u64)i->n_ext <= c->n_ext;
    if (ok) i->fn = table[i->op];
  }
  free(table);
  return ok;
}

/* NULL when out of memory or when the configuration is not well-formed. */
Machine *ss_create(const Config *c) {
  Machine *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->ext = c->ext;
  m->consts = c->consts;
  m->params = c->params;
  m->n_code = c->n_code;
  m->n_ext = c->n_ext;
  m->n_consts = c->n_consts;
  m->n_params = c->n_params;
  m->n_allocs = c->n_allocs;
  m->rf_bytes = (u32)round_up(c->rf_bytes, 64);
  m->smem_size = c->smem_size;
  m->local_bytes = c->local_bytes;
  m->cluster_size = 1;
  m->n_ctas = 1;
  u64 threads = 1;
  for (int k = 0; k < 3; k++) {
    m->grid[k] = c->grid[k];
    m->block[k] = c->block[k];
    m->cluster[k] = c->cluster[k];
    m->cluster_size *= c->cluster[k];
    m->n_ctas *= c->grid[k];
    threads *= c->block[k];
  }
  m->warps_per_cta = (u32)((threads + 31) / 32);
  u32 slots = c->n_sms * c->ctas_per_sm;
  if (slots > m->n_ctas) slots = m->n_ctas;
  slots = slots / m->cluster_size * m->cluster_size;
  if (slots < m->cluster_size) slots = m->cluster_size;
  m->n_slots = m->max_ctas = slots;
  m->dependency = (GridState){m->n_ctas, 0, 0};
  m->n_warps = slots * m->warps_per_cta;
  m->seed = c->seed;
  m->rng = c->seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
  m->quantum = c->quantum ? c->quantum : 256;
  m->budget = c->budget;
  m->smem_fill = c->smem_fill;
  m->reg_fill = c->reg_fill;
  m->tmem_fill = c->tmem_fill;
  m->arch = c->arch;
  m->tmem_check = c->tmem_check;
  m->isa_order = c->isa_order;
  m->n_sms = c->n_sms;
  m->regs_per_thread = c->regs_per_thread;
  m->observer = c->observer;
  for (u32 k = 0; c->observer && c->observer[k]; k++)
    m->stepped |= c->observer[k]->executed != NULL;
  m->code = calloc(c->n_code, sizeof(Insn));
  m->ctas = calloc(slots, sizeof(Cta));
  m->warps = calloc(m->n_warps, sizeof(Warp));
  m->allocs = calloc(c->n_allocs + 1, sizeof(Alloc));
  m->alloc_hint = calloc(c->n_code, sizeof(u32));
  m->counts = calloc(c->n_code, sizeof(u64));
  m->ledgers = calloc(slots, sizeof(Ledger));
  u64 live_each = round_up(m->smem_size / 8 + 1, 128);
  u64 smem_each = round_up(m->smem_size + 64, 128) + live_each;
  u64 state_each = c->tensor_memory ? round_up(sizeof(TmemState), 128) : 0;
  u64 tmem_each = c->tensor_memory ? TMEM_BYTES : 0;
  smem_each += state_each + tmem_each;
  u64 local_each = round_up((u64)m->local_bytes * LANES, 64);
  u64 total = smem_each * slots + (m->rf_bytes + local_each) * m->n_warps + 128;
  m->memory = malloc(total);
  if (!m->code || !m->ctas || !m->warps || !m->allocs || !m->alloc_hint ||
      !m->counts || !m->ledgers || !m->memory) {
    ss_destroy(m);
    return NULL;
  }
  memcpy(m->code, c->code, c->n_code * sizeof(Insn));
  if (c->n_allocs) memcpy(m->allocs, c->allocs, c->n_allocs * sizeof(Alloc));
  if (!link_code(m, c)) {
    ss_destroy(m);
    return NULL;
  }
  u8 *p = (u8 *)round_up((u64)m->memory, 128);
  for (u32 s = 0; s < slots; s++, p += smem_each) {
    m->ctas[s].m = m;
    m->ctas[s].slot = s;
    m->ctas[s].ledger = &m->ledgers[s];
    m->ctas[s].smem = p;
    m->ctas[s].mbar_live = p + smem_each - live_each;
    if (c->tensor_memory) {
      u8 *behind = m->ctas[s].mbar_live - state_each;
      m->ctas[s].tmem_state = (TmemState *)behind;
      m->ctas[s].tmem = (u32 *)(behind - tmem_each);
    }
  }
  for (u32 k = 0; k < m->n_warps; k++) {
    Warp *w = &m->warps[k];
    w->m = m;
    w->index = k;
    w->id = k % m->warps_per_cta;
    w->cta = &m->ctas[k / m->warps_per_cta];
    w->rf = p;
    p += m->rf_bytes;
    w->local = p;
    p += local_each;
    w->consts = m->consts;
    w->done = 1;
  }
  if (m->seed && !schedule_init(m, c->policy, c->depth, c->horizon, c->choices,
                                (u32)c->n_choices)) {
    ss_destroy(m);
    return NULL;
  }
  return m;
}

/* --- interpreter ------------------------------------------------------------------ */
u64 next_random(Machine *m) {
  m->rng ^= m->rng << 13;
  m->rng ^= m->rng >> 7;
  m->rng ^= m->rng << 17;
  return m->rng;
}

int stop_launch(Warp *w, const Insn *i, u32 status) {
  w->m->status = status;
  w->m->stop_pc = pc_of(w->m, i);
  return STEP_STOP;
}

void block_on(Warp *w, u32 kind, u64 addr, u64 info) {
  w->block_kind = kind;
  w->blocks[__builtin_ctz(w->mask)] = (PathWait){w->pc, kind, addr, info};
}

/* One slice of a warp. Returns the number of instructions executed. It is compiled
 * twice: `stepped` where someone watches each instruction. */
static inline __attribute__((always_inline)) u64 run_slice(Machine *m, Warp *w,
                                                           u64 quantum, int stepped) {
  const Insn *code = m->code;
  u64 *counts = m->counts;
  u64 n = 0;
  if (!w->mask && !paths_pick(w)) {
    paths_wake(w);
    if (!paths_pick(w)) return 0;
  }
  while (n < quantum) {
    if (__builtin_expect(w->pc >= w->limit, 0)) paths_arrived(w);
    u32 pc = w->pc;
    const Insn *i = &code[pc];
    u32 active = w->mask;
    if (i->guard != NOREF) {
      u32 p = RP(i->guard);
      active &= i->guard_neg ? ~p : p;
      if (!active) {
        if (stepped) OBSERVE(m, executed, w, i, 0);
        w->pc++;
        n++;
        continue;
      }
    }
    if (stepped) OBSERVE(m, begin, w, i);
    int r = i->fn(w, i, active);
    if (stepped && r <= STEP_YIELD && r != STEP_BLOCK) OBSERVE(m, executed, w, i, active);
    if (__builtin_expect(r == STEP_NEXT, 1)) {
      w->pc++;
      counts[pc]++;
      n++;
    } else if (r == STEP_JUMP) {
      counts[pc]++;
      n++;
      if (!w->live) {
        w->done = 1;
        break;
      }
      if (!w->mask && !paths_pick(w)) {
        paths_wake(w);
        paths_pick(w);
      }
    } else if (r == STEP_BLOCK) {
      paths_stall(w);
      if (w->mask || !paths_pick(w)) break;
    } else if (r == STEP_YIELD) {
      w->pc++;
      counts[pc]++;
      n++;
      break;
    } else {
      break;
    }
  }
  if (n >= quantum && w->n_paths) { /* let the other paths have the next slice */
    paths_stall(w);
    if (!paths_pick(w)) {
      paths_wake(w);
      paths_pick(w);
    }
  } else {
    paths_wake(w);
  }
  if (n) w->block_kind = w->done ? BLOCK_NONE : w->block_kind;
  w->executed += n;
  m->executed += n;
  return n;
}

static u64 run_warp(Machine *m, Warp *w, u64 quantum) {
  return m->stepped ? run_slice(m, w, quantum, 1) : run_slice(m, w, quantum, 0);
}

static void land_some(Machine *m, int must) {
  if (!m->seed) {
    while (m->n_queue) async_land_one(m, 0);
    return;
  }
  while (m->n_queue) {
    u64 r = next_random(m);
    u32 drawn = !must && (r & 3) ? 0 : 1 + async_ready(m, (u32)((r >> 8) % m->n_queue));
    u32 usual = 1 + async_ready(m, 0);
    u32 answer = decide(m, usual, drawn);
    if (!answer && !must) break;
    if (!answer || answer > m->n_queue) answer = usual;
    async_land_one(m, async_ready(m, answer - 1));
    must = 0;
  }
}

/* Rounds in which everyone only waited, after which no progress is believed. */
#define MAX_DRY 256

/* Run until done, stopped, or about `steps` warp instructions more; returns Status. */
u32 ss_run(Machine *m, u64 steps) {
  u64 until = m->executed + steps;
  u32 idle = 0, stuck = 0, dry = 0;
  u64 seen = m->progress;
  if (m->status == ST_STEPS) m->status = ST_RUNNING;
  while (m->status == ST_RUNNING) {
    start_ctas(m, 0);
    if (!m->live_warps) { /* the rest waits for another grid to make room */
      m->status = m->next_cta < m->n_ctas ? ST_STEPS : ST_DONE;
      break;
    }
    land_some(m, 0);
    Warp *w = schedule_warp(m);
    u64 n = run_warp(m, w, schedule_quantum(m));
    schedule_ran(m, w, n);
    if (w->done) finish_warp(m, w);
    if (m->status != ST_RUNNING) break;
    if (n) {
      idle = dry = 0;
    } else if (++idle > (m->seed ? 64 + m->n_warps * 16 : m->n_warps)) {
      idle = 0;
      start_ctas(m, 1);
      if (m->n_queue) {
        land_some(m, 1);
      } else if (m->dependency.pending || m->held) {
        m->status = ST_STEPS; /* another grid has to go on first */
      } else if (++dry < MAX_DRY && (m->progress != seen || stuck < 3)) {
        /* nothing in flight and everyone waits: let suspended try_waits time out */
        stuck = m->progress != seen ? 0 : stuck + 1;
        seen = m->progress;
        m->timeout_epoch++;
      } else {
        m->status = ST_DEADLOCK;
        break;
      }
    }
    if (m->executed >= m->budget) {
      m->status = ST_BUDGET;
    } else if (m->executed >= until) {
      m->status = ST_STEPS;
    }
  }
  return m->status;
}

/* --- results ---------------------------------------------------------------------- */
void ss_stats(const Machine *m, Stats *s) {
  s->executed = m->executed;
  s->mma_flops = m->mma_flops;
  s->tma_bytes = m->tma_bytes;
  s->dropped_faults = m->dropped_faults;
  s->unfinished = m->unfinished;
  s->status = m->status;
  s->stop_pc = m->stop_pc;
  s->n_faults = m->n_faults;
  s->live_warps = m->live_warps;
}

const Fault *ss_faults(const Machine *m) { return m->faults; }
const u64 *ss_counts(const Machine *m) { return m->counts; }

static void blocked(const Warp *w, u32 pc, u32 mask, Blocked *b) {
  const PathWait *last = NULL;
  for (u32 l = 0; l < LANES && !last; l++)
    if (lane_on(mask, (int)l) && w->blocks[l].kind && w->blocks[l].pc == pc)
      last = &w->blocks[l];
  *b = (Blocked){{0, 0, 0}, w->id, pc, mask, BLOCK_NONE, 0, 0, 0, 0};
  for (int d = 0; d < 3; d++) b->cta[d] = w->cta->id[d];
  if (!last) return;
  b->kind = last->kind;
  b->addr = last->addr;
  b->info = last->info;
  u8 *at = b->kind == BLOCK_MBARRIER ? smem_ptr(w->cta, (u32)b->addr, 8) : NULL;
  if (at) memcpy(&b->word, at, 8);
}

/* Paths that have not exited, warp by warp. */
u32 ss_blocked(const Machine *m, Blocked *out, u32 capacity) {
  u32 n = 0;
  for (u32 k = 0; k < m->n_warps; k++) {
    const Warp *w = &m->warps[k];
    if (w->done) continue;
    if (w->mask && n < capacity) blocked(w, w->pc, w->mask, &out[n++]);
    for (u32 p = 0; p < w->n_paths && n < capacity; p++)
      blocked(w, w->path_pc[p], w->path_mask[p], &out[n++]);
  }
  return n;
}
