/* Tensor memory: its state at the start of a CTA and who owns a column. */
#include "tmem.h"

void tmem_start(Cta *c) {
  u32 fill = c->m->reg_fill;
  memset(c->tmem_state, 0, sizeof *c->tmem_state);
  for (u64 k = 0; k < TMEM_BYTES / 4; k++) c->tmem[k] = fill;
}

int tmem_owned(const Cta *c, u32 column, u32 n) {
  if (!c->tmem || column >= TMEM_COLUMNS || n > TMEM_COLUMNS - column) return 0;
  const u8 *owner = c->tmem_state->owner;
  u32 first = column / TMEM_GRANULE, last = (column + (n ? n : 1) - 1) / TMEM_GRANULE;
  for (u32 g = first; g <= last; g++)
    if (!owner[g] || owner[g] != owner[first]) return 0;
  return 1;
}
