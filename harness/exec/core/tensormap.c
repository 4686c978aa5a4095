/* Decoding and validation of tensor maps: any 64 bytes give a map or a reason. */
#include "tensormap.h"

static const u8 type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2};

static u32 bits(u32 word, u32 at, u32 n) { return word >> at & ((1u << n) - 1); }

u32 tensormap_decode(const u32 *w, u32 dim, TensorMap *t) {
  memset(t, 0, sizeof *t);
  u32 head = w[2];
  u32 version = bits(head, 0, 4); /* 0 on Hopper, 2 on Blackwell */
  if (version != 0 && version != 2) return TMAP_BAD_VERSION;
  t->rank = bits(head, 4, 3) + 1;
  t->type = bits(head, 7, 4);
  t->swizzle = bits(head, 13, 2);
  t->nan_fill = bits(head, 15, 1);
  t->tf32 = bits(head, 16, 1);
  if (t->rank > TMAP_DIMS) return TMAP_BAD_RANK;
  if (bits(head, 11, 2)) return TMAP_UNMODELLED; /* interleaved */
  if (head >> 22 & 1u) return TMAP_UNMODELLED; /* the 96-byte swizzle */
  if (head >> 23 || bits(head, 19, 2)) return TMAP_BAD_BITS;
  if (t->type >= sizeof type_bytes) return TMAP_UNMODELLED; /* 4- and 6-bit types */
  if (t->tf32 && t->type != TMAP_F32 && t->type != TMAP_F32_FTZ) return TMAP_BAD_TYPE;
  if (t->nan_fill && t->type < TMAP_F16) return TMAP_BAD_FILL;
  t->elem = type_bytes[t->type];
  t->base = (u64)w[1] << 32 | w[0];
  if (t->base & 15) return TMAP_BAD_ADDRESS;
  if (bits(w[13], 15, 9)) return TMAP_BAD_BITS;
  u32 box = bits(w[13], 24, 8) + 1;
  t->stride[0] = t->elem;
  t->rows = 1;
  for (u32 d = 0; d < t->rank; d++) {
    t->size[d] = (u64)w[8 + d] + 1;
    t->step[d] = bits(w[13], 3 * d, 3) + 1;
    if (d) {
      t->stride[d] = ((u64)bits(w[7], 4 * (d - 1), 4) << 32 | w[2 + d]) << 4;
      box = bits(w[14], 8 * (d - 1), 8) + 1;
    } else {
      t->step[0] = 1; /* without interleave the inner dimension has no stride */
    }
    t->count[d] = (box + t->step[d] - 1) / t->step[d];
    if (d) t->rows *= t->count[d];
  }
  for (u32 d = t->rank; d < TMAP_DIMS; d++) t->count[d] = t->size[d] = t->step[d] = 1;
  t->row_bytes = (u64)t->count[0] * t->elem;
  t->pitch = t->swizzle ? 16ull << t->swizzle : t->row_bytes;
  if (t->row_bytes & 15) return TMAP_BAD_BOX;
  if (t->row_bytes > t->pitch) return TMAP_BAD_BOX;
  if (t->rank != dim) return TMAP_WRONG_DIM;
  return TMAP_OK;
}
