/* Numbers of the tensor cores: how one fused dot-product-and-add rounds.
 *
 * The arithmetic is not published by NVIDIA. The model here is that of the public
 * studies of it ("Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004;
 * "MMA-Sim", arXiv 2511.10909), held against recorded results of an H200 in
 * harness/tests/hw. One fused step adds up to `step` products and the accumulator:
 *   - a product keeps its exact mantissa and the sum of its operands' exponents, so
 *     that it is not normalised; subnormal operands keep their format's least
 *     exponent; zeros take no part;
 *   - all terms are aligned to the largest exponent and cut (toward zero) behind
 *     `frac` fraction bits of it, then added exactly;
 *   - the sum is rounded once: toward zero to f32, to nearest even to f16; a sum or
 *     result of zero is +0.
 */
#ifndef SIDESTREAM_MMA_NUMERICS_H
#define SIDESTREAM_MMA_NUMERICS_H

#include "core.h"

enum MmaType { MMA_F16 = 0, MMA_BF16, MMA_TF32, MMA_E4M3, MMA_E5M2 };

#define MMA_ZERO (-4096) /* exponent of a zero: below every other sum of exponents */
#define MMA_NAN32 0x7fffffffu
#define MMA_NAN16 0x7fffu

/* Which generation's tensor core: machine->arch gives it. */
typedef struct MmaModel {
  int frac; /* fraction bits kept behind the largest exponent */
  u32 step; /* bytes of A's row that one fused step takes */
  int via_f16; /* fp8 operands are widened to f16 and multiplied as such */
} MmaModel;

MmaModel mma_model(u32 arch, u32 type);

/* E4M3 as f16, exact. */
u32 mma_e4m3_f16(u32 raw);

/* sum * 2^(e - frac) toward zero in f32; beyond its range gives infinity. */
u32 mma_round_f32(s64 sum, int e, int frac);
/* The same to nearest even in f16. */
u32 mma_round_f16(s64 sum, int e, int frac);

/* One fused step in scalar code, every special value included: the value of
 * c + sum a[k] * b[k] for `n` elements given as raw bits. `half` says that c and the
 * result are f16 rather than f32. */
u32 mma_fused_step(MmaModel model, u32 ta, u32 tb, int half, u32 n, const u32 *a,
                   const u32 *b, u32 c);

#endif
