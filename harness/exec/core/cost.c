/* Virtual clocks: who was when where, and what the longest way there consists of. */
#include "cost.h"

#include <stdlib.h>

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
} Meeting;

typedef struct CtaClock {
  u16 *place;     /* per 8 bytes of shared memory: 1 + index in mbars */
  Meeting *mbars;
  u32 n_mbars, cap_mbars;
  Meeting bars[COST_BARRIERS];
  CostPath last; /* of what has landed */
} CtaClock;

typedef struct Cost {
  CostRow *rows;
  CostUnit unit[COST_PARTS - MAX_WARPS];
  WarpClock *warps;
  CtaClock *ctas;
  u64 *counts; /* [warp of the CTA][bytecode row] */
  u64 *lanes;  /* per row: active lanes, in sum */
  u64 *work;   /* per row: flops or bytes issued */
  CostWaits waits[MAX_WARPS];
  CostTotals totals;
  WarpClock *runs;         /* the warp that runs */
  const CostPath *landing; /* or the operation that lands */
  u32 self, issue;         /* the warp's number, units of its instruction */
  u64 next_work;
  u32 next_units;
} Cost;

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

int cost_create(Machine *m, const CostTable *table) {
  Cost *c = calloc(1, sizeof *c);
  if (!c) return 0;
  m->cost = c;
  c->rows = malloc(m->n_code * sizeof *c->rows);
  c->warps = calloc(m->n_warps, sizeof *c->warps);
  c->ctas = calloc(m->n_slots, sizeof *c->ctas);
  c->counts = calloc((u64)m->n_code * m->warps_per_cta, sizeof *c->counts);
  c->lanes = calloc(m->n_code, sizeof *c->lanes);
  c->work = calloc(m->n_code, sizeof *c->work);
  if (!c->rows || !c->warps || !c->ctas || !c->counts || !c->lanes || !c->work) return 0;
  memcpy(c->rows, table->rows, m->n_code * sizeof *c->rows);
  memcpy(c->unit, table->unit, sizeof c->unit);
  for (u32 k = 0; k < m->n_code; k++)
    if (c->rows[k].part >= COST_PARTS) return 0;
  for (u32 k = 0; k < COST_PARTS - MAX_WARPS; k++)
    if (!c->unit[k].rate) return 0;
  for (u32 s = 0; s < m->n_slots; s++) {
    c->ctas[s].place = calloc(m->smem_size / 8 + 1, sizeof *c->ctas[s].place);
    if (!c->ctas[s].place) return 0;
  }
  return 1;
}

void cost_destroy(Machine *m) {
  Cost *c = m->cost;
  for (u32 s = 0; c->ctas && s < m->n_slots; s++) {
    free(c->ctas[s].place);
    free(c->ctas[s].mbars);
  }
  free(c->rows);
  free(c->warps);
  free(c->ctas);
  free(c->counts);
  free(c->lanes);
  free(c->work);
  free(c);
}

void cost_start_cta(Machine *m, const Cta *c) {
  CtaClock *t = &m->cost->ctas[c->slot];
  memset(t->place, 0, (m->smem_size / 8 + 1) * sizeof *t->place);
  t->n_mbars = 0;
  memset(t->bars, 0, sizeof t->bars);
  memset(&t->last, 0, sizeof t->last);
  WarpClock *first = &m->cost->warps[c->slot * m->warps_per_cta];
  memset(first, 0, m->warps_per_cta * sizeof *first);
}

void cost_finish_cta(Machine *m, const Cta *c) {
  Cost *cost = m->cost;
  CostPath end = cost->ctas[c->slot].last;
  const WarpClock *first = &cost->warps[c->slot * m->warps_per_cta];
  for (u32 k = 0; k < m->warps_per_cta; k++) later(&end, &first[k].now);
  cost->totals.ctas++;
  cost->totals.sum.at += end.at;
  for (u32 k = 0; k < COST_PARTS; k++) cost->totals.sum.part[k] += end.part[k];
  later(&cost->totals.longest, &end);
}

/* --- the interpreter ------------------------------------------------------------ */
void cost_run(Machine *m, const Warp *w) {
  m->cost->runs = &m->cost->warps[w->index];
  m->cost->self = w->id;
}

void cost_begin(Machine *m, u32 pc) { m->cost->issue = m->cost->rows[pc].issue; }

void cost_executed(Machine *m, const Warp *w, u32 pc, u32 active) {
  Cost *c = m->cost;
  const CostRow *r = &c->rows[pc];
  c->counts[(u64)w->id * m->n_code + pc]++;
  c->lanes[pc] += (u32)__builtin_popcount(active);
  u32 issue = active ? c->issue : r->issue; /* a wait has paid it when it passed */
  if (issue) spend(&c->runs->now, w->id, issue);
  if (r->extra && active) spend(&c->runs->now, r->part, r->extra);
}

/* The time at which whatever happens now happens: the end of the instruction that runs,
 * or of the operation that lands. */
static CostPath moment(const Cost *c) {
  if (c->landing) return *c->landing;
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

void cost_work(Machine *m, u64 size, u32 units) {
  m->cost->next_work = size;
  m->cost->next_units = units;
}

void cost_issued(Machine *m, Async *op) {
  Cost *c = m->cost;
  u32 part = op->kind < sizeof PART_OF ? PART_OF[op->kind] : 0;
  if (part < MAX_WARPS) part = COST_REMOTE; /* a kind without a unit of its own */
  CostUnit unit = c->unit[part - MAX_WARPS];
  CostPath *busy = &c->warps[op->warp->index].unit[part - MAX_WARPS], p = moment(c);
  u64 work = c->next_work, rate = (u64)unit.rate * (work ? c->next_units : 1);
  c->next_work = 0;
  c->work[pc_of(m, op->insn)] += work;
  op->path = malloc(sizeof *op->path);
  if (!op->path) return; /* its waiters then see no later time than their own */
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
    spend(&p, part, (work + rate - 1) / rate);
    *busy = p;
    if (op->kind != ASYNC_BULK_STORE) spend(&p, part, unit.latency);
  }
  *op->path = p;
  if (op->kind == ASYNC_CP || op->kind == ASYNC_BULK_STORE || op->kind == ASYNC_BULK_WRITE)
    remember(groups_of(c, op->warp->index, op->kind), op->group, &p);
}

const CostPath *cost_land(Machine *m, const Async *op) {
  const CostPath *before = m->cost->landing;
  static const CostPath never;
  m->cost->landing = op->path ? op->path : &never;
  return before;
}

void cost_landed(Machine *m, Async *op, const CostPath *before) {
  m->cost->landing = before;
  if (op->path) later(&m->cost->ctas[op->cta->slot].last, op->path);
  free(op->path);
  op->path = NULL;
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

static Meeting *mbarrier_at(Machine *m, const Cta *c, u32 index) {
  CtaClock *t = &m->cost->ctas[c->slot];
  if (t->place[index]) return &t->mbars[t->place[index] - 1];
  if (t->n_mbars == t->cap_mbars) {
    u32 cap = t->cap_mbars ? t->cap_mbars * 2 : 32;
    Meeting *more = cap > UINT16_MAX ? NULL : realloc(t->mbars, cap * sizeof *more);
    if (!more) return NULL;
    t->mbars = more;
    t->cap_mbars = cap;
  }
  t->place[index] = (u16)++t->n_mbars;
  memset(&t->mbars[t->n_mbars - 1], 0, sizeof *t->mbars);
  return &t->mbars[t->n_mbars - 1];
}

void cost_mbarrier_init(Machine *m, const Cta *c, u32 index) {
  Meeting *b = mbarrier_at(m, c, index);
  if (b) memset(b, 0, sizeof *b);
}

void cost_mbarrier_arrive(Machine *m, const Cta *c, u32 index) {
  Meeting *b = mbarrier_at(m, c, index);
  CostPath p = moment(m->cost);
  if (b) later(&b->arriving, &p);
}

/* `arriving` goes on: no phase ends before the one before it. */
static void turn(Meeting *b, u64 parity) { b->over[parity & 1] = b->arriving; }

void cost_mbarrier_phase(Machine *m, const Cta *c, u32 index, u32 parity) {
  Meeting *b = mbarrier_at(m, c, index);
  if (b) turn(b, parity);
}

void cost_mbarrier_pass(Machine *m, const Cta *c, u32 index, u32 parity, const Warp *w) {
  Meeting *b = mbarrier_at(m, c, index);
  if (b) pass(m->cost, w, COST_WAIT_MBARRIER, &b->over[parity & 1]);
}

void cost_barrier_arrive(Machine *m, const Cta *c, u32 id, const Warp *w) {
  Cost *cost = m->cost;
  CostPath p = cost->warps[w->index].now;
  spend(&p, w->id, cost->issue);
  later(&cost->ctas[c->slot].bars[id].arriving, &p);
}

void cost_barrier_release(Machine *m, const Cta *c, u32 id, u64 generation) {
  turn(&m->cost->ctas[c->slot].bars[id], generation);
}

void cost_barrier_pass(Machine *m, const Cta *c, u32 id, u64 generation, const Warp *w) {
  pass(m->cost, w, id == COST_CLUSTER_BARRIER ? COST_WAIT_CLUSTER : COST_WAIT_BARRIER,
       &m->cost->ctas[c->slot].bars[id].over[generation & 1]);
}

void cost_groups_pass(Machine *m, const Warp *w, u32 kind, u32 end) {
  Groups *g = groups_of(m->cost, w->index, kind);
  CostPath event = g->older;
  for (u32 k = 0; k < RING; k++)
    if (g->number[k] && g->number[k] - 1 < end) later(&event, &g->end[k]);
  pass(m->cost, w, COST_WAIT_GROUP, &event);
}

/* --- results ---------------------------------------------------------------------- */
enum { COUNTS = 0, ROW_LANES, WORK, WAITS, TOTALS };

/* NULL without a cost model. */
const void *ss_cost(const Machine *m, u32 what) {
  const Cost *c = m->cost;
  if (!c) return NULL;
  return what == COUNTS      ? (const void *)c->counts
         : what == ROW_LANES ? (const void *)c->lanes
         : what == WORK      ? (const void *)c->work
         : what == WAITS     ? (const void *)c->waits
                             : (const void *)&c->totals;
}
