/* Tensor memory: its life with the CTA, who owns a column, what was written. */
#include "tmem.h"

#include "tcgen05.h"

void tmem_start(Cta *c) {
  u32 fill = c->m->tmem_fill;
  memset(c->tmem_state, 0, sizeof *c->tmem_state);
  for (u64 k = 0; k < TMEM_BYTES / 4; k++) c->tmem[k] = fill;
}

u32 tmem_size(const Cta *c, u32 g) {
  const u8 *owner = c->tmem_state->owner;
  u32 end = g;
  while (end < TMEM_GRANULES && owner[end] == g + 1) end++;
  return (end - g) * TMEM_GRANULE;
}

void tmem_finish(Cta *c) {
  const TmemState *s = c->tmem_state;
  /* Given back, and the peer's half of it is still to come. */
  u32 given = s->dealloc.left ? tmem_column(s->dealloc.base) : TMEM_COLUMNS;
  for (u32 g = 0; g < TMEM_GRANULES; g++)
    if (s->owner[g] == g + 1 && g * TMEM_GRANULE != given)
      fault_at(c->m, s->by[g], c, s->by_warp[g], NO_LANE, FAULT_TMEM_ALLOC,
               g * TMEM_GRANULE, tmem_size(c, g), TMEM_LEAKED);
}

int tmem_owned(const Cta *c, u32 column, u32 n) {
  if (!c->tmem || column >= TMEM_COLUMNS || n > TMEM_COLUMNS - column) return 0;
  const u8 *owner = c->tmem_state->owner;
  u32 first = column / TMEM_GRANULE, last = (column + (n ? n : 1) - 1) / TMEM_GRANULE;
  for (u32 g = first; g <= last; g++)
    if (!owner[g] || owner[g] != owner[first]) return 0;
  return 1;
}

/* Bits of the quadrants that [lane, lane + lanes) touches. */
static u32 quadrants(u32 lane, u32 lanes) {
  u32 first = lane / 32, last = (lane + lanes - 1) / 32;
  return (2u << last) - (1u << first);
}

void tmem_mark(Cta *c, u32 lane, u32 lanes, u32 column, u32 n) {
  u8 *written = c->tmem_state->written;
  u8 bits = (u8)quadrants(lane, lanes);
  for (u32 k = column; k < column + n; k++) written[k] |= bits;
}

int tmem_marked(const Cta *c, u32 lane, u32 lanes, u32 column, u32 n) {
  const u8 *written = c->tmem_state->written;
  u32 bits = quadrants(lane, lanes), all = bits;
  for (u32 k = column; k < column + n; k++) all &= written[k];
  return all == bits;
}
