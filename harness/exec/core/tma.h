/* Tensor copies in flight: their operands, and a tile's rows in both memories. */
#ifndef SIDESTREAM_TMA_H
#define SIDESTREAM_TMA_H

#include "tensormap.h"

/* ext slots, the order of exec/lower/bulk.py */
enum { EXT_MAP = 0, EXT_SMEM, EXT_MBAR, EXT_MASK, EXT_COORD };
/* x slots; FOUR_ROWS is or-ed to the dimension */
enum { X_DIM = 0, X_SMEM_OFFSET, X_MBAR_OFFSET, X_RED, X_FLAGS = X_RED };
enum { FOUR_ROWS = 0x100 }; /* .tile::gather4, .tile::scatter4 */
enum LoadFlag { LOAD_PAIR = 1, /* .cta_group::2 */ LOAD_OWN = 2 /* to .shared::cta */ };
/* arg slots of an operation in flight; the map's words come first */
enum { A_SMEM = 8, A_MBAR, A_MASK, A_LANE, A_MAP, A_COORD, A_END = A_COORD + TMAP_DIMS };

/* A row of the box: which part of it lies inside the tensor. */
typedef struct RowPart {
  u64 va;       /* address of the first byte inside; meaningless if bytes = 0 */
  u64 skip;     /* bytes of the box's row before it */
  u64 bytes;    /* how many lie inside */
  int beyond;   /* the address does not fit 64 bits */
} RowPart;

/* Take a map apart as the instruction's x[X_DIM] uses it; returns enum TmapError. */
u32 tma_map(const u32 *words, u32 dim, TensorMap *t);
/* Coordinates that the instruction gives: {column, row x 4} for four rows. */
static inline u32 tma_coordinates(u32 dim) { return dim & FOUR_ROWS ? TMAP_DIMS : dim; }
/* Take the operands of an operation in flight apart; returns enum TmapError. */
u32 tma_decode(const Async *op, TensorMap *t, s64 *coord);
/* The part of row `at` of a box at `coord` that lies inside the tensor. */
RowPart tma_row(const TensorMap *t, const s64 *coord, const u32 *at, int store);
void tma_next_row(const TensorMap *t, u32 *at);
/* Global bytes of a row, checked; NULL after recording the fault. */
u8 *tma_row_bytes(Machine *m, const Async *op, const RowPart *r, u32 access);
/* Copy the box at `coord` into the tile at shared address `addr`. */
void tma_load_tile(Machine *m, const Async *op, const TensorMap *t, const s64 *coord,
                   u32 addr);
/* Copy the tile's rows out, one after another; 0 after recording a fault. */
int tma_read_tile(Machine *m, const Async *op, const TensorMap *t, u32 addr, u8 *data);

#endif
