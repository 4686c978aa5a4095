/* From the 32 addresses of a warp to 32 host pointers, checked. */
#ifndef SIDESTREAM_ACCESS_H
#define SIDESTREAM_ACCESS_H

#include "core.h"

#define ADDR64 0x100 /* in x[0] beside the space: the address row is 64 bits wide */

/* Address row a plus the offset imm, of every lane. */
static inline void lane_addresses(const Warp *w, const Insn *i, s32 ref, u64 *addr) {
  if (i->x[0] & ADDR64) {
    const u64 *a = R64(ref);
    for (int l = 0; l < LANES; l++) addr[l] = a[l] + (u64)i->imm;
  } else {
    const u32 *a = R32(ref);
    for (int l = 0; l < LANES; l++) addr[l] = (u32)(a[l] + (u32)i->imm);
  }
}

/* Pointers to `size` bytes (at most 64) for the lanes of m. Lanes outside m, and
 * lanes whose access is faulty, point at zeros that may be written and mean nothing. */
void lane_pointers(Warp *w, const Insn *i, u32 m, u32 space, const u64 *addr, u32 size,
                   u32 align, u32 access, u8 **p);

/* Shared-memory address of a lane given in `space` (generic or shared); 0, after
 * recording the fault, if it lies elsewhere. Address 0 is never a kernel's. */
u32 shared_address(Warp *w, const Insn *i, u32 lane, u32 space, u64 addr, u32 size);

#endif
