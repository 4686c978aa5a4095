/* The 128-byte tensor map that the TMA unit reads, and the box it describes.
 *
 * The layout is not published; harness/dsl/tensor_map.c, held against recorded output
 * of the CUDA driver, writes it. 32-bit words: 0-1 address; 2 rank - 1 at bit 4, type
 * at 7, interleave at 11, swizzle at 13, NaN fill at 15, TF32 rounding at 16, L2
 * promotion at 17 (no effect here), format version at 0 and large-tensor flag at 21
 * on Blackwell; 3-6 strides of dimensions 1-4 in 16-byte units, 7 their upper four
 * bits each; 8-12 extents - 1; 13 element strides - 1 (three bits each) and box 0 - 1
 * at bit 24; 14 boxes 1-4 - 1. The other 64 bytes are not read.
 */
#ifndef SIDESTREAM_TENSORMAP_H
#define SIDESTREAM_TENSORMAP_H

#include "core.h"

enum { TMAP_BYTES = 128, TMAP_WORDS = 16, TMAP_ALIGN = 64, TMAP_DIMS = 5 };

/* The element type field, in the order of tensormap.replace's .elemtype. */
enum TmapType {
  TMAP_U8 = 0, TMAP_U16, TMAP_U32, TMAP_S32, TMAP_U64, TMAP_S64,
  TMAP_F16, TMAP_F32, TMAP_F32_FTZ, TMAP_F64, TMAP_BF16
};

/* Why a map cannot be used; the info of FAULT_TENSORMAP. */
enum TmapError {
  TMAP_OK = 0,
  TMAP_UNMODELLED, /* well-formed, but nothing here executes it */
  TMAP_BAD_VERSION,
  TMAP_BAD_RANK,
  TMAP_BAD_TYPE,
  TMAP_BAD_FILL,
  TMAP_BAD_ADDRESS, /* not on 16 bytes */
  TMAP_BAD_BOX,     /* inner box not a multiple of 16 bytes, or wider than the swizzle */
  TMAP_BAD_BITS,    /* bits set that no map has */
  TMAP_WRONG_DIM,   /* the instruction's dimension differs from the rank */
  TMAP_BAD_START,   /* the box starts off 16 bytes within a row */
  TMAP_NEGATIVE,    /* a store's box starts at a negative coordinate */
  TMAP_ROWS         /* gather4 and scatter4 with a box of more than one row */
};

typedef struct TensorMap {
  u64 base;
  u32 rank, type, elem; /* elem: bytes of an element */
  u32 swizzle;          /* 0 none, 1 32 B, 2 64 B, 3 128 B */
  u32 nan_fill, tf32;
  u32 four;             /* 1: four rows, each with a coordinate of its own */
  u64 stride[TMAP_DIMS]; /* bytes; stride[0] = elem */
  u64 size[TMAP_DIMS];   /* elements */
  u32 step[TMAP_DIMS];   /* traversal stride */
  u32 count[TMAP_DIMS];  /* elements of the box that are copied: ceil(box / step) */
  u64 row_bytes, rows;   /* the box: rows of the inner dimension */
  u64 pitch;             /* from row to row in shared memory: the swizzle's span */
} TensorMap;

/* Take `words` apart; returns enum TmapError. */
u32 tensormap_decode(const u32 *words, u32 dim, TensorMap *t);

/* Where byte `addr` of a tile lies after swizzling: 16-byte chunks (address bits 4-6)
 * are exchanged by the bits that number 128-byte lines (7-9) (PTX ISA, "Swizzling
 * Modes"). The pattern hangs on the absolute address, not on the tile's start. */
static inline u32 tensormap_swizzle(u32 swizzle, u32 addr) {
  u32 span = swizzle ? (16u << swizzle) - 16u : 0; /* 0x10, 0x30, 0x70 */
  return addr ^ (addr >> 3 & span);
}

#endif
