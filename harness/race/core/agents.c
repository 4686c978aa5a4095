/* Strands of a warp: splitting, learning, handing over (agents.h). */
#include "agents.h"

#include <stdlib.h>

static Knowledge *scratch_like(const Knowledge *k) {
  return knowledge_new(k->n, k->rows);
}

void warp_begin(WarpAgent *w, u32 comp, u32 live) {
  w->comp = comp;
  w->live = live;
  w->rounds = 0;
  w->n = 1;
  w->clock++;
  Strand *s = &w->strand[0];
  s->lanes = FULL;
  knowledge_clear(s->known);
  memset(s->has_released, 0, sizeof s->has_released);
  memset(s->has_pending, 0, sizeof s->has_pending);
  memset(w->fenced, 0, sizeof w->fenced);
  w->n_releases = 0;
  w->parted = 0;
  w->learned_pc = NO_PC;
}

void warp_free(WarpAgent *w) {
  free(w->touched);
  free(w->known_lanes);
  for (u32 k = 0; k < MAX_STRANDS; k++) {
    free(w->strand[k].known);
    for (u32 r = 0; r < WITHINS; r++) {
      free(w->strand[k].released[r]);
      free(w->strand[k].pending[r]);
    }
  }
}

Strand *warp_strand(WarpAgent *w, u32 lane) {
  for (u32 k = 0; k + 1 < w->n; k++)
    if (w->strand[k].lanes >> lane & 1u) return &w->strand[k];
  return &w->strand[w->n - 1];
}

static Knowledge *own(Knowledge **slot, const Knowledge *like) {
  if (!*slot) *slot = scratch_like(like);
  return *slot;
}

static void copy_strand(Strand *to, const Strand *from) {
  knowledge_copy(own(&to->known, from->known), from->known);
  for (u32 r = 0; r < WITHINS; r++) {
    to->has_released[r] = from->has_released[r];
    to->has_pending[r] = from->has_pending[r];
    if (from->has_released[r])
      knowledge_copy(own(&to->released[r], from->known), from->released[r]);
    if (from->has_pending[r])
      knowledge_copy(own(&to->pending[r], from->known), from->pending[r]);
  }
}

/* Make the lanes of strand k that are in `lanes` a strand of their own; its index. With
 * no room left the whole strand is taken, which can only hide a race. */
static u32 part(WarpAgent *w, u32 k, u32 lanes) {
  Strand *s = &w->strand[k];
  u32 inside = s->lanes & lanes;
  if (inside == s->lanes || w->n == MAX_STRANDS) return k;
  Strand *fresh = &w->strand[w->n];
  copy_strand(fresh, s);
  fresh->lanes = inside;
  s->lanes &= ~inside;
  return w->n++;
}

void warp_acquire(WarpAgent *w, u32 lanes, const Knowledge *news) {
  lanes &= w->live;
  if (w->parted) part_learn(w, lanes, news);
  for (u32 k = 0, n = w->n; k < n; k++) {
    Strand *s = &w->strand[k];
    if (!(s->lanes & lanes) || knowledge_covers(s->known, news)) continue;
    /* lanes that have exited do not count */
    u32 at = (s->lanes & w->live & ~lanes) ? part(w, k, lanes) : k;
    knowledge_join(w->strand[at].known, news);
    w->learned_pc = w->pc;
  }
}

void warp_acquire_later(WarpAgent *w, u32 lanes, const Knowledge *news, u32 within) {
  for (u32 k = 0; k < w->n; k++) {
    Strand *s = &w->strand[k];
    if (!(s->lanes & lanes)) continue;
    Knowledge *p = own(&s->pending[within], s->known);
    if (!s->has_pending[within]) knowledge_clear(p);
    s->has_pending[within] = 1;
    knowledge_join(p, news);
  }
}

/* Own accesses of the lanes, as the others get to know them. Lanes that diverged have
 * fenced at clocks of their own: one lane can be told apart, the others are told as the
 * one of them that fenced last (clock.h). */
static void add_own(const WarpAgent *w, u32 lanes, Knowledge *out) {
  for (u32 p = 0; p < PROXIES; p++) {
    u32 most = 0, at = 0, others = 0;
    for (u32 left = lanes; left; left &= left - 1) {
      u32 l = (u32)__builtin_ctz(left);
      u32 c = p == PLANE_ORDER ? w->clock : w->fenced[p][l];
      if (c > most || left == lanes) {
        if (left != lanes) others = most;
        most = c;
        at = l;
      } else if (c > others) {
        others = c;
      }
    }
    if (lanes & (lanes - 1) || lanes == w->live)
      knowledge_raise(out, p, w->comp, lanes & (lanes - 1) ? others : most, ANY_LANE);
    knowledge_raise(out, p, w->comp, most, at);
  }
}

static int gather(WarpAgent *w, u32 lanes, Knowledge *out) {
  int any = 0;
  for (u32 k = 0; k < w->n; k++) {
    if (!(w->strand[k].lanes & lanes)) continue;
    if (any) knowledge_join(out, w->strand[k].known);
    else knowledge_copy(out, w->strand[k].known);
    any = 1;
  }
  return any;
}

void warp_release(WarpAgent *w, u32 lanes, Knowledge *out) {
  if (!gather(w, lanes, out)) knowledge_clear(out);
  add_own(w, lanes, out);
  w->release_pc[w->n_releases % RELEASES] = w->pc;
  w->release_clock[w->n_releases++ % RELEASES] = w->clock;
  w->clock++;
}

u32 warp_handed_over(const WarpAgent *w, u32 clock) {
  u32 first = w->n_releases > RELEASES ? w->n_releases - RELEASES : 0;
  for (u32 k = first; k < w->n_releases; k++)
    if (w->release_clock[k % RELEASES] >= clock) return w->release_pc[k % RELEASES];
  return NO_PC;
}

static int released(WarpAgent *w, u32 lanes, u32 from, u32 to, Knowledge *out) {
  int any = 0;
  knowledge_clear(out);
  for (u32 k = 0; k < w->n; k++) {
    Strand *s = &w->strand[k];
    for (u32 r = from; r <= to && s->lanes & lanes; r++) {
      if (!s->has_released[r]) continue;
      knowledge_join(out, s->released[r]);
      any = 1;
    }
  }
  return any;
}

int warp_release_fenced(WarpAgent *w, u32 lanes, u32 within, Knowledge *out) {
  return released(w, lanes, within, within, out);
}

int warp_release_within(WarpAgent *w, u32 lanes, u32 within, Knowledge *out) {
  return released(w, lanes, within, WITHIN_GPU, out);
}

void warp_meet(WarpAgent *w, u32 lanes) {
  if ((lanes & w->live) != w->live || !(w->live & (w->live - 1))) return;
  w->meeting[w->n_meetings++ % MEETINGS] = ++w->clock;
}

u32 warp_met(const WarpAgent *w, u32 clock) {
  u32 n = w->n_meetings < MEETINGS ? w->n_meetings : MEETINGS;
  for (u32 k = w->n_meetings - n; k < w->n_meetings; k++)
    if (w->meeting[k % MEETINGS] > clock) return w->meeting[k % MEETINGS];
  return 0;
}

int warp_converge(WarpAgent *w, u32 lanes) {
  lanes &= w->live;
  if (!(lanes & (lanes - 1))) return 1;
  int told = part_sync(w, lanes);
  if (w->n == 1) { /* the usual case: nothing to join but the lanes' own accesses */
    if (lanes == w->live) add_own(w, lanes, w->strand[0].known);
    else for (u32 p = 0; p < PROXIES; p++) /* as in add_own */
      knowledge_raise(w->strand[0].known, p, w->comp,
                      p ? w->fenced[p][__builtin_ctz(lanes)] : w->clock, ANY_LANE);
    w->clock++;
    return told;
  }
  u32 first = MAX_STRANDS;
  for (u32 k = 0, n = w->n; k < n; k++) {
    u32 in = w->strand[k].lanes & lanes;
    if (!in) continue;
    u32 at = (w->strand[k].lanes & w->live & ~lanes) ? part(w, k, lanes) : k;
    if (first == MAX_STRANDS) {
      first = at;
      continue;
    }
    Strand *to = &w->strand[first], *from = &w->strand[at];
    if (to == from) continue;
    knowledge_join(to->known, from->known);
    for (u32 r = 0; r < WITHINS; r++)
      if (from->has_pending[r]) warp_acquire_later(w, to->lanes, from->pending[r], r);
    to->lanes |= from->lanes;
    from->lanes = 0;
  }
  for (u32 k = 0; k < w->n;) { /* close the gaps */
    if (w->strand[k].lanes) {
      k++;
      continue;
    }
    Strand gone = w->strand[k];
    w->strand[k] = w->strand[--w->n];
    w->strand[w->n] = gone;
  }
  Strand *s = warp_strand(w, (u32)__builtin_ctz(lanes));
  add_own(w, lanes, s->known);
  w->clock++;
  return told;
}

void warp_fence_proxy(WarpAgent *w, u32 lanes, u32 plane) {
  for (u32 k = 0, n = w->n; k < n; k++) {
    if (!(w->strand[k].lanes & lanes)) continue;
    u32 at = (w->strand[k].lanes & w->live & ~lanes) ? part(w, k, lanes) : k;
    knowledge_fence(w->strand[at].known, plane);
  }
  for (u32 left = lanes; left; left &= left - 1)
    w->fenced[plane][__builtin_ctz(left)] = w->clock;
  w->clock++;
}

void warp_fence(WarpAgent *w, u32 lanes, u32 within, u32 acquires, u32 releases) {
  for (u32 k = 0; k < w->n; k++) {
    Strand *s = &w->strand[k];
    if (!(s->lanes & lanes)) continue;
    for (u32 r = 0; r <= within && acquires; r++) {
      if (s->has_pending[r] && w->parted) part_learn(w, s->lanes, s->pending[r]);
      if (s->has_pending[r]) knowledge_join(s->known, s->pending[r]);
      s->has_pending[r] = 0;
    }
    if (!releases) continue;
    Knowledge *r = own(&s->released[within], s->known);
    knowledge_copy(r, s->known);
    add_own(w, s->lanes & lanes, r);
    s->has_released[within] = 1;
  }
  w->clock++;
}
