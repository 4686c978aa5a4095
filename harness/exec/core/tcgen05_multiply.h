/* The arithmetic of tcgen05.mma on unpacked operands, one CTA's lanes at a time.
 *
 * PTX leaves the order and the intermediate precision of an MMA's sum open. Here:
 *   floating point   products are exact (they fit f32) and are added to the f32
 *                    accumulator one by one in increasing k, each sum rounded to
 *                    nearest even; an f16 accumulator is widened before and rounded
 *                    once behind the last;
 *   block scaled     products, scales and the sum are f64, in which all but the last
 *                    bits of very unequal terms are exact; one rounding to f32;
 *   integer          exact, then wrapped or saturated.
 * A NaN result is 0x7fffffff (0x7fff in f16).
 */
#ifndef SIDESTREAM_TCGEN05_MULTIPLY_H
#define SIDESTREAM_TCGEN05_MULTIPLY_H

#include "tcgen05_operand.h"

typedef struct Product {
  const Values *a;  /* column l = what tensor memory lane l multiplies with */
  const Values *b;
  u32 k;
  u32 parts;        /* equal groups of lanes, each with its own part of B's columns */
  u32 columns;      /* of tensor memory: columns of B / parts */
  u32 *d;           /* cell of lane 0 in the first column */
  u32 write[4];     /* bit per lane */
  u32 accumulate;   /* 0: start from zero */
  u32 half;         /* accumulator in f16 */
  f32 scale;        /* factor of the old accumulator */
  u32 saturate;     /* integers only */
} Product;

/* Scale factors, unpacked: a[j][lane] and b[partition of 32 lanes][j][column of B]. */
typedef struct Scales {
  u32 count; /* along K */
  f64 a[4][TMEM_LANES];
  f64 b[4][4][TC_ROWS];
} Scales;

void tcgen05_multiply(const Product *p);
void tcgen05_multiply_integer(const Product *p);
void tcgen05_multiply_scaled(const Product *p, const Scales *s);

#endif
