/* The zero-column mask of tcgen05.mma.ws. */
#ifndef SIDESTREAM_TCGEN05_COLUMNS_H
#define SIDESTREAM_TCGEN05_COLUMNS_H

#include "tcgen05.h"

typedef struct ColumnMask {
  u8 zero[256]; /* 1: zeros stand for this column of B */
  u32 shift;    /* column n of the product is column n + shift of the matrix in memory */
} ColumnMask;

/* Decode and check a mask descriptor for an m x n product whose instruction descriptor
 * allows shifts up to `max_shift`; returns enum Tcgen05Error. */
u32 tcgen05_zero_columns(u64 desc, u32 m, u32 n, u32 max_shift, ColumnMask *out);

#endif
