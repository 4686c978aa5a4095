/* The zero-column mask of tcgen05.mma.ws.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Zero-Column Mask Descriptor. Where
 * the descriptions of skip and use span contradict the examples, the examples count: a
 * mask has runs of use span + 1 zeros, columns that are used, and of skip span + 1 ones.
 */
#include "tcgen05_columns.h"

u32 tcgen05_zero_columns(u64 desc, u32 m, u32 n, u32 max_shift, ColumnMask *out) {
  u32 used = ((u32)(desc >> 48) & 0xffu) + 1, skipped = ((u32)(desc >> 40) & 0xffu) + 1;
  u32 shift = (u32)(desc >> 56) & 63u;
  if ((desc >> 36 & 7u) || desc >> 62) return TC_ZERO_COLUMNS;
  if (shift > (m == 32 ? 16u : 32u) || shift > max_shift) return TC_ZERO_COLUMNS;
  memset(out->zero, 0, sizeof out->zero);
  out->shift = shift;
  if (!(desc >> 39 & 1u)) return TC_OK;
  u32 parts = 128 / m, each = n / parts;
  for (u32 i = 0; i < parts; i++) {
    u32 start = (u32)(desc >> 8 * i) & 0xffu, ones_first = (u32)(desc >> (32 + i)) & 1u;
    for (u32 c = 0; c < each; c++) {
      u32 at = (start + c) % (used + skipped);
      out->zero[i * each + c] = ones_first ? at < skipped : at >= used;
    }
  }
  return TC_OK;
}
