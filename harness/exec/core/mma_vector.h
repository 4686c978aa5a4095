/* Vectors of a warp's lanes for mma.sync: 16 lanes with AVX-512, else 8.
 *
 * Compilers make single instructions of shuffles within the machine's own width and
 * scalar code of wider ones, so the width follows the machine. A register row is
 * `PARTS` vectors.
 */
#ifndef SIDESTREAM_MMA_VECTOR_H
#define SIDESTREAM_MMA_VECTOR_H

#include "core.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif
#ifdef __AVX512F__
enum { WIDE = 16 };
#else
enum { WIDE = 8 };
#endif
enum { PARTS = LANES / WIDE };

typedef f32 vf __attribute__((vector_size(4 * WIDE)));
typedef s32 vi __attribute__((vector_size(4 * WIDE)));

/* Vectors never cross a call that is not inlined, so their ABI does not matter. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define ALWAYS static inline __attribute__((always_inline))

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef SHUFFLE
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

/* QUAD: element t of every quad of lanes (a part of A). COLS: from all parts of B,
 * quad lane t of columns q, q + 2, q + 4, q + 6, over and over. */
#ifdef __AVX512F__
#define QUAD(x, t) \
  SHUFFLE(x, x, t, t, t, t, t + 4, t + 4, t + 4, t + 4, t + 8, t + 8, t + 8, t + 8, \
          t + 12, t + 12, t + 12, t + 12)
#define COLS(p, q, t) \
  SHUFFLE(p[0], p[1], 4 * q + t, 4 * q + t + 8, 4 * q + t + 16, 4 * q + t + 24, \
          4 * q + t, 4 * q + t + 8, 4 * q + t + 16, 4 * q + t + 24, 4 * q + t, \
          4 * q + t + 8, 4 * q + t + 16, 4 * q + t + 24, 4 * q + t, 4 * q + t + 8, \
          4 * q + t + 16, 4 * q + t + 24)
#else
#define QUAD(x, t) SHUFFLE(x, x, t, t, t, t, t + 4, t + 4, t + 4, t + 4)
#define COLS(p, q, t)                                                             \
  ((__typeof__(p[0])){p[0][4 * q + t], p[1][4 * q + t], p[2][4 * q + t],          \
                      p[3][4 * q + t], p[0][4 * q + t], p[1][4 * q + t],          \
                      p[2][4 * q + t], p[3][4 * q + t]})
#endif

ALWAYS vi load_part(const u32 *row, int part) {
  vi v;
  memcpy(&v, row + WIDE * part, sizeof v);
  return v;
}

/* lanes of a where the comparison held (-1), of b elsewhere */
ALWAYS vi pick(vi held, vi a, vi b) { return (held & a) | (~held & b); }

/* Compilers make three instructions of the general forms of these two. */
ALWAYS vi larger(vi a, vi b) {
#if defined(__AVX512F__)
  return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
  return pick(a > b, a, b);
#endif
}

ALWAYS int any(vi mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
  s32 bits = 0;
  for (int k = 0; k < WIDE; k++) bits |= mask[k];
  return bits != 0;
#endif
}

#endif
