/* Rules that all tcgen05 instructions share: error codes, CTA pairs, one .cta_group.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Tensor Memory Allocation and
 * Management, Access Restrictions, Issue Granularity.
 */
#ifndef SIDESTREAM_TCGEN05_H
#define SIDESTREAM_TCGEN05_H

#include "tmem.h"

/* The info of FAULT_TMEM_ALLOC, FAULT_TMEM and FAULT_TMEM_UNINIT. */
enum TmemError {
  TMEM_OK = 0,
  TMEM_COUNT,        /* columns other than a power of two in 32 .. 512 */
  TMEM_GROWS,        /* a larger allocation after a smaller one */
  TMEM_RELINQUISHED, /* alloc after relinquish_alloc_permit */
  TMEM_NO_BASE,      /* dealloc of an address where no allocation begins */
  TMEM_OTHER_SIZE,   /* dealloc of another size than was allocated */
  TMEM_PAIR,         /* the CTAs of a pair name different columns */
  TMEM_LEAKED,       /* still allocated when the CTA exits */
  TMEM_RANGE,        /* a lane past 127 or a column past 511 */
  TMEM_UNALLOCATED,  /* columns that belong to no allocation, or to two */
  TMEM_DEALLOCATED,  /* deallocated before the access has completed */
  TMEM_QUADRANT,     /* lanes of another warp of the warpgroup */
  TMEM_ALIGNMENT,    /* a lane that the shape does not start at */
  TMEM_UNWRITTEN     /* a read of cells that nothing has written */
};

/* The info of FAULT_TCGEN05. */
enum Tcgen05Error {
  TC_OK = 0,
  TC_TWO_GROUPS, /* .cta_group::1 and .cta_group::2 in one kernel */
  TC_NO_PEER,    /* .cta_group::2 where the CTA has no peer */
  TC_PEER_GONE,  /* .cta_group::2 after the peer has exited */
  TC_DIVERGED,   /* .aligned, executed by a part of the warp's lanes */
  TC_NOT_UNIFORM, /* .aligned, with operands that differ between the lanes */
  /* instruction descriptor */
  TC_IDESC_RESERVED, /* a bit that must be 0 is not */
  TC_IDESC_SPARSITY, /* says sparse for a dense instruction, or the reverse */
  TC_IDESC_SATURATE, /* saturation of what is no integer */
  TC_IDESC_TYPE,     /* a type that the .kind does not have */
  TC_IDESC_NEGATE,   /* negation of integers */
  TC_IDESC_MAJOR,    /* transposed, where the type has no transposed form */
  TC_IDESC_M,        /* M that the .kind and .cta_group do not have */
  TC_IDESC_N,        /* N likewise */
  TC_IDESC_SCALE,    /* scale type or scale factor id */
  /* shared memory descriptor */
  TC_SDESC_FIXED,    /* bits of fixed or reserved value have another */
  TC_SDESC_SWIZZLE,  /* no such swizzling mode, or not for this type and majorness */
  TC_SDESC_BASE,     /* base offset without a swizzling mode that has one */
  TC_SDESC_ABSOLUTE, /* absolute leading dimension stride */
  /* operands */
  TC_SCALE_COPIES,   /* scale factors differ between the 32-lane partitions */
  TC_CTA_MASK,       /* multicast to a CTA that the cluster does not have */
  TC_ZERO_COLUMNS    /* zero-column mask: reserved bits, or a shift too wide */
};

/* The other CTA of the pair: ranks that differ in their lowest bit. NULL without. */
static inline Cta *tcgen05_peer(const Cta *c) {
  u32 rank = c->rank ^ 1u;
  return rank < c->m->cluster_size ? &c->m->ctas[c->first_slot + rank] : NULL;
}

/* Check and remember the .cta_group (1 or 2) of an instruction that has one: all of
 * a kernel have the same, and 2 needs a peer that is still there. Records the fault
 * and returns its code, 0 if all is well. */
u32 tcgen05_group(Warp *w, const Insn *i, u32 lane, u32 group);

/* For .sync.aligned: 1 while lanes are missing; the caller then returns STEP_BLOCK.
 * Records a fault if only a part of the lanes that came execute it. */
int tcgen05_gather(Warp *w, const Insn *i, u32 m);

#endif
