/* mma.sync on floating-point fragments (PTX ISA, "Matrix Fragments for mma.m16n8k8",
 * "... m16n8k16", "... m16n8k32", "Warp-Level Matrix Multiply-Accumulate Instructions").
 *
 * All these shapes share one layout. Lane l = 4 g + t. A register holds `per`
 * neighbouring elements of K (1 for tf32, 2 for 16-bit, 4 for 8-bit types):
 *   A register 2 h + r: row g + 8 r, k = 4 per h + per t + j
 *   B register h:       column g,    k = 4 per h + per t + j
 *   C, D register 2 r + q: row g + 8 r, column 2 t + q      (f32)
 *   C, D register r: both columns packed                     (f16)
 * so a product needs no transposition, only a quad broadcast of A and a shuffle of B.
 *
 * The ordinary case runs in vectors; special values and products outside
 * f32's range take the scalar statement of mma_numerics.c.
 */
#include "fbits.h"
#include "mma_numerics.h"
#include "mma_vector.h"

enum { MAX_PER = 4, MAX_HALVES = 2 };

/* Values and exponents of one register's elements, PARTS vectors each. */
typedef struct Unpacked {
  vf v[MAX_PER][PARTS];
  vi e[MAX_PER][PARTS];
} Unpacked;

ALWAYS int per_of(u32 type) {
  return type == MMA_TF32 ? 1 : type == MMA_F16 || type == MMA_BF16 ? 2 : 4;
}

/* Take a part of a register's lanes apart. Elements with special values set `special`.
 * `via_f16` says that E4M3 is widened to f16 first, where none is subnormal. */
ALWAYS void unpack(u32 type, int via_f16, const u32 *r, int part, Unpacked *u,
                   vi *special) {
  vi raw = load_part(r, part);
  for (int j = 0; j < per_of(type); j++) {
    vi mag, sign, bits, e;
    int least, top;
    f32 scale = 1.0f;
    switch (type) {
      case MMA_TF32:
        mag = raw & 0x7fffe000, sign = raw & (s32)0x80000000;
        bits = mag, least = -126, top = 0x7f800000;
        break;
      case MMA_BF16:
        mag = raw >> (16 * j) & 0x7fff, sign = raw << (16 - 16 * j) & (s32)0x80000000;
        bits = mag << 16, least = -126, top = 0x7f80;
        break;
      case MMA_F16:
        mag = raw >> (16 * j) & 0x7fff, sign = raw << (16 - 16 * j) & (s32)0x80000000;
        bits = mag << 13, least = -14, top = 0x7c00, scale = 0x1p112f;
        break;
      case MMA_E4M3:
        mag = raw >> (8 * j) & 0x7f, sign = raw << (24 - 8 * j) & (s32)0x80000000;
        bits = mag << 20, least = via_f16 ? -14 : -6, top = 0x7f, scale = 0x1p120f;
        break;
      default:
        mag = raw >> (8 * j) & 0x7f, sign = raw << (24 - 8 * j) & (s32)0x80000000;
        bits = mag << 21, least = -14, top = 0x7c, scale = 0x1p112f;
    }
    vf value = (vf)bits * scale;
    e = larger(((vi)value >> 23) - 127, (vi){} + least);
    e = pick(mag == 0, (vi){} + MMA_ZERO, e);
    *special |= mag >= top;
    u->v[j][part] = (vf)((vi)value | sign);
    u->e[j][part] = e;
  }
}

/* Accumulators as f32 bits: [register 2 r + q][lane]. */
typedef struct Tile {
  u32 x[4][LANES];
} Tile;

/* What of K one fused step adds: halves [h0, h1), elements [j0, j1) of a register. */
typedef struct FusedStep {
  int h0, h1, j0, j1;
} FusedStep;

/* One fused step. Returns 0, with nothing written, where the products leave f32's
 * range. */
ALWAYS int fused(u32 ta, int half_acc, int frac, FusedStep k, const Unpacked *a,
                 const Unpacked *b, const Tile *c, Tile *d) {
  int least_c = half_acc ? -14 : -126;
  vi top[4][PARTS];
  for (int o = 0; o < 4; o++)
    for (int s = 0; s < PARTS; s++) top[o][s] = (vi){} + 2 * MMA_ZERO;
#define TOPS(t)                                                               \
  do {                                                                        \
    vi b0 = COLS(be, 0, t), b1 = COLS(be, 1, t);        \
    for (int r = 0; r < 2; r++)                                               \
      for (int s = 0; s < PARTS; s++) {                                           \
        vi q = QUAD(a[2 * h + r].e[j][s], t);                               \
        top[2 * r][s] = larger(top[2 * r][s], q + b0);                          \
        top[2 * r + 1][s] = larger(top[2 * r + 1][s], q + b1);                  \
      }                                                                       \
  } while (0)
  for (int h = k.h0; h < k.h1; h++)
    for (int j = k.j0; j < k.j1; j++) {
      const vi *be = b[h].e[j];
      TOPS(0);
      TOPS(1);
      TOPS(2);
      TOPS(3);
    }
  if (ta == MMA_BF16 || ta == MMA_TF32) {
    vi out = {};
    for (int o = 0; o < 4; o++)
      for (int s = 0; s < PARTS; s++)
        out |= (top[o][s] > 126) | ((top[o][s] < -80) & (top[o][s] > MMA_ZERO / 2));
    if (any(out)) return 0;
  }
  vf scale[4][PARTS];
  vi at[4][PARTS], cut[4][PARTS];
  for (int o = 0; o < 4; o++)
    for (int s = 0; s < PARTS; s++) {
      vi bits = load_part(c->x[o], s), mag = bits & 0x7fffffff;
      vi field = mag >> 23;
      vi e = larger(field, (vi){} + 1) - 127;
      vi mant = (mag & 0x7fffff) | ((field > 0) & 0x800000);
      vi low = pick(mag == 0, (vi){} + 2 * MMA_ZERO, larger(e, (vi){} + least_c));
      vi m = at[o][s] = larger(top[o][s], low);
      /* the accumulator, cut at the same place */
      vi gap = larger(m - e, (vi){});
      gap = pick(gap > 31, (vi){} + 31, gap);
      vi kept = (mant << (frac - 23)) >> gap;
      vi sign = bits >> 31;
      cut[o][s] = (kept ^ sign) - sign;
      /* below -80 there is no product but zero, whatever the scale */
      scale[o][s] = (vf)((frac + 127 - larger(m, (vi){} - 80)) << 23);
    }
  vi sum[MAX_HALVES][4][PARTS];
  memset(sum, 0, sizeof sum);
#define ADDS(t)                                                                     \
  do {                                                                              \
    vf b0 = COLS(bv, 0, t), b1 = COLS(bv, 1, t);              \
    for (int r = 0; r < 2; r++)                                                     \
      for (int s = 0; s < PARTS; s++) {                                                 \
        vf q = QUAD(a[2 * h + r].v[j][s], t);                                     \
        acc[2 * r][s] += __builtin_convertvector(q * b0 * scale[2 * r][s], vi);   \
        acc[2 * r + 1][s] +=                                                        \
            __builtin_convertvector(q * b1 * scale[2 * r + 1][s], vi);            \
      }                                                                             \
  } while (0)
  for (int h = k.h0; h < k.h1; h++) {
    vi acc[4][PARTS]; /* a half of at most 16 products of less than 2^27 fits */
    memset(acc, 0, sizeof acc);
    for (int j = k.j0; j < k.j1; j++) {
      const vf *bv = b[h].v[j];
      ADDS(0);
      ADDS(1);
      ADDS(2);
      ADDS(3);
    }
    memcpy(sum[h], acc, sizeof acc);
  }
  f64 total[LANES];
  for (int o = 0; o < 4; o++) {
    const s32 *s0 = (const s32 *)sum[0][o], *s1 = (const s32 *)sum[1][o];
    const s32 *sc = (const s32 *)cut[o], *e = (const s32 *)at[o];
    u32 *out = d->x[o];
    for (int l = 0; l < LANES; l++) total[l] = (f64)s0[l] + (f64)s1[l] + (f64)sc[l];
    if (half_acc) {
      for (int l = 0; l < LANES; l++) out[l] = mma_round_f16((s64)total[l], e[l], frac);
      continue;
    }
    /* toward zero to f32: the exact sum's bits, shortened. Zero has exponent field 0
     * and ends as a `tiny` of 0. Without branches, so that it runs in vectors. */
    for (int l = 0; l < LANES; l++) {
      u64 bits;
      memcpy(&bits, &total[l], 8);
      s32 biased = (s32)(bits >> 52 & 0x7ff) - 1023 + e[l] - frac + 127;
      u32 mant = (u32)(bits >> 29) & 0x7fffffu;
      u32 sign = (u32)(bits >> 32) & 0x80000000u;
      s32 gap = 1 - biased;
      u32 shift = (u32)(gap > 31 ? 31 : gap < 0 ? 0 : gap);
      u32 tiny = (mant | 0x800000u) >> shift, normal = (u32)biased << 23 | mant;
      u32 v = biased > 0 ? normal : tiny;
      v = biased >= 255 ? 0x7f800000u : v;
      out[l] = v | sign; /* a sum of zero is +0.0 already */
    }
  }
  return 1;
}

/* The same, not specialised: a step of part of K. */
static __attribute__((noinline)) int fused_part(u32 ta, int half_acc, int frac,
                                                FusedStep k, const Unpacked *a,
                                                const Unpacked *b, const Tile *c, Tile *d) {
  return fused(ta, half_acc, frac, k, a, b, c, d);
}

/* Elements of row or column `line` that a step takes, as raw bits. */
static u32 elements(u32 type, int via_f16, int b_side, const u32 *const *regs,
                    FusedStep k, u32 line, u32 *out) {
  int width = 32 / per_of(type);
  u32 n = 0;
  for (int h = k.h0; h < k.h1; h++) {
    const u32 *r = b_side ? regs[h] : regs[2 * h + (line >> 3)];
    for (u32 t = 0; t < 4; t++)
      for (int j = k.j0; j < k.j1; j++) {
        u32 raw = r[4 * (line & 7) + t] >> (width * j);
        if (width < 32) raw &= (1u << width) - 1;
        out[n++] = !via_f16 ? raw : type == MMA_E4M3 ? mma_e4m3_f16(raw) : raw << 8;
      }
  }
  return n;
}

static void scalar(MmaModel model, u32 ta, u32 tb, int half_acc, FusedStep k,
                   const u32 *const *ra, const u32 *const *rb, Tile *d) {
  u32 a[16][32], b[8][32], n = 0;
  int via = model.via_f16;
  for (u32 l = 0; l < 16; l++) n = elements(ta, via, 0, ra, k, l, a[l]);
  for (u32 l = 0; l < 8; l++) elements(tb, via, 1, rb, k, l, b[l]);
  if (via) ta = tb = MMA_F16;
  for (u32 o = 0; o < 4; o++)
    for (u32 l = 0; l < LANES; l++) {
      u32 *x = &d->x[o][l];
      *x = mma_fused_step(model, ta, tb, half_acc, n, a[l / 4 + 8 * (o >> 1)],
                          b[2 * (l % 4) + (o & 1)], *x);
    }
}

ALWAYS u32 widen_f16(u32 h) { /* finite f16 to f32, exact */
  u32 bits = (h & 0x7fffu) << 13;
  f32 v;
  memcpy(&v, &bits, 4);
  v *= 0x1p112f;
  memcpy(&bits, &v, 4);
  return bits | (h & 0x8000u) << 16;
}

static int overflowed(const Tile *t, int half_acc) {
  u32 top = half_acc ? 0x7c00u : 0x7f800000u;
  int any_top = 0;
  for (int o = 0; o < 4; o++)
    for (int l = 0; l < LANES; l++) any_top |= (t->x[o][l] & top) == top;
  return any_top;
}

/* Hopper has no fp8 form of mma.sync: its code widens to f16, multiplies the lower and
 * then the upper pair of every register into zero, and adds C last, rounding to
 * nearest. */
static void add_c(const Tile *c, int half_acc, Tile *d) {
  for (int o = 0; o < 4; o++)
    for (int l = 0; l < LANES; l++) {
      u32 *x = &d->x[o][l], y = c->x[o][l];
      *x = half_acc ? f32_f16(f16_f32(*x) + f16_f32(y))
                    : f32_bits(canonical(bits_f32(*x) + bits_f32(y)));
    }
}

/* The whole instruction. ext: D registers, A registers, B registers, C registers. */
ALWAYS int mma(Warp *w, const Insn *i, u32 m, u32 ta, u32 tb, int halves, int half_acc) {
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  if (m != FULL) /* all threads of the warp must take part */
    fault(w, i, (u32)__builtin_ctz(~m), FAULT_ILLEGAL, 0, 0, m);
  const s32 *ref = w->m->ext + i->ext;
  int n_cd = half_acc ? 2 : 4;
  const u32 *ra[4], *rb[2];
  u32 *rd[4];
  const u32 *rc[4];
  for (int k = 0; k < n_cd; k++) rd[k] = R32(ref[k]);
  for (int k = 0; k < 2 * halves; k++) ra[k] = R32(ref[n_cd + k]);
  for (int k = 0; k < halves; k++) rb[k] = R32(ref[n_cd + 2 * halves + k]);
  for (int k = 0; k < n_cd; k++) rc[k] = R32(ref[n_cd + 3 * halves + k]);

  MmaModel model = mma_model(w->m->arch, ta);
  Tile acc;
  vi special = {};
  if (half_acc) {
    for (int r = 0; r < 2; r++)
      for (int l = 0; l < LANES; l++) {
        acc.x[2 * r][l] = rc[r][l] & 0xffffu;
        acc.x[2 * r + 1][l] = rc[r][l] >> 16;
      }
    for (int o = 0; o < 4; o++)
      for (int s = 0; s < PARTS; s++)
        special |= (load_part(acc.x[o], s) & 0x7c00) == 0x7c00;
  } else {
    for (int o = 0; o < 4; o++) {
      memcpy(acc.x[o], rc[o], sizeof acc.x[o]);
      for (int s = 0; s < PARTS; s++)
        special |= (load_part(acc.x[o], s) & 0x7f800000) == 0x7f800000;
    }
  }
  Unpacked a[2 * MAX_HALVES], b[MAX_HALVES];
  for (int h = 0; h < halves; h++)
    for (int s = 0; s < PARTS; s++) {
      unpack(ta, model.via_f16, ra[2 * h], s, &a[2 * h], &special);
      unpack(ta, model.via_f16, ra[2 * h + 1], s, &a[2 * h + 1], &special);
      unpack(tb, model.via_f16, rb[h], s, &b[h], &special);
    }
  int slow = any(special);
  int per = per_of(ta), via = per == 4 && model.via_f16;
  /* a half is 16 bytes of A's row */
  int each = via || model.step >= 16u * (u32)halves ? halves : 1;
  Tile c, wide;
  if (via) {
    c = acc;
    memset(&acc, 0, sizeof acc);
  }
  int steps = via ? 2 : halves / each;
  for (int n = 0; n < steps; n++) {
    FusedStep all = {0, halves, 0, per}, k = {n * each, n * each + each, 0, per};
    if (via) k = (FusedStep){0, halves, 2 * n, 2 * n + 2};
    const Tile *from = &acc;
    if (half_acc && !slow) {
      for (int o = 0; o < 4; o++)
        for (int l = 0; l < LANES; l++) wide.x[o][l] = widen_f16(acc.x[o][l]);
      from = &wide;
    }
    int fits = 0;
    if (!slow && steps == 1)
      fits = fused(ta, half_acc, model.frac, all, a, b, from, &acc);
    else if (!slow)
      fits = fused_part(ta, half_acc, model.frac, k, a, b, from, &acc);
    if (!fits) scalar(model, ta, tb, half_acc, k, ra, rb, &acc);
    /* an overflow between two steps makes the next one special */
    if (n + 1 < steps) slow |= overflowed(&acc, half_acc);
  }
  if (via) add_c(&c, half_acc, &acc);
  for (int k = 0; !half_acc && m == FULL && k < n_cd; k++)
    memcpy(rd[k], acc.x[k], sizeof acc.x[k]);
  for (int k = 0; (half_acc || m != FULL) && k < n_cd; k++)
    for (int l = 0; l < LANES; l++) {
      u32 v = half_acc ? acc.x[2 * k][l] | acc.x[2 * k + 1][l] << 16 : acc.x[k][l];
      rd[k][l] = lane_on(m, l) ? v : rd[k][l];
    }
  w->m->mma_flops += 2ull * 16 * 8 * 4 * (u64)(per_of(ta) * halves);
  return STEP_NEXT;
}

#define FORM(name, ta, tb, halves, half_acc)                 \
  static int name(Warp *w, const Insn *i, u32 m) {           \
    return mma(w, i, m, ta, tb, halves, half_acc);           \
  }

FORM(f16_k8, MMA_F16, MMA_F16, 1, 0)
FORM(f16_k16, MMA_F16, MMA_F16, 2, 0)
FORM(f16_k8_h, MMA_F16, MMA_F16, 1, 1)
FORM(f16_k16_h, MMA_F16, MMA_F16, 2, 1)
FORM(bf16_k8, MMA_BF16, MMA_BF16, 1, 0)
FORM(bf16_k16, MMA_BF16, MMA_BF16, 2, 0)
FORM(tf32_k4, MMA_TF32, MMA_TF32, 1, 0)
FORM(tf32_k8, MMA_TF32, MMA_TF32, 2, 0)
#define FP8(a, b, ta, tb)                                              \
  FORM(a##b##_k16, ta, tb, 1, 0) FORM(a##b##_k32, ta, tb, 2, 0)        \
  FORM(a##b##_k16_h, ta, tb, 1, 1) FORM(a##b##_k32_h, ta, tb, 2, 1)
FP8(e4m3, e4m3, MMA_E4M3, MMA_E4M3)
FP8(e4m3, e5m2, MMA_E4M3, MMA_E5M2)
FP8(e5m2, e4m3, MMA_E5M2, MMA_E4M3)
FP8(e5m2, e5m2, MMA_E5M2, MMA_E5M2)

#define FP8_ENTRIES(a, b)                                                          \
  {"mma.m16n8k16.f32." #a "." #b, a##b##_k16}, {"mma.m16n8k32.f32." #a "." #b, a##b##_k32}, \
  {"mma.m16n8k16.f16." #a "." #b, a##b##_k16_h}, {"mma.m16n8k32.f16." #a "." #b, a##b##_k32_h}

const OpEntry ops_mma_sync[] = {
    {"mma.m16n8k8.f32.f16.f16", f16_k8},     {"mma.m16n8k16.f32.f16.f16", f16_k16},
    {"mma.m16n8k8.f16.f16.f16", f16_k8_h},   {"mma.m16n8k16.f16.f16.f16", f16_k16_h},
    {"mma.m16n8k8.f32.bf16.bf16", bf16_k8},  {"mma.m16n8k16.f32.bf16.bf16", bf16_k16},
    {"mma.m16n8k4.f32.tf32.tf32", tf32_k4},  {"mma.m16n8k8.f32.tf32.tf32", tf32_k8},
    FP8_ENTRIES(e4m3, e4m3), FP8_ENTRIES(e4m3, e5m2),
    FP8_ENTRIES(e5m2, e4m3), FP8_ENTRIES(e5m2, e5m2),
    {0, 0}};
