/* Multiplicands of tcgen05.mma: from descriptors or tensor memory to plain numbers.
 *
 * An operand is unpacked to [k][row] with TC_ROWS 32-bit numbers for each k: f32 of the
 * exact value, or s32 for integers. A row of A or B has 32 bytes of K whatever the type.
 */
#ifndef SIDESTREAM_TCGEN05_OPERAND_H
#define SIDESTREAM_TCGEN05_OPERAND_H

#include "tcgen05_descriptor.h"

#define TC_ROWS 256 /* distance of one k from the next */
#define TC_MAX_K 64
#define TC_WORDS 8  /* 32-bit words of a row */

/* Values of one operand; as f32 or s32. */
typedef struct Values {
  _Alignas(64) u32 v[TC_MAX_K * TC_ROWS];
} Values;

/* Rows packed along K: word w of row r is w[w][r]. */
typedef struct Packed {
  _Alignas(64) u32 w[TC_WORDS][TC_ROWS];
} Packed;

/* The value of an element of 8 bits or less, by its byte: sub-byte types as they lie in
 * a byte of tensor memory (E2M1 in bits 2 .. 5, 6-bit types in bits 0 .. 5). */
f32 tcgen05_minifloat(u32 type, u32 byte);
/* E2M1 by its 4 bits. */
f32 tcgen05_e2m1(u32 nibble);

/* 16 elements of 4 (E2M1) or 6 bits, packed with padding behind them in 16 bytes, to one
 * byte each (PTX ISA, tcgen05: Optional Decompression). `to` may be `from`. */
void tcgen05_unpack4(const u8 *from, u8 *to);
void tcgen05_unpack6(const u8 *from, u8 *to);

static inline u32 element_bits(u32 type) {
  return type == E_TF32 ? 32 : type <= E_BF16 ? 16 : 8;
}

/* Which rows of a matrix in shared memory, and how they lie there. */
typedef struct Source {
  Sdesc at;
  u32 type;    /* enum ElementType */
  u32 mn;      /* 1: MN-major */
  u32 packed4; /* 1: 4-bit elements without padding */
  u32 first, rows;
} Source;

/* Rows of a matrix in the shared memory of `c`, to columns [at, at + rows) of `out`.
 * Returns 0, or the first address that lies outside shared memory: its bytes count as
 * zeros. */
u32 tcgen05_from_smem(Cta *c, const Source *s, u32 at, Values *out);

/* Unpack rows [0, rows) that are packed along K. */
void tcgen05_expand(const Packed *p, u32 type, u32 packed4, u32 rows, u32 at, Values *out);

#endif
