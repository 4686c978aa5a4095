/* Who has done what at which mbarrier (ledger.h). */
#include "ledger.h"

#include <stdlib.h>

#include "mbarrier.h"

enum { FIRST_CAPACITY = 64 };

void ledger_clear(Ledger *g) {
  if (g->n) memset(g->entries, 0, g->capacity * sizeof *g->entries);
  g->n = 0;
}

void ledger_free(Ledger *g) {
  free(g->entries);
  *g = (Ledger){NULL, 0, 0};
}

static LedgerEntry *slot_of(const Ledger *g, u32 at, u32 pc, u32 agent, u32 op) {
  u64 h = ((u64)at << 32 | pc) * 0x9e3779b97f4a7c15ull;
  h = (h ^ h >> 29 ^ (u64)agent << 7 ^ op) * 0xbf58476d1ce4e5b9ull;
  for (u32 k = (u32)(h >> 32);; k++) {
    LedgerEntry *e = &g->entries[k & (g->capacity - 1)];
    if (!e->used || (e->at == at && e->pc == pc && e->agent == agent && e->op == op))
      return e;
  }
}

static int grow(Ledger *g) {
  Ledger more = {NULL, g->capacity ? 2 * g->capacity : FIRST_CAPACITY, g->n};
  more.entries = calloc(more.capacity, sizeof *more.entries);
  if (!more.entries) return 0;
  for (u32 k = 0; k < g->capacity; k++) {
    const LedgerEntry *e = &g->entries[k];
    if (e->used) *slot_of(&more, e->at, e->pc, e->agent, e->op) = *e;
  }
  free(g->entries);
  *g = more;
  return 1;
}

/* NULL when out of memory: what is not kept is not told. */
static LedgerEntry *entry(Ledger *g, u32 at, u32 pc, u32 agent, u32 op) {
  if (2 * g->n >= g->capacity && !grow(g)) return NULL;
  LedgerEntry *e = slot_of(g, at, pc, agent, op);
  if (!e->used) {
    *e = (LedgerEntry){.used = 1, .at = at, .pc = pc, .agent = agent, .op = op};
    g->n++;
  }
  return e;
}

void ledger_note(Cta *owner, u32 at, u32 pc, const Cta *by, u32 warp, u32 op, u64 amount,
                 u32 completed) {
  Ledger *g = owner->ledger;
  LedgerEntry *own = entry(g, at, LEDGER_PHASE, 0, 0);
  if (!own) return;
  u32 phase = own->last;
  int waits = op == MBAR_TEST_PARITY || op == MBAR_TEST_STATE;
  if (op == MBAR_INIT) {
    own->last = 0;
    return;
  }
  if (completed && !waits) own->last++; /* before `entry` below may move it */
  LedgerEntry *e = entry(g, at, pc, by->rank << 16 | warp, op);
  if (!e) return;
  if (!e->phases || e->last != phase) {
    e->before = e->amount;
    e->amount = 0;
    e->phases++;
  }
  e->last = phase;
  e->amount += amount;
}

u32 ledger_phase(const Cta *owner, u32 at) {
  const Ledger *g = owner->ledger;
  return g->capacity ? slot_of(g, at, LEDGER_PHASE, 0, 0)->last : 0;
}

u32 ss_ledger(const Machine *m, LedgerLine *out, u32 capacity) {
  u32 n = 0;
  for (u32 s = 0; s < m->n_slots; s++) {
    const Cta *c = &m->ctas[s];
    if (!c->live_warps || !c->ledger) continue;
    for (u32 k = 0; k < c->ledger->capacity; k++) {
      const LedgerEntry *e = &c->ledger->entries[k];
      if (!e->used || e->pc == LEDGER_PHASE) continue;
      if (n < capacity) {
        LedgerLine *l = &out[n];
        const Cta *by = &m->ctas[c->first_slot + (e->agent >> 16)];
        memcpy(l->cta, c->id, sizeof l->cta);
        memcpy(l->by, by->id, sizeof l->by);
        l->at = e->at;
        l->pc = e->pc;
        l->warp = e->agent & 0xffff;
        l->op = e->op;
        l->last = e->last;
        l->phases = e->phases;
        l->phase = ledger_phase(c, e->at);
        l->amount = e->amount;
        l->before = e->before;
      }
      n++;
    }
  }
  return n;
}
