/* Reads of shared memory that nothing has written since its CTA took its place. */
#ifndef SIDESTREAM_UNWRITTEN_H
#define SIDESTREAM_UNWRITTEN_H

#include "core.h"

/* The first such read by one instruction, and how often it came. */
typedef struct Unwritten {
  u32 pc, warp, lane;
  u32 cta[3];   /* of the reader */
  u32 address;  /* shared::cluster, of the first byte that nothing wrote */
  u32 size;     /* bytes of that access, or of one chunk of it */
  u64 count;    /* accesses */
} Unwritten;
enum { MAX_UNWRITTEN = 256 };

typedef struct Written {
  u32 n_slots, words; /* of 64 bytes each, in a CTA's shared memory */
  u64 *bits;          /* a bit a byte, by slot: 1 = written */
  u32 n;
  Unwritten read[MAX_UNWRITTEN];
  u64 dropped;
} Written;

/* NULL without memory. */
Written *written_new(u32 slots, u32 smem_bytes);
void written_free(Written *h);
/* A CTA takes its slot. */
void written_clear(Written *h, u32 slot);
/* Lanes access `size` bytes each at offset[lane] of the memory of a slot; all of them lie
 * inside. `access` as in enum Access. */
void written_lanes(Written *h, const Warp *w, u32 pc, u32 lanes, u32 slot,
                   const u32 *offset, u32 size, u32 access);
/* An operation accesses bytes; what lies outside is left out. */
void written_engine(Written *h, const Async *op, u32 pc, u32 slot, u32 offset, u64 size,
                    u32 access);
/* It reads the 16 bytes at each of n offsets, all of them inside. */
void written_chunks(Written *h, const Async *op, u32 pc, u32 slot, const u32 *offset, u32 n);
/* Bytes get a value in another way. */
void written_set(Written *h, u32 slot, u32 offset, u64 size);

u32 race_unwritten_count(const Written *h);
const Unwritten *race_unwritten_table(const Written *h);
u64 race_unwritten_dropped(const Written *h);

#endif
