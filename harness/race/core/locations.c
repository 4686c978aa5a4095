/* Words of memory through which threads synchronise.
 *
 * PTX ISA, Memory Consistency Model: Release and Acquire Patterns; Observation Order;
 * Morally Strong Operations. A release is a strong write that releases, or one behind a
 * releasing fence; an acquire is a strong read that acquires, or one before an
 * acquiring fence. Each of them has to reach the other thread by its scope. Atomic
 * operations carry on what was released at a word, another thread's plain write ends it.
 *
 * Vector clocks are those of one cluster. What a cluster learns of another one is kept
 * as news: whoever is ordered after the thread that got it knows it too.
 */
#include <stdlib.h>

#include "events.h"

enum { BUCKETS = 1024, MAX_NEWS = 256 };

/* What one CTA released at a word, about its own cluster or one it had news of. */
typedef struct Handed {
  u32 slot, born, within, about;
  Knowledge *known;
} Handed;

struct Location {
  u64 address;
  u64 writer; /* comp and lane of the last plain write */
  Handed *at;
  u32 n, cap;
  Location *next;
};

static Location *find(Detector *d, u64 address, int make) {
  if (!d->location) {
    d->location = make ? calloc(BUCKETS, sizeof *d->location) : NULL;
    if (!d->location) return NULL;
  }
  Location **bucket = &d->location[(address >> 2) * 0x9e3779b97f4a7c15ull >> 54];
  for (Location *l = *bucket; l; l = l->next)
    if (l->address == address) return l;
  Location *l = make ? calloc(1, sizeof *l) : NULL;
  if (!l) return NULL;
  l->address = address;
  l->next = *bucket;
  return *bucket = l;
}

static void forget(Location *l) {
  for (u32 k = 0; k < l->n; k++) free(l->at[k].known);
  l->n = 0;
}

int location_in(const Detector *d, u64 cell, u32 bytes) {
  for (u32 k = 0; d->location && k < BUCKETS; k++)
    for (const Location *l = d->location[k]; l; l = l->next)
      if (l->n && l->address / CELL_BYTES * CELL_BYTES == cell &&
          bytes >> (l->address % CELL_BYTES) & 1u)
        return 1;
  return 0;
}

void locations_free(Detector *d) {
  for (u32 k = 0; d->location && k < BUCKETS; k++)
    while (d->location[k]) {
      Location *l = d->location[k];
      d->location[k] = l->next;
      forget(l);
      free(l->at);
      free(l);
    }
  free(d->location);
}

/* Join into what `slot` released about a group; 0 without memory. */
static int hand(Detector *d, Location *l, u32 slot, u32 within, u32 about,
                const Knowledge *known) {
  u32 born = d->cta[slot].born;
  for (u32 k = 0; k < l->n; k++) {
    Handed *h = &l->at[k];
    if (h->slot == slot && h->born == born && h->within == within && h->about == about) {
      knowledge_join(h->known, known);
      return 1;
    }
  }
  if (l->n == l->cap) {
    u32 cap = l->cap ? 2 * l->cap : 4;
    Handed *more = realloc(l->at, cap * sizeof *more);
    if (!more) return 0;
    l->at = more;
    l->cap = cap;
  }
  Knowledge *copy = knowledge_new(d->per_group, d->rows);
  if (!copy) return 0;
  knowledge_copy(copy, known);
  l->at[l->n++] = (Handed){slot, born, within, about, copy};
  return 1;
}

/* --- news of other clusters --------------------------------------------------------- */
void news_clear(GroupAgent *g) {
  for (u32 k = 0; k < g->n_news; k++) free(g->news[k].known);
  g->n_news = 0;
}

int news_behind(const News *n, const Knowledge *known, u32 plane, u32 comp, u32 clock,
                u32 lanes) {
  if (n->everyone) return 1;
  if (n->pending) return 0;
  if (plane == PLANE_ORDER && comp == n->by && !(lanes & ~n->lanes))
    return clock > n->clock;
  const u32 *p = known->entry + plane * 3 * known->n + n->by;
  return n->clock <= p[0] ||
         (n->clock <= p[known->n] && n->lanes >> p[2 * known->n] & 1u);
}

/* Too many: take the oldest to be known to all, which can hide a race. */
static void retire(GroupAgent *g) {
  u32 at = 0;
  while (at < g->n_news && g->news[at].everyone) at++;
  if (at == g->n_news) return;
  for (u32 k = 0; k < at; k++)
    if (g->news[k].about == g->news[at].about) {
      knowledge_join(g->news[k].known, g->news[at].known);
      free(g->news[at].known);
      memmove(&g->news[at], &g->news[at + 1], (--g->n_news - at) * sizeof *g->news);
      return;
    }
  g->news[at].everyone = 1;
}

static void add_news(Detector *d, u32 group, WarpAgent *w, u32 lane, u32 about,
                     const Knowledge *known, u32 pending) {
  GroupAgent *g = &d->group[group];
  const Knowledge *mine = warp_strand(w, lane)->known;
  for (u32 k = g->n_news; k-- > 0;) {
    News *n = &g->news[k];
    if (n->about != about || !knowledge_covers(n->known, known)) continue;
    if (news_behind(n, mine, PLANE_ORDER, w->comp, w->clock, 1u << lane)) return;
    if (n->pending && pending && n->by == w->comp && n->lanes >> lane & 1u) return;
    /* another lane of the same instruction */
    if (n->by == w->comp && n->pending == pending && n->clock + 1 == w->clock &&
        knowledge_covers(known, n->known)) {
      n->lanes |= 1u << lane;
      return;
    }
  }
  if (g->n_news >= MAX_NEWS) retire(g);
  if (g->n_news == g->cap_news) {
    u32 cap = g->cap_news ? 2 * g->cap_news : 16;
    News *more = realloc(g->news, cap * sizeof *more);
    if (!more) {
      d->lost++;
      return;
    }
    g->news = more;
    g->cap_news = cap;
  }
  Knowledge *copy = knowledge_new(d->per_group, d->rows);
  if (!copy) {
    d->lost++;
    return;
  }
  knowledge_copy(copy, known);
  g->news[g->n_news++] = (News){.by = w->comp,
                                .clock = w->clock++,
                                .lanes = 1u << lane,
                                .about = about,
                                .pending = pending,
                                .known = copy};
}

void news_fence(Detector *d, u32 slot, u32 warp, u32 lanes) {
  GroupAgent *g = &d->group[slot / d->cluster];
  const WarpAgent *w = &d->cta[slot].warp[warp];
  for (u32 k = 0; k < g->n_news; k++)
    if (g->news[k].pending && g->news[k].by == w->comp && g->news[k].lanes & lanes) {
      g->news[k].pending = 0;
      g->news[k].clock = w->clock;
    }
}

u32 detector_foreign(const Detector *d, const Accessor *a, const Entry *e, u32 plane) {
  const GroupAgent *g = &d->group[a->first_comp / d->per_group];
  u32 group = detector_group_of(d, e->comp), c = e->comp - group * d->per_group;
  u32 self = a->entry.comp - a->first_comp, verdict = UNORDERED;
  for (u32 k = 0; k < g->n_news; k++) {
    const News *n = &g->news[k];
    if (n->about != group || !knows(n->known, PLANE_ORDER, c, e->clock, e->lane) ||
        !news_behind(n, a->known, PLANE_ORDER, self, a->entry.clock, a->lanes))
      continue;
    /* The fence lies on this side of the hand-over or on the other. */
    if (knows(n->known, plane, c, e->clock, e->lane) ||
        news_behind(n, a->known, plane, self, a->entry.clock, a->lanes))
      return APART;
    verdict = BEHIND_PROXY;
  }
  return verdict;
}

/* --- release and acquire ------------------------------------------------------------ */
void detector_release(Detector *d, u32 slot, u32 warp, u32 lane, u64 address, u32 fenced,
                      u32 scope, u32 atomic) {
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 group = slot / d->cluster, widest = within_of(scope);
  u64 self = (u64)(group * d->per_group + w->comp) << 8 | lane;
  Location *at = find(d, address, 0);
  if (at && !atomic) {
    if (at->writer != self) forget(at);
    at->writer = self;
  }
  for (u32 within = 0; within < WITHINS; within++) {
    if (fenced ? !warp_release_fenced(w, 1u << lane, within, d->scratch)
               : within != widest)
      continue;
    if (!fenced) warp_release(w, 1u << lane, d->scratch);
    if (!at && !(at = find(d, address, 1))) {
      d->lost++;
      return;
    }
    if (!atomic) at->writer = self;
    u32 reach = within < widest ? within : widest;
    int ok = hand(d, at, slot, reach, group, d->scratch);
    const GroupAgent *g = &d->group[group];
    const Knowledge *mine = warp_strand(w, lane)->known;
    for (u32 k = 0; ok && k < g->n_news; k++) {
      const News *n = &g->news[k];
      if (!news_behind(n, mine, PLANE_ORDER, w->comp, w->clock, 1u << lane)) continue;
      knowledge_copy(d->scratch, n->known);
      int here = n->by == w->comp && n->lanes >> lane & 1u;
      for (u32 p = PLANE_ORDER + 1; p < PROXIES; p++) /* fenced since the news came */
        if ((here && w->fenced[p][lane] > n->clock) ||
            news_behind(n, mine, p, w->comp, w->clock, 1u << lane))
          knowledge_fence(d->scratch, p);
      ok = hand(d, at, slot, reach, n->about, d->scratch);
    }
    d->lost += !ok;
  }
  if (!fenced || !d->rows) return;
  warp_release(w, 1u << lane, d->scratch);
  tensor_only(d, d->scratch);
  if (!at && !(at = find(d, address, 1))) {
    d->lost++;
    return;
  }
  if (!atomic) at->writer = self;
  d->lost += !hand(d, at, slot, widest, group, d->scratch);
}

void detector_acquire(Detector *d, u32 slot, u32 warp, u32 lane, u64 address,
                      u32 relaxed, u32 scope) {
  const Location *at = find(d, address, 0);
  if (!at) return;
  WarpAgent *w = &d->cta[slot].warp[warp];
  u32 group = slot / d->cluster, mine = within_of(scope);
  for (u32 k = 0; k < at->n; k++) {
    const Handed *h = &at->at[k];
    int alive = h->born == d->cta[h->slot].born;
    u32 need = !alive || h->slot / d->cluster != group ? WITHIN_GPU
               : h->slot != slot                       ? WITHIN_CLUSTER
                                                       : WITHIN_CTA;
    if (h->within < need || mine < need) continue;
    if (need == WITHIN_GPU || h->about != group)
      add_news(d, group, w, lane, h->about, h->known, relaxed);
    else if (relaxed) {
      warp_acquire_later(w, 1u << lane, h->known, need);
      if (!d->rows) continue;
      knowledge_copy(d->scratch, h->known);
      tensor_only(d, d->scratch);
      warp_acquire(w, 1u << lane, d->scratch);
    } else warp_acquire(w, 1u << lane, h->known);
  }
}
