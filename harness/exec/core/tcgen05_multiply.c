/* Multiply and accumulate in tensor memory; see tcgen05_multiply.h for the numerics. */
#include "tcgen05_multiply.h"

#include "fbits.h"
#include "mma_vector.h"

/* A product of two operands is exact in f32, so that the fused form rounds like a
 * multiplication followed by an addition. */
ALWAYS vf fused(vf a, vf b, vf c) {
#if defined(__AVX512F__)
  return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  vf d;
  for (int l = 0; l < WIDE; l++) d[l] = __builtin_fmaf(a[l], b[l], c[l]);
  return d;
#endif
}

ALWAYS vf load(const u32 *from) {
  vf v;
  memcpy(&v, from, sizeof v);
  return v;
}

ALWAYS vf start(const Product *p, const u32 *d) {
  if (!p->accumulate) return (vf){0};
  vf v = load(d);
  if (p->half)
    for (int l = 0; l < WIDE; l++) v[l] = f16_f32(d[l] & 0xffffu);
  return p->scale == 1.0f ? v : v * p->scale;
}

ALWAYS void finish(const Product *p, u32 lane, vf v, u32 *d) {
  vi bits = pick(v == v, (vi)v, (vi){0} + (s32)CANONICAL_F32);
  if (p->half)
    for (int l = 0; l < WIDE; l++) bits[l] = (s32)f32_f16(v[l]);
  u32 write = p->write[lane >> 5] >> (lane & 31u);
  if (WIDE == 32 || (write & ((1u << WIDE % 32) - 1)) == (1u << WIDE % 32) - 1) {
    memcpy(d, &bits, sizeof bits);
  } else {
    for (int l = 0; l < WIDE; l++)
      if (write >> l & 1u) d[l] = (u32)bits[l];
  }
}

/* `nv` vectors of lanes times `nc` columns, both constants where this is inlined. */
ALWAYS void block(const Product *p, u32 lane, u32 column, u32 n, const int nv,
                  const int nc) {
  vf acc[4][4];
  u32 *d = p->d + (u64)column * TMEM_LANES + lane;
  for (int c = 0; c < nc; c++)
    for (int v = 0; v < nv; v++) acc[c][v] = start(p, d + c * TMEM_LANES + v * WIDE);
  const u32 *a = p->a->v + lane, *b = p->b->v + n;
  for (u32 k = 0; k < p->k; k++, a += TC_ROWS, b += TC_ROWS) {
    vf x[4];
    for (int v = 0; v < nv; v++) x[v] = load(a + v * WIDE);
    for (int c = 0; c < nc; c++) {
      vf y = (vf){0} + bits_f32(b[c]);
      for (int v = 0; v < nv; v++) acc[c][v] = fused(x[v], y, acc[c][v]);
    }
  }
  for (int c = 0; c < nc; c++)
    for (int v = 0; v < nv; v++)
      finish(p, lane + (u32)v * WIDE, acc[c][v], d + c * TMEM_LANES + v * WIDE);
}

/* Whether any of the lanes is written. */
static int wanted(const Product *p, u32 lane, u32 lanes) {
  for (u32 l = lane; l < lane + lanes; l += 16)
    if (p->write[l >> 5] >> (l & 31u) & 0xffffu) return 1;
  return 0;
}

void tcgen05_multiply(const Product *p) {
  u32 lanes = TMEM_LANES / p->parts, wide = WIDE == 16 && lanes >= 64 ? 64 : 2 * WIDE;
  for (u32 lane = 0; lane < TMEM_LANES; lane += wide) {
    if (!wanted(p, lane, wide)) continue;
    u32 first = lane / lanes * p->columns;
    for (u32 c = 0; c < p->columns; c += 4) {
      if (wide == 4 * WIDE) block(p, lane, c, first + c, 4, 4);
      else block(p, lane, c, first + c, 2, 4);
    }
  }
}

/* --- integers ------------------------------------------------------------------------ */
void tcgen05_multiply_integer(const Product *p) {
  u32 lanes = TMEM_LANES / p->parts;
  for (u32 c = 0; c < p->columns; c++) {
    s32 *d = (s32 *)(p->d + (u64)c * TMEM_LANES);
    s64 sum[TMEM_LANES];
    for (u32 l = 0; l < TMEM_LANES; l++) sum[l] = p->accumulate ? d[l] : 0;
    for (u32 k = 0; k < p->k; k++) {
      const s32 *a = (const s32 *)p->a->v + k * TC_ROWS;
      const s32 *b = (const s32 *)p->b->v + k * TC_ROWS + c;
      for (u32 g = 0; g < p->parts; g++) {
        s32 y = b[g * p->columns];
        for (u32 l = g * lanes; l < (g + 1) * lanes; l++) sum[l] += (s64)a[l] * y;
      }
    }
    for (u32 l = 0; l < TMEM_LANES; l++) {
      s64 v = sum[l];
      if (p->saturate) v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
      if (p->write[l >> 5] >> (l & 31u) & 1u) d[l] = (s32)v;
    }
  }
}

/* --- block scaled -------------------------------------------------------------------- */
void tcgen05_multiply_scaled(const Product *p, const Scales *s) {
  u32 lanes = TMEM_LANES / p->parts, chunk = p->k / s->count;
  for (u32 c = 0; c < p->columns; c++) {
    u32 *d = p->d + (u64)c * TMEM_LANES;
    f64 sum[TMEM_LANES];
    for (u32 l = 0; l < TMEM_LANES; l++)
      sum[l] = p->accumulate ? (f64)bits_f32(d[l]) : 0;
    for (u32 q = 0; q < TMEM_LANES / 32; q++) {
      u32 n = q * 32 / lanes * p->columns + c;
      for (u32 j = 0; j < s->count; j++) {
        f64 part[32] = {0};
        for (u32 k = j * chunk; k < (j + 1) * chunk; k++) {
          const u32 *a = p->a->v + k * TC_ROWS + 32 * q;
          f64 y = bits_f32(p->b->v[k * TC_ROWS + n]);
          for (u32 l = 0; l < 32; l++) part[l] += (f64)bits_f32(a[l]) * y;
        }
        const f64 *scale = s->a[j] + 32 * q;
        for (u32 l = 0; l < 32; l++) sum[32 * q + l] += part[l] * (scale[l] * s->b[q][j][n]);
      }
    }
    for (u32 l = 0; l < TMEM_LANES; l++) {
      f32 v = canonical((f32)sum[l]);
      if (p->write[l >> 5] >> (l & 31u) & 1u) d[l] = f32_bits(v);
    }
  }
}
