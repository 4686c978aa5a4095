/* Reads of what nothing has written since its CTA took its place: shared memory, and
 * registers. */
#ifndef SIDESTREAM_UNWRITTEN_H
#define SIDESTREAM_UNWRITTEN_H

#include "core.h"

/* The first such read by one instruction, and how often it came. */
typedef struct Unwritten {
  u32 pc, warp, lane;
  u32 cta[3];   /* of the reader */
  /* shared::cluster, of the first byte that nothing wrote; or a register's number */
  u32 address;
  u32 size;     /* bytes of that access, or of one chunk of it; 0 of registers */
  u64 count;    /* accesses */
} Unwritten;
enum { MAX_UNWRITTEN = 256 };
typedef struct UnwrittenReads {
  u32 n;
  Unwritten read[MAX_UNWRITTEN];
  u64 dropped;
} UnwrittenReads;

/* Keep a read; what an instruction did before only counts. */
void unwritten_note(UnwrittenReads *to, const Cta *by, u32 warp, u32 lane, u32 pc,
                    u32 address, u32 size);
u32 race_unwritten_count(const UnwrittenReads *of);
const Unwritten *race_unwritten_table(const UnwrittenReads *of);
u64 race_unwritten_dropped(const UnwrittenReads *of);

/* --- unwritten.c ------------------------------------------------------------------- */

typedef struct Written {
  u32 n_slots, words; /* of 64 bytes each, in a CTA's shared memory */
  u64 *bits;          /* a bit a byte, by slot: 1 = written */
  UnwrittenReads reads;
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

/* --- registers.c ------------------------------------------------------------------- */
/* What a bytecode row does to registers that may be undefined, a bit for each. */
enum { MOST_REGISTERS = 64 };
typedef struct RegisterUse {
  u64 reads, guard, writes;
} RegisterUse;
typedef struct Registers {
  const RegisterUse *use;
  u32 n_code, warps;
  u32 (*defined)[MOST_REGISTERS]; /* lanes, by slot and warp */
  UnwrittenReads reads;
} Registers;

Registers *registers_new(u32 slots, u32 warps, const RegisterUse *use, u32 n_code);
void registers_free(Registers *h);
void registers_clear(Registers *h, u32 slot);
/* `begin` and `executed` of the observer. */
void registers_begin(Registers *h, const Warp *w, u32 pc);
void registers_executed(Registers *h, const Warp *w, u32 pc, u32 lanes);

#endif
