/* Scale factors of a block-scaled tcgen05.mma. */
#ifndef SIDESTREAM_TCGEN05_SCALE_H
#define SIDESTREAM_TCGEN05_SCALE_H

#include "tcgen05_multiply.h"

/* Where the factors lie. The address that CUTLASS and CuTe DSL hand over repeats the scale
 * factor id of the instruction descriptor in its two upper bits, which are of the lane
 * otherwise. Any other bits there stay, and are no lane. */
u32 tcgen05_scale_address(u32 addr, u32 id);

/* Columns of tensor memory that hold the factors of that many rows. */
u32 tcgen05_scale_columns(u32 rows);

/* Read the factors at tensor memory columns `sfa` and `sfb` of one CTA with `rows` rows
 * of A, whose lanes are in `parts` groups with columns of their own. Returns
 * TC_SCALE_COPIES if copies differ; the factors are then each partition's own. */
u32 tcgen05_scales(const Cta *c, const Idesc *d, u32 count, u32 rows, u32 parts, u32 sfa,
                   u32 sfb, Scales *out);

#endif
