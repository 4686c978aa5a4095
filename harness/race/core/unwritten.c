/* A bit a byte says whether anything has written it. Whoever reads looks first whether
 * all bits from the lowest to the highest byte are set, which is the usual case. */
#include "unwritten.h"

#include <stdlib.h>

enum { WORD = 64, CHUNK = 16 };

Written *written_new(u32 slots, u32 smem_bytes) {
  Written *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  h->n_slots = slots;
  h->words = (smem_bytes + WORD - 1) / WORD;
  h->bits = calloc((u64)slots * h->words + 1, sizeof *h->bits);
  if (h->bits) return h;
  free(h);
  return NULL;
}

void written_free(Written *h) {
  if (h) free(h->bits);
  free(h);
}

static inline u64 *of(const Written *h, u32 slot) { return h->bits + (u64)slot * h->words; }

void written_clear(Written *h, u32 slot) {
  memset(of(h, slot), 0, h->words * sizeof *h->bits);
}

/* Bits of word k that stand for bytes `from` to `to`, which is behind the last one. */
static inline u64 part(u64 k, u64 from, u64 to) {
  u64 bits = ~0ull;
  if (k == from / WORD) bits <<= from % WORD;
  if (k == (to - 1) / WORD) bits &= ~0ull >> (WORD - 1 - (to - 1) % WORD);
  return bits;
}

/* Whether all of it is written: without branches, for it is asked at every access. */
static inline int whole(const u64 *bits, u64 from, u64 to) {
  u64 first = from / WORD, last = (to - 1) / WORD;
  u64 clear = (~bits[first] & part(first, from, to)) | (~bits[last] & part(last, from, to));
  for (u64 k = first + 1; k < last; k++) clear |= ~bits[k];
  return !clear;
}

/* Offset of the first byte of the range that nothing wrote, or `to`. */
static inline u64 missing(const u64 *bits, u64 from, u64 to) {
  for (u64 k = from / WORD; k <= (to - 1) / WORD; k++) {
    u64 clear = ~bits[k] & part(k, from, to);
    if (__builtin_expect(clear != 0, 0)) return k * WORD + (u64)__builtin_ctzll(clear);
  }
  return to;
}

static void fill(u64 *bits, u64 from, u64 to) {
  for (u64 k = from / WORD; from < to && k <= (to - 1) / WORD; k++) bits[k] |= part(k, from, to);
}

void unwritten_note(UnwrittenReads *to, const Cta *by, u32 warp, u32 lane, u32 pc,
                    u32 address, u32 size) {
  for (u32 k = 0; k < to->n; k++)
    if (to->read[k].pc == pc) {
      to->read[k].count++;
      return;
    }
  if (to->n == MAX_UNWRITTEN) {
    to->dropped++;
    return;
  }
  Unwritten *r = &to->read[to->n++];
  *r = (Unwritten){.pc = pc, .warp = warp, .lane = lane, .address = address, .size = size};
  r->count = 1;
  memcpy(r->cta, by->id, sizeof r->cta);
}

static void note(Written *h, const Cta *by, u32 warp, u32 lane, u32 pc, u32 rank, u64 offset,
                 u32 size) {
  u32 address = rank << 24 | (SMEM_BASE + (u32)offset);
  unwritten_note(&h->reads, by, warp, lane, pc, address, size);
}

void written_lanes(Written *h, const Warp *w, u32 pc, u32 lanes, u32 slot,
                   const u32 *offset, u32 size, u32 access) {
  u64 *bits = of(h, slot);
  u32 lo = ~0u, hi = 0;
  for (u32 l = 0; l < LANES; l++) {
    u32 on = 0u - (lanes >> l & 1u), low = offset[l] | ~on, high = offset[l] & on;
    lo = low < lo ? low : lo;
    hi = high > hi ? high : hi;
  }
  u64 to = (u64)hi + size;
  if (!size || whole(bits, lo, to)) return;
  u32 rank = slot - w->cta->first_slot;
  for (u32 left = access & ACCESS_READ ? lanes : 0; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    u64 end = (u64)offset[l] + size, at = missing(bits, offset[l], end);
    if (at < end) note(h, w->cta, w->id, l, pc, rank, at, size);
  }
  for (u32 left = access & ACCESS_WRITE ? lanes : 0; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    fill(bits, offset[l], (u64)offset[l] + size);
  }
}

/* Lane that issued an operation: the first one of several. */
static u32 issuer(const Async *op) {
  return op->mask ? (u32)__builtin_ctz(op->mask) : op->lane;
}

void written_engine(Written *h, const Async *op, u32 pc, u32 slot, u32 offset, u64 size,
                    u32 access) {
  u64 *bits = of(h, slot), inside = op->cta->m->smem_size;
  u64 to = offset + size < inside ? offset + size : inside;
  if (offset >= to) return;
  if (access & ACCESS_READ) {
    u64 at = missing(bits, offset, to);
    if (at < to)
      note(h, op->cta, op->warp->id, issuer(op), pc, slot - op->cta->first_slot, at,
           (u32)size);
  }
  if (access & ACCESS_WRITE) fill(bits, offset, to);
}

void written_chunks(Written *h, const Async *op, u32 pc, u32 slot, const u32 *offset, u32 n) {
  const u64 *bits = of(h, slot);
  u32 lo = ~0u, hi = 0;
  for (u32 k = 0; k < n; k++) {
    lo = offset[k] < lo ? offset[k] : lo;
    hi = offset[k] > hi ? offset[k] : hi;
  }
  if (!n || whole(bits, lo, (u64)hi + CHUNK)) return;
  for (u32 k = 0; k < n; k++) {
    u64 to = offset[k] + (u64)CHUNK, at = missing(bits, offset[k], to);
    if (at == to) continue;
    note(h, op->cta, op->warp->id, issuer(op), pc, slot - op->cta->first_slot, at, CHUNK);
    return; /* the operands of an operation are one read */
  }
}

void written_set(Written *h, u32 slot, u32 offset, u64 size) {
  u64 inside = (u64)h->words * WORD, to = offset + size;
  fill(of(h, slot), offset, to < inside ? to : inside);
}

u32 race_unwritten_count(const UnwrittenReads *of) { return of->n; }
const Unwritten *race_unwritten_table(const UnwrittenReads *of) { return of->read; }
u64 race_unwritten_dropped(const UnwrittenReads *of) { return of->dropped; }
