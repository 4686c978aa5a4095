/* Which bytes of global memory a launch touches: masks for every 64 bytes.
 *
 * A thread that reads what it has written itself reads nothing of what was there before.
 * Of every 8 bytes the thread that wrote there last is kept, with what it wrote; a read
 * of bytes that others wrote counts, though it may well follow their writes.
 *
 * An observer of the execution core (observer.h). Lines are kept in a hash table that
 * grows; at the end they are sorted and read out as ranges.
 */
#include <stdlib.h>

#include "core.h"
#include "observer.h"
#include "tensormap.h"

enum { READ = 0, WRITE = 1, LINE = 64, WORDS = 8, FIRST = 1 << 12 };

typedef struct {
  u64 line; /* address / LINE + 1; 0 is an empty slot */
  u64 mask[2];
  u64 writer[WORDS]; /* 1 + the thread that wrote last, 0 for an engine or nobody */
  u64 own;           /* what they wrote since the last write of another */
} Line;

typedef struct {
  Observer observer;
  Line *lines;
  u64 slots, used, lost;
} Footprint;

static Line *slot_of(Line *lines, u64 slots, u64 line) {
  u64 at = (line * 0x9e3779b97f4a7c15ull >> 20) & (slots - 1);
  while (lines[at].line && lines[at].line != line) at = (at + 1) & (slots - 1);
  return &lines[at];
}

static int grow(Footprint *f) {
  u64 slots = f->slots ? 2 * f->slots : FIRST;
  Line *more = calloc(slots, sizeof *more);
  if (!more) return 0;
  for (u64 k = 0; k < f->slots; k++)
    if (f->lines[k].line) *slot_of(more, slots, f->lines[k].line) = f->lines[k];
  free(f->lines);
  f->lines = more;
  f->slots = slots;
  return 1;
}

static void mark(Line *line, u64 mask, u32 access, u64 thread) {
  for (u32 k = 0; k < WORDS; k++) {
    u64 part = mask & 0xffull << 8 * k, *writer = &line->writer[k];
    if (!part) continue;
    if (access & ACCESS_READ)
      line->mask[READ] |= thread && *writer == thread ? part & ~line->own : part;
    if (!(access & ACCESS_WRITE)) continue;
    line->mask[WRITE] |= part;
    if (*writer != thread) line->own &= ~(0xffull << 8 * k);
    *writer = thread;
    line->own |= part;
  }
}

/* thread: 1 + its number, or 0 for an engine */
static void touch(Footprint *f, u64 addr, u64 size, u32 access, u64 thread) {
  while (size) {
    u64 line = addr / LINE + 1, from = addr % LINE, n = LINE - from;
    if (n > size) n = size;
    if (2 * f->used >= f->slots && !grow(f)) {
      f->lost++;
      return;
    }
    Line *found = slot_of(f->lines, f->slots, line);
    if (!found->line) {
      found->line = line;
      f->used++;
    }
    u64 mask = (n == LINE ? ~0ull : (1ull << n) - 1) << from;
    mark(found, mask, access, thread);
    addr += n;
    size -= n;
  }
}

static void lanes(void *state, const Warp *w, const Insn *i, u32 m, u32 space,
                  const u64 *addr, u32 size, u32 access) {
  (void)i;
  u64 first = ((u64)w->cta->linear << 16) + w->id * LANES + 1;
  /* An edit of a tensor map keeps all but one field of what is there. */
  if (size == TMAP_BYTES) access |= ACCESS_READ;
  if (space != SPACE_GENERIC && space != SPACE_GLOBAL) return;
  for (; m; m &= m - 1) {
    u32 l = (u32)__builtin_ctz(m);
    if (space == SPACE_GLOBAL || addr[l] >> WINDOW_SHIFT == 0)
      touch(state, addr[l], size, access, first + l);
  }
}

static void engine(void *state, const Async *op, u32 space, u64 addr, u64 size,
                   u32 access) {
  (void)op;
  if (space == SPACE_GLOBAL)
    touch(state, addr, size, access == ACCESS_MAP ? ACCESS_READ : access, 0);
}

Footprint *footprint_new(void) {
  Footprint *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->observer.state = f;
  f->observer.lanes = lanes;
  f->observer.engine = engine;
  return f;
}

void footprint_free(Footprint *f) {
  free(f->lines);
  free(f);
}

const Observer *footprint_observer(Footprint *f) { return &f->observer; }

u64 footprint_lost(const Footprint *f) { return f->lost; }

static int by_line(const void *a, const void *b) {
  u64 x = ((const Line *)a)->line, y = ((const Line *)b)->line;
  return x < y ? -1 : x > y;
}

/* Read out ranges (start, end) of what was read (0) or written (1), sorted; at most
 * `most`, and how many there are. */
u64 footprint_ranges(const Footprint *f, u32 which, u64 *out, u64 most) {
  Line *sorted = malloc((f->used + 1) * sizeof *sorted);
  if (!sorted) return ~0ull;
  u64 n = 0, found = 0, start = 0, end = 0;
  for (u64 k = 0; k < f->slots; k++)
    if (f->lines[k].line && f->lines[k].mask[which]) sorted[n++] = f->lines[k];
  qsort(sorted, n, sizeof *sorted, by_line);
  for (u64 k = 0; k < n; k++)
    for (u32 b = 0; b < LINE; b++) {
      if (!(sorted[k].mask[which] >> b & 1)) continue;
      u64 at = (sorted[k].line - 1) * LINE + b;
      if (at != end || !found) {
        if (found && found <= most) {
          out[2 * found - 2] = start;
          out[2 * found - 1] = end;
        }
        found++;
        start = at;
      }
      end = at + 1;
    }
  if (found && found <= most) {
    out[2 * found - 2] = start;
    out[2 * found - 1] = end;
  }
  free(sorted);
  return found;
}
