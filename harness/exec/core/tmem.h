/* Tensor memory of a CTA: 512 columns of 128 lanes of 32 bits.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Tensor Memory. A column is 128
 * consecutive words, so that a 32x32b load or store moves 32 words at a time and an
 * accumulator column is one vector. An address is lane << 16 | column.
 */
#ifndef SIDESTREAM_TMEM_H
#define SIDESTREAM_TMEM_H

#include "core.h"

#define TMEM_COLUMNS 512u
#define TMEM_LANES 128u
#define TMEM_BYTES ((u64)TMEM_COLUMNS * TMEM_LANES * 4)
#define TMEM_GRANULE 32u /* columns: the unit of allocation */
#define TMEM_GRANULES (TMEM_COLUMNS / TMEM_GRANULE)

/* What a warp of a CTA pair asked for together with the peer: alloc, dealloc. */
typedef struct TmemCall {
  u32 warp;    /* 1 + the warp that waits for the peer's, 0 = none */
  u32 columns;
  u32 base;
  u32 settled; /* the pair met: the warp may go on */
  u32 left;    /* the warp has gone on before the pair met */
} TmemCall;

typedef struct TmemState {
  u8 owner[TMEM_GRANULES];   /* 1 + first granule of the allocation, 0 = free */
  u8 written[TMEM_COLUMNS];  /* bit q: something wrote lanes 32 q .. 32 q + 31 */
  const Insn *by[TMEM_GRANULES]; /* the alloc of an allocation, at its first granule */
  u32 by_warp[TMEM_GRANULES];
  u8 group;                  /* .cta_group of the first tcgen05 instruction, 0 = none */
  u8 relinquished;
  u16 least;                 /* columns of the smallest allocation so far, 0 = none */
  TmemCall alloc, dealloc;   /* .cta_group::2 only */
} TmemState;

/* A new CTA: nothing is allocated, and the cells hold no one knows what. */
void tmem_start(Cta *c);
/* Its last warp has exited: what is still allocated is a fault. */
void tmem_finish(Cta *c);

static inline u32 tmem_lane(u32 addr) { return addr >> 16; }
static inline u32 tmem_column(u32 addr) { return addr & 0xffffu; }
static inline u32 *tmem_cell(const Cta *c, u32 lane, u32 column) {
  return c->tmem + (u64)column * TMEM_LANES + lane;
}
/* Whether every granule of [column, column + n) belongs to one live allocation. */
int tmem_owned(const Cta *c, u32 column, u32 n);
/* Columns of the allocation that begins at granule g, 0 if none does. */
u32 tmem_size(const Cta *c, u32 g);
/* Note that lanes [lane, lane + lanes) of columns [column, column + n) were written.
 * A quadrant of 32 lanes counts as written once any of it was. */
void tmem_mark(Cta *c, u32 lane, u32 lanes, u32 column, u32 n);
/* Whether all of them were. */
int tmem_marked(const Cta *c, u32 lane, u32 lanes, u32 column, u32 n);

#endif
