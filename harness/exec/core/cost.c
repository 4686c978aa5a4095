/* Virtual clocks: who was when where, and what the longest way there consists of. */
#include "cost.h"

#include <stdlib.h>

#include "mbarrier.h"

/* Groups of one warp and kind: the newest ones each for itself, older ones together. */
enum { RING = 8 };
typedef struct Groups {
  u32 number[RING]; /* 1 + group; 0: empty */
  CostPath end[RING];
  CostPath older;
} Groups;

enum { GROUPS_CP = 0, GROUPS_READ, GROUPS_WRITE, GROUPS_KINDS };

typedef struct WarpClock {
  CostPath now;
  CostPath unit[COST_PARTS - MAX_WARPS]; /* end of its last operation in each */
  Groups groups[GROUPS_KINDS];
} WarpClock;

typedef struct Meeting { /* mbarrier or barrier */
  CostPath arriving;
  CostPath over[2]; /* by parity of phase or generation */
  u64 phases;       /* of an mbarrier, that are over */
} Meeting;

/* Named barriers of a CTA, and of rank 0 the cluster's. */
enum { COST_CLUSTER_BARRIER = 16, COST_BARRIERS };

typedef struct CtaClock {
  u16 *place;     /* per 8 bytes of shared memory: 1 + index in mbars */
  Meeting *mbars;
  u32 n_mbars, cap_mbars;
  Meeting bars[COST_BARRIERS];
  CostPath last; /* of what has landed */
} CtaClock;

struct Cost {
  Observer observer;
  u32 slots, warps_per_cta, places, n_code;
  CostRow *rows;
  CostUnit unit[COST_PARTS - MAX_WARPS];
  WarpClock *warps;
  CtaClock *ctas;
  u64 *counts; /* [warp of the CTA][bytecode row] */
  u64 *lanes;  /* per row: active lanes, in sum */
  u64 *work;   /* per row: flops or bytes issued */
  CostWaits waits[MAX_WARPS];
  CostTotals totals;
  WarpClock *runs;   /* the warp that runs */
  u32 self, issue;   /* its number, units of its instruction */
  CostPath *path;    /* when operations in flight end, by Async.timed - 1 */
  u32 *unused;       /* of these, the free ones */
  u32 n_paths, n_unused;
};

/* Of equally late ones any will do, but the same whoever came first. */
static void later(CostPath *into, const CostPath *other) {
  if (other->at > into->at ||
      (other->at == into->at && memcmp(other, into, sizeof *into) > 0))
    *into = *other;
}

static void spend(CostPath *p, u32 part, u64 units) {
  p->at += units;
  p->part[part] += units;
  p->by = part;
}

/* --- CTAs and instructions -------------------------------------------------------- */
static void start_cta(void *state, const Cta *c) {
  Cost *cost = state;
  CtaClock *t = &cost->ctas[c->slot];
  memset(t->place, 0, cost->places * sizeof *t->place);
  t->n_mbars = 0;
  memset(t->bars, 0, sizeof t->bars);
  memset(&t->last, 0, sizeof t->last);
  WarpClock *first = &cost->warps[c->slot * cost->warps_per_cta];
  memset(first, 0, cost->warps_per_cta * sizeof *first);
}

static void finish_cta(void *state, const Cta *c) {
  Cost *cost = state;
  CostPath end = cost->ctas[c->slot].last;
  const WarpClock *first = &cost->warps[c->slot * cost->warps_per_cta];
  for (u32 k = 0; k < cost->warps_per_cta; k++) later(&end, &first[k].now);
  cost->totals.ctas++;
  cost->totals.sum.at += end.at;
  for (u32 k = 0; k < COST_PARTS; k++) cost->totals.sum.part[k] += end.part[k];
  later(&cost->totals.longest, &end);
}

static void begin(void *state, const Warp *w, const Insn *i) {
  Cost *c = state;
  c->runs = &c->warps[w->index];
  c->self = w->id;
  c->issue = c->rows[pc_of(w->m, i)].issue;
}

static void executed(void *state, const Warp *w, const Insn *i, u32 active) {
  Cost *c = state;
  u32 pc = pc_of(w->m, i);
  const CostRow *r = &c->rows[pc];
  CostPath *now = &c->warps[w->index].now;
  c->counts[(u64)w->id * c->n_code + pc]++;
  c->lanes[pc] += (u32)__builtin_popcount(active);
  u32 issue = active ? c->issue : r->issue; /* a wait has paid it when it passed */
  if (issue) spend(now, w->id, issue);
  if (r->extra && active) spend(now, r->part, r->extra);
}

/* The time at which whatever happens now happens: the end of the instruction that runs,
 * or of the operation that lands. */
static CostPath moment(const Cost *c, const Machine *m) {
  static const CostPath never;
  if (m->landing) return m->landing->timed ? c->path[m->landing->timed - 1] : never;
  CostPath p = c->runs->now;
  spend(&p, c->self, c->issue);
  return p;
}

/* --- operations in flight --------------------------------------------------------- */
static const u8 PART_OF[] = {
    [ASYNC_CP] = COST_COPY,          [ASYNC_BULK_LOAD] = COST_LOAD,
    [ASYNC_BULK_STORE] = COST_STORE, [ASYNC_OTHER] = COST_REMOTE,
    [ASYNC_BULK_WRITE] = COST_STORE, [ASYNC_TMEM_LD] = COST_TMEM,
    [ASYNC_TMEM_ST] = COST_TMEM,     [ASYNC_TC_MMA] = COST_TENSOR,
    [ASYNC_TC_CP] = COST_TENSOR,     [ASYNC_TC_SHIFT] = COST_TENSOR,
    [ASYNC_TC_COMMIT] = COST_TENSOR, [ASYNC_CLC] = COST_REMOTE,
    [ASYNC_CP_ARRIVE] = COST_COPY,
};

static Groups *groups_of(Cost *c, u32 warp, u32 kind) {
  u32 which = kind == ASYNC_CP           ? GROUPS_CP
              : kind == ASYNC_BULK_STORE ? GROUPS_READ
                                         : GROUPS_WRITE;
  return &c->warps[warp].groups[which];
}

static void remember(Groups *g, u32 group, const CostPath *end) {
  u32 at = group % RING;
  if (g->number[at] != group + 1) {
    if (g->number[at]) later(&g->older, &g->end[at]);
    g->number[at] = group + 1;
    memset(&g->end[at], 0, sizeof g->end[at]);
  }
  later(&g->end[at], end);
}

/* A place for the end of an operation; 0 when out of memory: those who wait for it then
 * see no later time than their own. */
static u32 name(Cost *c) {
  if (c->n_unused) return c->unused[--c->n_unused];
  u32 n = c->n_paths ? 2 * c->n_paths : 64;
  CostPath *path = realloc(c->path, n * sizeof *path);
  if (path) c->path = path;
  u32 *unused = realloc(c->unused, n * sizeof *unused);
  if (unused) c->unused = unused;
  if (!path || !unused) return 0;
  for (u32 k = n; k > c->n_paths + 1; k--) c->unused[c->n_unused++] = k;
  u32 first = c->n_paths + 1;
  c->n_paths = n;
  return first;
}

static void issued(void *state, Async *op, const Async *parent) {
  (void)parent;
  Cost *c = state;
  const Machine *m = op->cta->m;
  u32 part = op->kind < sizeof PART_OF ? PART_OF[op->kind] : 0;
  if (part < MAX_WARPS) part = COST_REMOTE; /* a kind without a unit of its own */
  CostUnit unit = c->unit[part - MAX_WARPS];
  CostPath *busy = &c->warps[op->warp->index].unit[part - MAX_WARPS], p = moment(c, m);
  u64 rate = (u64)unit.rate * op->units;
  c->work[pc_of(m, op->insn)] += op->work;
  op->timed = name(c);
  if (!op->timed) return;
  if (op->kind == ASYNC_TC_COMMIT) {
    CostPath tracked = *busy;
    if (tracked.at) spend(&tracked, part, unit.latency);
    later(&p, &tracked);
  } else if (op->kind == ASYNC_CP_ARRIVE) {
    const Groups *g = groups_of(c, op->warp->index, ASYNC_CP);
    later(&p, &g->older);
    for (u32 k = 0; k < RING; k++) later(&p, &g->end[k]);
  } else if (op->kind == ASYNC_BULK_WRITE) { /* the transfer was counted as it read */
    spend(&p, part, unit.latency);
  } else if (part != COST_TMEM) { /* whose cost is its row's */
    later(&p, busy);
    spend(&p, part, (op->work + rate - 1) / rate);
    *busy = p;
    if (op->kind != ASYNC_BULK_STORE) spend(&p, part, unit.latency);
  }
  c->path[op->timed - 1] = p;
  if (op->kind == ASYNC_CP || op->kind == ASYNC_BULK_STORE || op->kind == ASYNC_BULK_WRITE)
    remember(groups_of(c, op->warp->index, op->kind), op->group, &p);
}

static void landed(void *state, const Async *op) {
  Cost *c = state;
  if (!op->timed) return;
  later(&c->ctas[op->cta->slot].last, &c->path[op->timed - 1]);
  c->unused[c->n_unused++] = op->timed;
}

/* --- who waits for whom ------------------------------------------------------------ */
static void pass(Cost *c, const Warp *w, u32 kind, const CostPath *event) {
  CostPath *now = &c->warps[w->index].now;
  CostWaits *s = &c->waits[w->id];
  if (c->issue) spend(now, w->id, c->issue); /* then it is suspended */
  c->issue = 0;
  s->waits[kind]++;
  if (event->at <= now->at) return;
  s->late[kind]++;
  s->units[kind] += event->at - now->at;
  s->cause[event->by] += event->at - now->at;
  *now = *event;
}

/* The mbarrier at a shared address of the cluster, or NULL: no such place, no memory. */
static Meeting *mbarrier_at(Cost *c, const Cta *from, u32 addr) {
  u32 rank = addr >> 24, at = (addr & 0xffffffu) - SMEM_BASE;
  if (rank >= from->m->cluster_size || at / 8 >= c->places) return NULL;
  CtaClock *t = &c->ctas[from->first_slot + rank];
  u16 *place = &t->place[at / 8];
  if (*place) return &t->mbars[*place - 1];
  if (t->n_mbars == t->cap_mbars) {
    u32 cap = t->cap_mbars ? t->cap_mbars * 2 : 32;
    Meeting *more = cap > UINT16_MAX ? NULL : realloc(t->mbars, cap * sizeof *more);
    if (!more) return NULL;
    t->mbars = more;
    t->cap_mbars = cap;
  }
  *place = (u16)++t->n_mbars;
  memset(&t->mbars[t->n_mbars - 1], 0, sizeof *t->mbars);
  return &t->mbars[t->n_mbars - 1];
}

/* `arriving` goes on: no phase ends before the one before it. */
static void turn(Meeting *b, u64 generation) { b->over[generation & 1] = b->arriving; }

static void arrive(Cost *c, const Machine *m, Meeting *b) {
  CostPath p = moment(c, m);
  later(&b->arriving, &p);
}

/* A wait that succeeds is for the phase that ended last. */
static void mbarrier(void *state, const Warp *w, const Insn *i, u32 m, u32 addr, u32 op) {
  (void)i, (void)m;
  Cost *c = state;
  Meeting *b = mbarrier_at(c, w->cta, addr);
  if (!b) return;
  if (op == MBAR_INIT) memset(b, 0, sizeof *b);
  else if (op >= MBAR_ARRIVE && op <= MBAR_COMPLETE_TX) arrive(c, w->m, b);
  else if (op == MBAR_TEST_PARITY || op == MBAR_TEST_STATE)
    pass(c, w, COST_WAIT_MBARRIER, &b->over[(b->phases - 1) & 1]);
}

static void mbarrier_engine(void *state, const Async *op, u32 addr, u32 what) {
  Cost *c = state;
  Meeting *b = mbarrier_at(c, op->cta, addr);
  if (b && what >= MBAR_ARRIVE && what <= MBAR_COMPLETE_TX) arrive(c, op->cta->m, b);
}

static void mbarrier_phase(void *state, const Cta *cta, u32 addr) {
  Meeting *b = mbarrier_at(state, cta, addr);
  if (b) turn(b, b->phases++);
}

static void barrier_arrive(void *state, const Warp *w, u32 lanes, u32 id) {
  (void)lanes;
  Cost *c = state;
  arrive(c, w->m, &c->ctas[w->cta->slot].bars[id]);
}

static void barrier_complete(void *state, const Cta *cta, u32 id) {
  Cost *c = state;
  turn(&c->ctas[cta->slot].bars[id], cta->bar[id].generation - 1);
}

/* Since then the barrier may have gone on, without this warp. */
static void barrier_leave(void *state, const Warp *w, u32 lanes, u32 id) {
  Cost *c = state;
  u32 generation = w->wait_gen[__builtin_ctz(lanes)];
  pass(c, w, COST_WAIT_BARRIER, &c->ctas[w->cta->slot].bars[id].over[generation & 1]);
}

static void cluster_arrive(void *state, const Warp *w, const Insn *i, u32 m) {
  (void)i, (void)m;
  Cost *c = state;
  arrive(c, w->m, &c->ctas[w->cta->first_slot].bars[COST_CLUSTER_BARRIER]);
}

static void cluster_complete(void *state, const Cta *lead) {
  Cost *c = state;
  turn(&c->ctas[lead->slot].bars[COST_CLUSTER_BARRIER], lead->cluster_bar.phase);
}

static void cluster_wait(void *state, const Warp *w, const Insn *i, u32 m) {
  (void)i;
  Cost *c = state;
  u64 waited = w->cluster_lane[__builtin_ctz(m)];
  if (!waited) return; /* it has not arrived */
  const Meeting *b = &c->ctas[w->cta->first_slot].bars[COST_CLUSTER_BARRIER];
  pass(c, w, COST_WAIT_CLUSTER, &b->over[(waited - 1) & 1]);
}

static void groups(void *state, const Warp *w, const Insn *i, u32 m, u32 kind,
                   const u32 *ends, u32 reads) {
  (void)i;
  Cost *c = state;
  u32 end = 0;
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    end = ends[l] > end ? ends[l] : end;
  }
  if (kind != ASYNC_CP) kind = reads ? ASYNC_BULK_STORE : ASYNC_BULK_WRITE;
  const Groups *g = groups_of(c, w->index, kind);
  CostPath event = g->older;
  for (u32 k = 0; k < RING; k++)
    if (g->number[k] && g->number[k] - 1 < end) later(&event, &g->end[k]);
  pass(c, w, COST_WAIT_GROUP, &event);
}

/* --- life --------------------------------------------------------------------------- */
void cost_free(Cost *c) {
  if (!c) return;
  for (u32 s = 0; c->ctas && s < c->slots; s++) {
    free(c->ctas[s].place);
    free(c->ctas[s].mbars);
  }
  free(c->rows);
  free(c->warps);
  free(c->ctas);
  free(c->counts);
  free(c->lanes);
  free(c->work);
  free(c->path);
  free(c->unused);
  free(c);
}

static int well_formed(const CostTable *table, u32 n_code) {
  for (u32 k = 0; k < n_code; k++)
    if (table->rows[k].part >= COST_PARTS) return 0;
  for (u32 k = 0; k < COST_PARTS - MAX_WARPS; k++)
    if (!table->unit[k].rate) return 0;
  return 1;
}

Cost *cost_new(u32 slots, u32 warps, u32 smem, u32 n_code, const CostTable *table) {
  Cost *c = well_formed(table, n_code) ? calloc(1, sizeof *c) : NULL;
  if (!c) return NULL;
  c->slots = slots;
  c->warps_per_cta = warps;
  c->places = smem / 8 + 1;
  c->n_code = n_code;
  memcpy(c->unit, table->unit, sizeof c->unit);
  c->rows = malloc(n_code * sizeof *c->rows);
  c->warps = calloc((u64)slots * warps, sizeof *c->warps);
  c->ctas = calloc(slots, sizeof *c->ctas);
  c->counts = calloc((u64)n_code * warps, sizeof *c->counts);
  c->lanes = calloc(n_code, sizeof *c->lanes);
  c->work = calloc(n_code, sizeof *c->work);
  int ok = c->rows && c->warps && c->ctas && c->counts && c->lanes && c->work;
  for (u32 s = 0; ok && s < slots; s++) {
    c->ctas[s].place = calloc(c->places, sizeof *c->ctas[s].place);
    ok = c->ctas[s].place != NULL;
  }
  if (!ok) {
    cost_free(c);
    return NULL;
  }
  memcpy(c->rows, table->rows, n_code * sizeof *c->rows);
  c->observer = (Observer){
      .state = c,
      .begin = begin,
      .executed = executed,
      .cta = start_cta,
      .over = finish_cta,
      .issue = issued,
      .landed = landed,
      .groups = groups,
      .mbarrier = mbarrier,
      .mbarrier_engine = mbarrier_engine,
      .mbarrier_phase = mbarrier_phase,
      .barrier_arrive = barrier_arrive,
      .barrier_complete = barrier_complete,
      .barrier_leave = barrier_leave,
      .cluster_arrive = cluster_arrive,
      .cluster_complete = cluster_complete,
      .cluster_wait = cluster_wait,
  };
  return c;
}

const Observer *cost_observer(const Cost *c) { return &c->observer; }

/* --- results ---------------------------------------------------------------------- */
enum { COUNTS = 0, ROW_LANES, WORK, WAITS, TOTALS };

const void *cost_result(const Cost *c, u32 what) {
  return what == COUNTS      ? (const void *)c->counts
         : what == ROW_LANES ? (const void *)c->lanes
         : what == WORK      ? (const void *)c->work
         : what == WAITS     ? (const void *)c->waits
                             : (const void *)&c->totals;
}
