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

typedef struct TmemState {
  u8 owner[TMEM_GRANULES]; /* 1 + first granule of the allocation, 0 = free */
  u8 group;                /* .cta_group of the first tcgen05 instruction, 0 = none */
  u8 relinquished;
  u16 least;               /* columns of the smallest allocation so far, 0 = none */
} TmemState;

/* A new CTA: nothing is allocated, and the cells hold no one knows what. */
void tmem_start(Cta *c);

static inline u32 tmem_lane(u32 addr) { return addr >> 16; }
static inline u32 tmem_column(u32 addr) { return addr & 0xffffu; }
static inline u32 *tmem_cell(const Cta *c, u32 lane, u32 column) {
  return c->tmem + (u64)column * TMEM_LANES + lane;
}
/* Whether every granule of [column, column + n) belongs to one live allocation. */
int tmem_owned(const Cta *c, u32 column, u32 n);

#endif
