/* Descriptors of tcgen05.mma and tcgen05.cp: what their bits say and which are legal.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Matrix Shape, Major-ness supported
 * by Strides, Shared memory descriptor, Instruction descriptor, Valid Combinations of
 * Type-Size, Major-ness and Swizzling, Shared Memory Layout and Swizzling.
 */
#ifndef SIDESTREAM_TCGEN05_DESCRIPTOR_H
#define SIDESTREAM_TCGEN05_DESCRIPTOR_H

#include "tcgen05.h"

/* .kind, in the order of exec/lower/tcgen05_mma.py */
enum MmaKind {
  KIND_F16 = 0, KIND_TF32, KIND_F8F6F4, KIND_I8, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4
};

enum ElementType {
  E_F16 = 0, E_BF16, E_TF32, E_E4M3, E_E5M2, E_E2M3, E_E3M2, E_E2M1, E_U8, E_S8,
  E_F32, E_S32
};

/* What the instruction itself says of the multiplication. */
typedef struct MmaForm {
  u32 kind;   /* enum MmaKind */
  u32 group;  /* .cta_group, 1 or 2 */
  u32 ws;     /* 1: weight stationary, .ws */
  u32 scales; /* scale factors a row for all of K: 1, 2 or 4; 0 without block scaling */
} MmaForm;

typedef struct Idesc {
  u32 m, n, k; /* elements; m and n of the pair for .cta_group::2 */
  u32 a, b, d; /* enum ElementType */
  u32 negate_a, negate_b;
  u32 mn_a, mn_b; /* 1: M- or N-major, "transposed" */
  u32 saturate;
  u32 max_shift;  /* columns by which a zero-column mask may shift B (.ws) */
  u32 sfa, sfb;   /* first byte of the scale factors in their word */
  u32 ue4m3;      /* scale type: 1 UE4M3, 0 UE8M0 */
} Idesc;

/* Decode and check an instruction descriptor; returns enum Tcgen05Error. */
u32 tcgen05_idesc(const MmaForm *form, u32 bits, Idesc *out);

enum Swizzle { SW_NONE = 0, SW_128_BASE32 = 1, SW_128 = 2, SW_64 = 4, SW_32 = 6 };

typedef struct Sdesc {
  u32 start, lbo, sbo; /* bytes */
  u32 base;            /* base offset, 0 .. 7 */
  u32 swizzle;         /* enum Swizzle */
} Sdesc;

/* Decode and check a shared memory descriptor for elements of `bits` bits, K-major or
 * (mn) MN-major; returns enum Tcgen05Error. */
u32 tcgen05_sdesc(u64 desc, u32 bits, u32 mn, Sdesc *out);

/* Bytes of one row of the swizzle atom; 16 without swizzling. */
static inline u32 sdesc_span(const Sdesc *s) {
  switch (s->swizzle) {
    case SW_NONE: return 16;
    case SW_32: return 32;
    case SW_64: return 64;
    default: return 128;
  }
}

/* Where a shared memory address really lies. The pattern permutes chunks of 16 bytes
 * (32 for SW_128_BASE32) of 128-byte rows by the row's number in the pattern, which
 * starts where the base offset says. */
static inline u32 sdesc_swizzle(const Sdesc *s, u32 addr) {
  u32 row = (addr >> 7) - s->base;
  switch (s->swizzle) {
    case SW_128: return addr ^ (row & 7u) << 4;
    case SW_64: return addr ^ (row & 3u) << 4;
    case SW_32: return addr ^ (row & 1u) << 4;
    case SW_128_BASE32: return addr ^ (row & 3u) << 5;
    default: return addr;
  }
}

/* Address of 16-byte chunk c (along K) of row r of a K-major matrix. */
static inline u32 sdesc_k_chunk(const Sdesc *s, u32 r, u32 c) {
  u32 step = s->swizzle == SW_NONE ? s->lbo : 16;
  u32 at = s->start + (r >> 3) * s->sbo + (r & 7u) * sdesc_span(s) + c * step;
  return sdesc_swizzle(s, at);
}

/* Address of 16-byte chunk c (along M or N) of row k of an MN-major matrix. */
static inline u32 sdesc_mn_chunk(const Sdesc *s, u32 k, u32 c) {
  if (s->swizzle == SW_NONE)
    return s->start + c * s->sbo + (k >> 3) * s->lbo + (k & 7u) * 16;
  u32 span = sdesc_span(s), wide = span / 16, high = s->swizzle == SW_128_BASE32 ? 2 : 3;
  u32 at = s->start + c / wide * s->lbo + c % wide * 16 + (k >> high) * s->sbo +
           (k & ((1u << high) - 1)) * span;
  return sdesc_swizzle(s, at);
}

#endif
