/* Blocks of cells: whole cells that an operation accesses are judged and kept together.
 *
 * A tile that a copy writes, or that the tensor core reads, gives every cell the same
 * entry. It is kept once, with a mask of cells, until a lane or a part of a cell comes
 * between: then that cell gets entries of its own, until one access stands for all.
 */
#include <stdlib.h>

#include "detector.h"

static Span *spans(Block *b) { return b->more ? b->more : b->span; }

void block_free(Block *b) {
  free(b->cell);
  free(b->more);
}

static u64 address_of(const Accessor *a, u64 first, u32 cell) {
  if (a->space != RACE_TENSOR) return first + cell * CELL_BYTES;
  return (first + cell / TMEM_CELLS_COLUMN) |
         (u64)(cell % TMEM_CELLS_COLUMN * TMEM_CELL_LANES) << 16;
}

/* Drop the spans of no cells. */
static void close_gaps(Block *b) {
  Span *s = spans(b);
  u32 n = 0;
  for (u32 k = 0; k < b->n; k++)
    if (s[k].cells) s[n++] = s[k];
  b->n = n;
}

static int add(Block *b, const Entry *e, u64 cells) {
  Span *s = spans(b);
  for (u32 k = b->n; k-- > 0;)
    if (!memcmp(&s[k].entry, e, sizeof *e)) {
      s[k].cells |= cells;
      return 1;
    }
  if (b->n == (b->more ? b->capacity : BLOCK_SPANS)) {
    u32 n = 2 * b->n;
    Span *more = realloc(b->more, n * sizeof *more);
    if (!more) return 0;
    if (!b->more) memcpy(more, b->span, sizeof b->span);
    b->more = s = more;
    b->capacity = n;
  }
  s[b->n++] = (Span){cells, *e};
  return 1;
}

/* The cell gets entries of its own. NULL without memory. */
static Cell *own(Detector *d, Block *b, u32 at) {
  if (!b->cell) b->cell = calloc(BLOCK_CELLS, sizeof *b->cell);
  if (!b->cell) return NULL;
  u64 bit = 1ull << at;
  if (b->fine & bit) return &b->cell[at];
  b->fine |= bit;
  Span *s = spans(b);
  u32 gone = 0;
  for (u32 k = 0; k < b->n; k++) {
    if (!(s[k].cells & bit)) continue;
    s[k].cells &= ~bit;
    gone |= !s[k].cells;
    shadow_keep(d, &b->cell[at], &s[k].entry, ALL_BYTES);
  }
  if (gone) close_gaps(b);
  return &b->cell[at];
}

void block_part(Detector *d, Block *b, Accessor *a, u32 at, u32 bytes) {
  Cell *cell = own(d, b, at);
  b->touched |= 1ull << at;
  if (cell) shadow_access(d, cell, a, bytes);
  else d->lost++;
}

const Cell *block_cell(Detector *d, Block *b, u32 at) { return own(d, b, at); }

/* Whether nothing but the access itself is left in the cell, which it covers. */
static int alone(const Cell *c, const Accessor *a) {
  const Entry *e = c->entry;
  return !c->more && !e[1].bytes && e->bytes == ALL_BYTES && !e->cut &&
         e->clock == a->entry.clock && e->comp == a->entry.comp && e->pc == a->entry.pc;
}

void block_access(Detector *d, Block *b, Accessor *a, u64 first, u64 cells) {
  b->touched |= cells;
  for (u64 left = cells & b->fine; left; left &= left - 1) {
    u32 at = (u32)__builtin_ctzll(left);
    a->address = address_of(a, first, at);
    shadow_access(d, &b->cell[at], a, ALL_BYTES);
    if (!alone(&b->cell[at], a)) {
      cells &= ~(1ull << at);
      continue;
    }
    b->cell[at].entry[0].bytes = 0;
    b->fine &= ~(1ull << at);
  }
  if (!cells) return;
  Span *s = spans(b);
  u32 gone = 0;
  for (u32 k = 0; k < b->n; k++) {
    u64 both = s[k].cells & cells;
    if (!both) continue;
    a->address = address_of(a, first, (u32)__builtin_ctzll(both));
    a->count = (u32)__builtin_popcountll(both);
    if (shadow_stands(d, a, &s[k].entry, ALL_BYTES)) s[k].cells &= ~both;
    gone |= !s[k].cells;
  }
  if (gone) close_gaps(b);
  a->entry.bytes = ALL_BYTES;
  if (!add(b, &a->entry, cells)) d->lost++;
}
