/* Policies of the scheduler (schedule.h).
 *
 * POLICY_PCT follows "A Randomized Scheduler with Probabilistic Guarantees of Finding
 * Bugs" (Burckhardt and others, 2010): priorities drawn at random, and `depth` points of
 * the execution at which the warp that runs falls below all others.
 */
#include "schedule.h"

#include <stdlib.h>

int schedule_init(Machine *m, u32 policy, u32 depth, u64 horizon, const Choice *given,
                  u32 n_given) {
  Schedule *s = calloc(1, sizeof *s);
  if (!s) return 0;
  m->schedule = s;
  s->policy = policy;
  s->depth = depth > MAX_DEPTH ? MAX_DEPTH : depth;
  s->given = given;
  s->n_given = n_given;
  if (policy != POLICY_PCT) return 1;
  s->priority = calloc(m->n_warps, sizeof *s->priority);
  s->stalled = calloc(m->n_warps, sizeof *s->stalled);
  if (!s->priority || !s->stalled) return 0;
  s->lowest = 1ull << 32;
  for (u32 k = 0; k < m->n_warps; k++) s->priority[k] = s->lowest + 1 + next_random(m) / 2;
  for (u32 k = 0; k < s->depth; k++) s->falls[k] = next_random(m) % (horizon ? horizon : 1);
  return 1;
}

void schedule_free(Machine *m) {
  Schedule *s = m->schedule;
  if (!s) return;
  free(s->made);
  free(s->priority);
  free(s->stalled);
  free(s);
}

static void keep(Schedule *s, u32 at, u32 answer) {
  if (s->n_made == MAX_CHOICES) {
    s->dropped++;
    return;
  }
  if (s->n_made == s->cap_made) {
    u32 cap = s->cap_made ? 2 * s->cap_made : 256;
    Choice *more = realloc(s->made, cap * sizeof *more);
    if (!more) {
      s->dropped++;
      return;
    }
    s->made = more;
    s->cap_made = cap;
  }
  s->made[s->n_made++] = (Choice){at, answer};
}

u32 decide(Machine *m, u32 usual, u32 drawn) {
  if (!m->seed) return usual;
  Schedule *s = m->schedule;
  u32 at = (u32)s->decisions++, answer = drawn;
  if (s->policy == POLICY_GIVEN) {
    answer = usual;
    while (s->next_given < s->n_given && s->given[s->next_given].at < at) s->next_given++;
    if (s->next_given < s->n_given && s->given[s->next_given].at == at)
      answer = s->given[s->next_given++].answer;
  }
  if (answer != usual) keep(s, at, answer);
  return answer;
}

static u32 next_alive(const Machine *m, u32 from) {
  for (u32 k = 0; k < m->n_warps; k++) {
    u32 j = from + k < m->n_warps ? from + k : from + k - m->n_warps;
    if (!m->warps[j].done) return j;
  }
  return m->n_warps;
}

/* The warp of highest priority that is not known to wait; the usual one if all wait. */
static u32 highest(const Machine *m, u32 usual) {
  const Schedule *s = m->schedule;
  u32 best = usual;
  u64 most = 0;
  for (u32 k = 0; k < m->n_warps; k++) {
    if (m->warps[k].done || s->stalled[k] == m->progress + 1) continue;
    if (s->priority[k] > most) {
      most = s->priority[k];
      best = k;
    }
  }
  return best;
}

Warp *schedule_warp(Machine *m) {
  u32 usual = next_alive(m, m->rr);
  if (usual == m->n_warps) return NULL;
  u32 at = usual;
  if (m->seed) {
    u32 drawn = m->schedule->policy == POLICY_PCT
                    ? highest(m, usual)
                    : next_alive(m, (u32)(next_random(m) % m->n_warps));
    at = decide(m, usual, drawn);
    if (at >= m->n_warps || m->warps[at].done) at = usual; /* a schedule of other code */
  }
  m->rr = at + 1 == m->n_warps ? 0 : at + 1;
  return &m->warps[at];
}

u64 schedule_quantum(Machine *m) {
  if (!m->seed) return m->quantum;
  u32 drawn = 1 + (u32)(next_random(m) % m->quantum);
  if (m->schedule->policy == POLICY_PCT) drawn = 1 + drawn % 16;
  u32 q = decide(m, m->quantum, drawn);
  return q ? q : 1;
}

void schedule_ran(Machine *m, const Warp *w, u64 executed) {
  Schedule *s = m->schedule;
  if (!s || s->policy != POLICY_PCT) return;
  s->stalled[w->index] = executed ? 0 : m->progress + 1;
  for (u32 k = 0; k < s->depth; k++) {
    if (!s->falls[k] || m->executed < s->falls[k]) continue;
    s->falls[k] = 0;
    s->priority[w->index] = s->lowest--;
  }
}

/* What was not usual, for Python; the counts of decisions and of choices not kept. */
const Choice *ss_choices(const Machine *m, u32 *n, u64 *decisions, u32 *dropped) {
  const Schedule *s = m->schedule;
  *n = s ? s->n_made : 0;
  *decisions = s ? s->decisions : 0;
  *dropped = s ? s->dropped : 0;
  return s ? s->made : NULL;
}
