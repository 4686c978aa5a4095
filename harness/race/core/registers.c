/* Which lanes have written a register that may be read before (PTX ISA, "Register State
 * Space", "setmaxnreg"). The text says which registers those are: exec/undefined.py. */
#include <stdlib.h>

#include "unwritten.h"

Registers *registers_new(u32 slots, u32 warps, const RegisterUse *use, u32 n_code) {
  Registers *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  h->use = use;
  h->n_code = n_code;
  h->warps = warps;
  h->defined = calloc((u64)slots * warps, sizeof *h->defined);
  if (h->defined) return h;
  free(h);
  return NULL;
}

void registers_free(Registers *h) {
  if (h) free(h->defined);
  free(h);
}

void registers_clear(Registers *h, u32 slot) {
  memset(h->defined[(u64)slot * h->warps], 0, h->warps * sizeof *h->defined);
}

static u32 *of(const Registers *h, const Warp *w) {
  return h->defined[(u64)w->cta->slot * h->warps + w->id];
}

static void look(Registers *h, const Warp *w, u32 pc, u64 registers, u32 lanes) {
  for (; registers; registers &= registers - 1) {
    u32 number = (u32)__builtin_ctzll(registers), undefined = lanes & ~of(h, w)[number];
    if (!undefined) continue;
    unwritten_note(&h->reads, w->cta, w->id, (u32)__builtin_ctz(undefined), pc, number, 0);
    return;
  }
}

/* Every lane that is here asks its guard, those that it holds back too. */
void registers_begin(Registers *h, const Warp *w, u32 pc) {
  if (pc < h->n_code) look(h, w, pc, h->use[pc].guard, w->mask);
}

void registers_executed(Registers *h, const Warp *w, u32 pc, u32 lanes) {
  if (pc >= h->n_code) return;
  const RegisterUse *use = &h->use[pc];
  if (!lanes) look(h, w, pc, use->guard, w->mask);
  look(h, w, pc, use->reads, lanes);
  for (u64 left = use->writes; left; left &= left - 1)
    of(h, w)[__builtin_ctzll(left)] |= lanes;
}
