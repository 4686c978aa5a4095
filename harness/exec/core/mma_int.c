/* mma.sync on 8-bit integers: the fragment layout of mma_sync.c, 32-bit sums that wrap
 * or, with .satfinite, stop at the ends of s32 (PTX ISA, "Warp-level Matrix
 * Instructions: mma"). */
#include "core.h"

/* ext: D x4, A x2h, B xh, C x4; x = {A signed, B signed, satfinite} */
static int mma(Warp *w, const Insn *i, u32 m, u32 halves) {
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  if (m != FULL) /* all threads of the warp must take part */
    fault(w, i, (u32)__builtin_ctz(~m), FAULT_ILLEGAL, 0, 0, m);
  const s32 *ref = w->m->ext + i->ext;
  s16 a[16][32], b[8][32];
  for (u32 h = 0; h < halves; h++)
    for (u32 l = 0; l < LANES; l++)
      for (u32 j = 0; j < 4; j++) {
        u32 k = 16 * h + 4 * (l % 4) + j, g = l / 4;
        for (u32 r = 0; r < 2; r++) {
          u32 v = R32(ref[4 + 2 * h + r])[l] >> (8 * j) & 0xffu;
          a[g + 8 * r][k] = (s16)(i->x[0] ? (s8)v : (s32)v);
        }
        u32 v = R32(ref[4 + 2 * halves + h])[l] >> (8 * j) & 0xffu;
        b[g][k] = (s16)(i->x[1] ? (s8)v : (s32)v);
      }
  s32 out[4][LANES];
  for (u32 o = 0; o < 4; o++) {
    const s32 *c = RS32(ref[4 + 3 * halves + o]);
    for (u32 l = 0; l < LANES; l++) {
      const s16 *x = a[l / 4 + 8 * (o >> 1)], *y = b[2 * (l % 4) + (o & 1)];
      s32 dot = 0;
      for (u32 k = 0; k < 16 * halves; k++) dot += (s32)x[k] * y[k];
      s64 sum = (s64)dot + c[l];
      if (i->x[2] && sum > INT32_MAX) sum = INT32_MAX;
      if (i->x[2] && sum < INT32_MIN) sum = INT32_MIN;
      out[o][l] = (s32)sum;
    }
  }
  for (u32 o = 0; o < 4; o++) {
    s32 *d = RS32(ref[o]);
    for (int l = 0; l < LANES; l++) d[l] = lane_on(m, l) ? out[o][l] : d[l];
  }
  w->m->mma_flops += 2ull * 16 * 8 * 16 * halves;
  return STEP_NEXT;
}

static int k16(Warp *w, const Insn *i, u32 m) { return mma(w, i, m, 1); }
static int k32(Warp *w, const Insn *i, u32 m) { return mma(w, i, m, 2); }

const OpEntry ops_mma_int[] = {
    {"mma.m16n8k16.s32", k16}, {"mma.m16n8k32.s32", k32}, {0, 0}};
