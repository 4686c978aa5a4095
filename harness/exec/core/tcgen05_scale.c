/* Scale factors of a block-scaled tcgen05.mma, from tensor memory.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Block Scaling for tcgen05.mma, Scale
 * Factor A ID, Scale Factor B ID. The factors of row r lie in lane r % 32 of column
 * r / 32, those along K in consecutive bytes from the scale factor id on; the same for
 * the columns of B. All four partitions of 32 lanes hold a copy, and each reads its own.
 * Where lanes 64-127 have other columns of B than lanes 0-63, so do their copies.
 */
#include <math.h>

#include "fbits.h"
#include "tcgen05_multiply.h"
#include "tcgen05_scale.h"

static f64 scale_of(u32 word, u32 byte, u32 ue4m3) {
  u32 bits = word >> 8 * byte & 0xffu;
  if (ue4m3) return tcgen05_minifloat(E_E4M3, bits & 0x7fu);
  return bits == 0xff ? (f64)NAN : ldexp(1.0, (int)bits - 127);
}

u32 tcgen05_scale_address(u32 addr, u32 id) {
  return addr >> 30 == id ? addr & 0x3fffffffu : addr;
}

u32 tcgen05_scale_columns(u32 rows) { return (rows + 31) / 32; }

/* Whether partitions p and q agree in `count` bytes from `byte` on of n columns. */
static int agree(const Cta *c, u32 column, u32 n, u32 p, u32 q, u32 byte, u32 count) {
  u32 mask = (count == 4 ? FULL : (1u << 8 * count) - 1) << 8 * byte, differ = 0;
  for (u32 k = 0; k < n; k++)
    for (u32 l = 0; l < 32; l++)
      differ |= *tmem_cell(c, 32 * p + l, column + k) ^ *tmem_cell(c, 32 * q + l, column + k);
  return !(differ & mask);
}

u32 tcgen05_scales(const Cta *c, const Idesc *d, u32 count, u32 rows, u32 parts, u32 sfa,
                   u32 sfb, Scales *out) {
  u32 columns = d->n / parts, per = 4 / parts, error = TC_OK;
  out->count = count;
  for (u32 l = 0; l < TMEM_LANES; l++) {
    u32 word = *tmem_cell(c, l, sfa + l % rows / 32);
    for (u32 j = 0; j < count; j++) out->a[j][l] = scale_of(word, d->sfa + j, d->ue4m3);
  }
  for (u32 q = 0; q < 4; q++) {
    u32 first = q / per * columns;
    for (u32 n = 0; n < columns; n++) {
      u32 word = *tmem_cell(c, 32 * q + n % 32, sfb + n / 32);
      for (u32 j = 0; j < count; j++)
        out->b[q][j][first + n] = scale_of(word, d->sfb + j, d->ue4m3);
    }
    u32 whole = columns / 32; /* lanes behind the last column may hold anything */
    if (!agree(c, sfa, rows / 32, 0, q, d->sfa, count) ||
        !agree(c, sfb, whole, q / per * per, q, d->sfb, count))
      error = TC_SCALE_COPIES;
  }
  return error;
}
