/* bar and barrier: sync, arrive and red (PTX ISA, bar, barrier).
 *
 * A warp arrives as a whole, once its last live lane has: lanes that come first are
 * remembered in warp->bar_lanes. The aligned forms bring all of them at once.
 */
#include "named_barrier.h"

#include "observer.h"

static BarrierResult settle(Barrier b, u32 live, u32 error) {
  u32 target = b.open && live < b.expected ? live : b.expected;
  BarrierResult r = {b, 0, error, 0};
  if (!b.arrived || b.arrived < target) return r;
  r.completed = 1;
  r.red = (b.trues & 0xffffu) | (u32)(b.falses == 0) << 16 | (u32)(b.trues > 0) << 17;
  r.state = (Barrier){.generation = b.generation + 1};
  return r;
}

BarrierResult barrier_settle(Barrier b, u32 live) { return settle(b, live, BARRIER_OK); }

BarrierResult barrier_step(Barrier b, BarrierCommand c, u32 live) {
  if (c.threads == 0 || c.threads % LANES) return (BarrierResult){b, 0, BARRIER_BAD_COUNT, 0};
  u32 kind = c.use == BARRIER_RED ? BARRIER_KIND_RED : BARRIER_KIND_PLAIN;
  u32 error = BARRIER_OK;
  if (!b.arrived) {
    b.expected = c.threads;
    b.open = c.open;
  } else if (b.expected != c.threads) {
    error = BARRIER_MIXED_COUNT;
  }
  b.kind |= kind;
  if (b.kind == (BARRIER_KIND_RED | BARRIER_KIND_PLAIN)) error = BARRIER_MIXED_RED;
  b.open &= c.open;
  b.arrived += LANES;
  b.trues += c.trues;
  b.falses += c.falses;
  return settle(b, live, error);
}

/* --- instructions ----------------------------------------------------------------
 * a = barrier, b = threads (NOREF: the CTA), c = predicate of red, d = its result,
 * x[0] = use, x[1] = aligned, x[2] = result of red (0 popc, 1 all, 2 any). */
static u32 live_threads(const Cta *c) { return c->live_warps * LANES; }

static void release(Cta *c, u32 id, BarrierResult r, u32 generation, u32 kind) {
  c->bar[id] = r.state;
  c->m->progress++;
  OBSERVE(c->m, barrier_complete, c, id);
  if (!(kind & BARRIER_KIND_RED)) return;
  Warp *first = &c->m->warps[c->slot * c->m->warps_per_cta];
  for (u32 k = 0; k < c->m->warps_per_cta; k++)
    for (u32 l = 0; l < LANES; l++)
      if (first[k].wait_active[l] == 1 + id && first[k].wait_gen[l] == generation)
        first[k].bar_red[l] = r.red;
}

/* Count the warp if all of its live lanes are here. */
static void arrive(Warp *w, const Insn *i, u32 id, BarrierCommand c, u32 lane) {
  if ((w->bar_lanes[id] & w->live) != w->live) return;
  c.trues = (u32)__builtin_popcount(w->bar_trues[id] & w->live);
  c.falses = (u32)__builtin_popcount(w->bar_falses[id] & w->live);
  w->bar_lanes[id] = w->bar_trues[id] = w->bar_falses[id] = 0;
  OBSERVE(w->m, barrier_arrive, w, w->live, id);
  Barrier *b = &w->cta->bar[id];
  u32 generation = b->generation, kind = b->kind;
  if (c.use == BARRIER_RED) kind |= BARRIER_KIND_RED;
  BarrierResult r = barrier_step(*b, c, live_threads(w->cta));
  if (r.error) fault(w, i, lane, FAULT_NAMED_BARRIER, id, c.threads, r.error);
  w->m->progress++;
  if (r.completed) release(w->cta, id, r, generation, kind);
  else *b = r.state;
}

/* Exited warps and lanes can complete what those before them waited for. */
static void settle_exits(Warp *w, const Insn *i, u32 id, BarrierCommand c, u32 lane) {
  Cta *cta = w->cta;
  Warp *first = &w->m->warps[cta->slot * w->m->warps_per_cta];
  for (u32 k = 0; k < w->m->warps_per_cta; k++)
    if (first[k].bar_lanes[id]) arrive(&first[k], i, id, c, lane);
  u32 generation = cta->bar[id].generation, kind = cta->bar[id].kind;
  BarrierResult r = barrier_settle(cta->bar[id], live_threads(cta));
  if (r.completed) release(cta, id, r, generation, kind);
}

/* Barrier and count of lane l; 0 after recording a fault. */
static int operands(Warp *w, const Insn *i, u32 l, u32 *id, BarrierCommand *c) {
  u32 all = w->m->warps_per_cta * LANES;
  *id = R32(i->a)[l];
  c->use = (u32)i->x[0];
  c->open = i->b == NOREF;
  c->threads = c->open ? all : R32(i->b)[l];
  u32 error = *id > 15                                ? BARRIER_BAD_ID
              : c->threads == 0 || c->threads % LANES || c->threads > all
                  ? BARRIER_BAD_COUNT
                  : BARRIER_OK;
  if (error) fault(w, i, l, FAULT_NAMED_BARRIER, *id, c->threads, error);
  return !error;
}

/* The aligned forms need the whole warp with the same operands. */
static void check_aligned(Warp *w, const Insn *i, u32 m, u32 first) {
  const u32 *a = R32(i->a), *b = i->b == NOREF ? a : R32(i->b);
  u32 differ = 0;
  for (u32 l = 0; l < LANES; l++)
    differ |= (u32)((a[l] != a[first]) | (b[l] != b[first])) << l;
  u32 error = m != w->live    ? BARRIER_NOT_CONVERGED
              : differ & m    ? BARRIER_NOT_UNIFORM
                              : BARRIER_OK;
  if (error) fault(w, i, first, FAULT_NAMED_BARRIER, R32(i->a)[first], m, error);
}

static void write_red(Warp *w, const Insn *i, u32 lanes) {
  if (i->d == NOREF || i->x[0] != BARRIER_RED) return;
  if (i->x[2] == 0) {
    u32 *d = R32(i->d);
    for (u32 l = 0; l < LANES; l++)
      if (lane_on(lanes, (int)l)) d[l] = w->bar_red[l] & 0xffffu;
    return;
  }
  u32 bits = 0;
  for (u32 l = 0; l < LANES; l++)
    bits |= (w->bar_red[l] >> (i->x[2] == 1 ? 16 : 17) & 1u) << l;
  set_pred(w, i->d, bits, lanes);
}

/* Lanes go on behind the barriers that they waited at. */
static void left_behind(const Warp *w, u32 m) {
  if (!w->m->observer) return;
  for (u32 left = m, group = 0; left; left &= ~group) {
    u32 in = w->wait_active[__builtin_ctz(left)];
    group = 0;
    for (u32 l = 0; l < LANES; l++) group |= (u32)(w->wait_active[l] == in) << l;
    group &= left;
    if (in) OBSERVE(w->m, barrier_leave, w, group, in - 1);
  }
}

static int barrier(Warp *w, const Insn *i, u32 m) {
  u32 first = (u32)__builtin_ctz(m);
  if (i->x[1] && lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  u32 fresh = 0, id = 0;
  BarrierCommand c = {0};
  for (u32 l = 0; l < LANES; l++) fresh |= (u32)(w->wait_active[l] == 0) << l;
  fresh &= m;
  if (fresh && i->x[1]) check_aligned(w, i, m, first);
  if (fresh && !i->x[1]) { /* a lane's second arrive waits until its warp counted */
    for (u32 l = first; l < LANES; l++)
      if (lane_on(fresh, (int)l) && lane_on(w->bar_lanes[R32(i->a)[l] & 15], (int)l)) {
        block_on(w, BLOCK_BARRIER, R32(i->a)[l], 0);
        return STEP_BLOCK;
      }
  }
  for (u32 left = fresh; left;) {
    u32 lead = (u32)__builtin_ctz(left), group = 0;
    int ok = operands(w, i, lead, &id, &c);
    if (i->x[1]) group = left;
    else /* lanes with the same operands go together */
      for (u32 l = lead; l < LANES; l++)
        group |= (u32)(R32(i->a)[l] == id && (c.open || R32(i->b)[l] == c.threads)) << l;
    group &= left;
    left &= ~group;
    if (!ok) continue; /* undefined: reported, and nobody waits for it */
    u32 truth = i->c == NOREF ? 0 : RP(i->c);
    /* an aligned barrier has its whole warp, even where that had to be reported */
    w->bar_lanes[id] |= i->x[1] ? w->live : group;
    if (i->x[0] == BARRIER_RED) {
      w->bar_trues[id] |= group & truth;
      w->bar_falses[id] |= group & ~truth;
    }
    if (i->x[0] != BARRIER_ARRIVE)
      for (u32 l = 0; l < LANES; l++)
        if (lane_on(group, (int)l)) {
          w->wait_active[l] = 1 + id;
          w->wait_gen[l] = w->cta->bar[id].generation;
        }
    arrive(w, i, id, c, lead);
  }
  if (i->x[0] == BARRIER_ARRIVE) return STEP_NEXT;
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u32 in = w->wait_active[l];
    if (!in || w->wait_gen[l] != w->cta->bar[in - 1].generation) continue;
    operands(w, i, l, &id, &c);
    id = in - 1;
    settle_exits(w, i, id, c, l);
    if (w->wait_gen[l] != w->cta->bar[id].generation) continue;
    block_on(w, BLOCK_BARRIER, id, c.threads);
    return STEP_BLOCK;
  }
  left_behind(w, m);
  write_red(w, i, m);
  for (u32 l = 0; l < LANES; l++) w->wait_active[l] &= (m >> l & 1u) - 1;
  return STEP_NEXT;
}

const OpEntry ops_named_barrier[] = {{"barrier", barrier}, {0, 0}};
