/* One tcgen05.mma: its form in the instruction row and its operands. */
#ifndef SIDESTREAM_TCGEN05_MMA_H
#define SIDESTREAM_TCGEN05_MMA_H

#include "tcgen05_descriptor.h"

/* x[0] of the row: .kind | .cta_group << 4 | flags; x[1] = scale-input-d; x[2] = scale
 * factors a row; x[3] = 1 with a zero-column mask. The same values are in exec/lower/tcgen05_mma.py. */
enum { MMA_A_TMEM = 0x100, MMA_WS = 0x200 };

static inline MmaForm mma_form(const Insn *i) {
  return (MmaForm){
      .kind = (u32)i->x[0] & 15u,
      .group = (u32)i->x[0] >> 4 & 3u,
      .ws = ((u32)i->x[0] & MMA_WS) != 0,
      .scales = (u32)i->x[2],
  };
}

typedef struct MmaCall {
  u64 a;           /* descriptor, or tensor memory address */
  u64 b;           /* descriptor */
  u64 zero;        /* zero-column mask descriptor (.ws) */
  u32 d, idesc;
  u32 enable;      /* D = A * B + D rather than A * B */
  u32 sfa, sfb;    /* tensor memory addresses of the scale factors */
  u32 disabled[8]; /* lanes not written, 4 words a CTA */
} MmaCall;

#endif
