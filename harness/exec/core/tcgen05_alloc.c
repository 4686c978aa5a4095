/* Tensor memory is handed out by columns: tcgen05.alloc, dealloc and
 * relinquish_alloc_permit.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: tcgen05.alloc, dealloc,
 * relinquish_alloc_permit; Issue Granularity. A CTA has all 512 columns to itself: CTAs
 * that share a multiprocessor on the chip would share them. With .cta_group::2 one warp
 * of each CTA of the pair takes part, and both get the same columns.
 */
#include "access.h"
#include "observer.h"
#include "schedule.h"
#include "tcgen05.h"

static int same_in_all(const u32 *row, u32 m) {
  u32 first = row[__builtin_ctz(m)], differ = 0;
  for (int l = 0; l < LANES; l++) differ |= lane_on(m, l) ? row[l] ^ first : 0;
  return !differ;
}

static void broken(Warp *w, const Insn *i, u32 m, u32 base, u32 n, u32 error) {
  fault(w, i, (u32)__builtin_ctz(m), FAULT_TMEM_ALLOC, base, n, error);
}

/* First of n columns in a row that are free, in both CTAs of a pair; TMEM_COLUMNS if
 * there are none. */
static u32 find_free(const Cta *c, const Cta *peer, u32 n) {
  u32 width = n / TMEM_GRANULE;
  for (u32 g = 0; g + width <= TMEM_GRANULES; g++) {
    u32 taken = 0;
    for (u32 k = g; k < g + width; k++)
      taken |= c->tmem_state->owner[k] | (peer ? peer->tmem_state->owner[k] : 0u);
    if (!taken) return g * TMEM_GRANULE;
  }
  return TMEM_COLUMNS;
}

static void take(Cta *c, u32 base, u32 n, const Insn *by, u32 warp) {
  TmemState *s = c->tmem_state;
  u32 g = base / TMEM_GRANULE;
  memset(s->owner + g, (int)g + 1, n / TMEM_GRANULE);
  memset(s->written + base, 0, n);
  s->by[g] = by;
  s->by_warp[g] = warp;
}

static void release(Cta *c, u32 base) {
  u32 g = base / TMEM_GRANULE;
  memset(c->tmem_state->owner + g, 0, tmem_size(c, g) / TMEM_GRANULE);
  c->m->progress++;
}

/* Take part in the pair's call. 1: both are here, this warp was the second; 0: the
 * first waits on; -1: the peer came, this warp may go on. */
static int meet(TmemCall *mine, TmemCall *peers, const Warp *w, u32 columns, u32 base) {
  if (mine->warp == w->id + 1 && mine->settled) {
    mine->warp = mine->settled = 0;
    return -1;
  }
  if (!mine->warp) *mine = (TmemCall){w->id + 1, columns, base, 0};
  return mine->warp == w->id + 1 && peers->warp && !peers->settled;
}

/* The address of the new allocation goes to shared memory, by a weak store. */
static void publish(Warp *w, const Insn *i, u32 lane, u32 base) {
  u64 addr[LANES];
  lane_addresses(w, i, i->a, addr);
  u32 space = (u32)i->x[0] & 0xffu;
  u32 at = shared_address(w, i, lane, space, addr[lane], 4);
  if (!at) return;
  if (smem_cta(w->cta, at) != w->cta) {
    fault(w, i, lane, FAULT_ILLEGAL, at, 4, 0);
    return;
  }
  u8 *p = smem(w, i, lane, at, 4, 4);
  if (p) OBSERVE(w->m, lanes, w, i, w->live, SPACE_SHARED, addr, 4, ACCESS_WRITE);
  if (p) memcpy(p, &base, 4);
}

/* What an alloc may not ask for; TMEM_OK if it may. */
static u32 refused(const TmemState *s, u32 n) {
  if (n < TMEM_GRANULE || n > TMEM_COLUMNS || n & (n - 1)) return TMEM_COUNT;
  if (s->relinquished) return TMEM_RELINQUISHED;
  return s->least && n > s->least ? TMEM_GROWS : TMEM_OK;
}

/* a = where the address goes (imm = its offset, x[0] = space), b = columns,
 * x[1] = .cta_group */
static int alloc(Warp *w, const Insn *i, u32 m) {
  Cta *c = w->cta;
  TmemState *s = c->tmem_state;
  u32 first = (u32)__builtin_ctz(m), n = R32(i->b)[first], group = (u32)i->x[1];
  Cta *peer = group == 2 ? tcgen05_peer(c) : NULL;
  int joined = peer && s->alloc.warp == w->id + 1; /* checked when the wait began */
  if (!joined) {
    if (tcgen05_gather(w, i, m)) return STEP_BLOCK;
    if (tcgen05_group(w, i, first, group)) return STEP_NEXT;
    if (!same_in_all(R32(i->b), m))
      fault(w, i, first, FAULT_TCGEN05, n, 0, TC_NOT_UNIFORM);
    u32 error = refused(s, n);
    if (error) broken(w, i, m, 0, n, error);
    if (error == TMEM_COUNT || error == TMEM_RELINQUISHED) return STEP_NEXT;
  }
  u32 base = TMEM_COLUMNS;
  if (!peer) {
    base = find_free(c, NULL, n);
    if (base < TMEM_COLUMNS) take(c, base, n, i, w->id);
  } else {
    TmemCall *mine = &s->alloc, *theirs = &peer->tmem_state->alloc;
    u32 mine_base = mine->base;
    int met = meet(mine, theirs, w, n, 0);
    if (met < 0) base = mine_base;
    if (met > 0) {
      if (theirs->columns != mine->columns) broken(w, i, m, 0, n, TMEM_PAIR);
      base = find_free(c, peer, mine->columns);
      if (base < TMEM_COLUMNS) {
        take(c, base, mine->columns, i, w->id);
        take(peer, base, mine->columns, i, theirs->warp - 1);
        mine->warp = 0;
        theirs->base = base;
        theirs->settled = 1;
        w->m->progress++;
      }
    }
  }
  if (base == TMEM_COLUMNS) {
    block_on(w, BLOCK_TMEM_ALLOC, 0, n);
    return STEP_BLOCK;
  }
  if (!s->least || n < s->least) s->least = (u16)n;
  OBSERVE(w->m, tensor_own, w, i, base, n, 1);
  publish(w, i, first, base);
  return STEP_NEXT;
}

/* Why n columns at `addr` are no allocation. */
static u32 unknown(const Cta *c, u32 addr, u32 n) {
  u32 base = tmem_column(addr), g = base / TMEM_GRANULE;
  if (tmem_lane(addr) || base >= TMEM_COLUMNS || base % TMEM_GRANULE ||
      c->tmem_state->owner[g] != g + 1)
    return TMEM_NO_BASE;
  return tmem_size(c, g) == n ? TMEM_OK : TMEM_OTHER_SIZE;
}

/* The pair's dealloc. The columns of both go back when the second CTA's warp comes: a
 * kernel may so keep its own until the peer is done with its (cuDNN frontend's d512
 * forward, whose CTAs wait for each other's last loads only). The first warp may wait
 * for that or not: round-robin it always does, which shows who relies on it not to;
 * other schedules draw it. Returns 0 if the warp has to wait. */
static int dealloc_pair(Warp *w, const Insn *i, u32 m, u32 addr, u32 n) {
  Cta *c = w->cta, *peer = tcgen05_peer(c);
  TmemCall *mine = &c->tmem_state->dealloc, *theirs = &peer->tmem_state->dealloc;
  int own = mine->warp == w->id + 1 && !mine->left;
  if (own && mine->settled) {
    memset(mine, 0, sizeof *mine);
    return 1;
  }
  if (mine->warp && !own) return 0; /* an earlier one has not met the peer's yet */
  *mine = (TmemCall){.warp = w->id + 1, .columns = n, .base = addr};
  if (theirs->warp && !theirs->settled) {
    if (theirs->base != addr) broken(w, i, m, addr, n, TMEM_PAIR);
    release(c, tmem_column(addr));
    release(peer, tmem_column(theirs->base));
    if (theirs->left) memset(theirs, 0, sizeof *theirs);
    theirs->settled = theirs->warp != 0;
    memset(mine, 0, sizeof *mine);
    return 1;
  }
  if (!peer->live_warps) {
    release(c, tmem_column(addr));
    memset(mine, 0, sizeof *mine);
    return 1;
  }
  mine->left = w->m->seed && decide(w->m, 0, next_random(w->m) & 1);
  return (int)mine->left;
}

/* a = address, b = columns, x[1] = .cta_group */
static int dealloc(Warp *w, const Insn *i, u32 m) {
  Cta *c = w->cta;
  TmemState *s = c->tmem_state;
  u32 first = (u32)__builtin_ctz(m), group = (u32)i->x[1];
  u32 addr = R32(i->a)[first], n = R32(i->b)[first];
  int paired = group == 2 && tcgen05_peer(c);
  int joined = paired && s->dealloc.warp == w->id + 1 && !s->dealloc.left;
  if (!joined) {
    if (tcgen05_gather(w, i, m)) return STEP_BLOCK;
    if (s->group && s->group != group) tcgen05_group(w, i, first, group);
    if (!same_in_all(R32(i->a), m) || !same_in_all(R32(i->b), m))
      fault(w, i, first, FAULT_TCGEN05, addr, 0, TC_NOT_UNIFORM);
    u32 error = unknown(c, addr, n);
    if (error) broken(w, i, m, addr, n, error);
    if (error == TMEM_NO_BASE) return STEP_NEXT;
    u32 column = tmem_column(addr);
    OBSERVE(w->m, tensor_own, w, i, column, tmem_size(c, column / TMEM_GRANULE), 0);
  }
  if (!paired) {
    release(c, tmem_column(addr));
  } else if (!dealloc_pair(w, i, m, addr, n)) {
    block_on(w, BLOCK_TMEM_ALLOC, addr, 0);
    return STEP_BLOCK;
  }
  return STEP_NEXT;
}

/* x[1] = .cta_group */
static int relinquish(Warp *w, const Insn *i, u32 m) {
  if (tcgen05_gather(w, i, m)) return STEP_BLOCK;
  TmemState *s = w->cta->tmem_state;
  u32 group = (u32)i->x[1];
  if (s->group && s->group != group)
    tcgen05_group(w, i, (u32)__builtin_ctz(m), group);
  s->relinquished = 1;
  return STEP_NEXT;
}

const OpEntry ops_tcgen05_alloc[] = {{"tcgen05.alloc", alloc},
                                     {"tcgen05.dealloc", dealloc},
                                     {"tcgen05.relinquish", relinquish},
                                     {0, 0}};
