/* Unpacking of tcgen05 operands.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: Packing formats of elements in Tensor
 * and Shared memory, Shared Memory Layout and Swizzling.
 */
#include "tcgen05_operand.h"

#include "fbits.h"
#include "observer.h"

/* --- formats ------------------------------------------------------------------------ */
static f32 tables[E_E2M1 + 1][256];
static f32 nibbles[16];

/* The value of a sign, `e` exponent and `f` fraction bits. `special`: 2 as IEEE, 1 only
 * all ones are NaN, 0 no special values. */
static f32 decode(u32 bits, u32 e, u32 f, int bias, u32 special) {
  u32 sign = bits >> (e + f) & 1u, x = bits >> f & ((1u << e) - 1);
  u32 m = bits & ((1u << f) - 1), top = (1u << e) - 1;
  f64 value;
  if (special && x == top && (special == 2 || m == (1u << f) - 1))
    return bits_f32(m ? CANONICAL_F32 : sign << 31 | 0x7f800000u);
  value = x ? (f64)(m + (1u << f)) : (f64)m;
  int power = (int)(x ? x : 1) - bias - (int)f;
  for (; power > 0; power--) value *= 2;
  for (; power < 0; power++) value /= 2;
  return (f32)(sign ? -value : value);
}

__attribute__((constructor)) static void fill_tables(void) {
  for (u32 b = 0; b < 16; b++) nibbles[b] = decode(b, 2, 1, 1, 0);
  for (u32 b = 0; b < 256; b++) {
    tables[E_E4M3][b] = decode(b, 4, 3, 7, 1);
    tables[E_E5M2][b] = decode(b, 5, 2, 15, 2);
    tables[E_E2M3][b] = decode(b & 63u, 2, 3, 1, 0);
    tables[E_E3M2][b] = decode(b & 63u, 3, 2, 3, 0);
    tables[E_E2M1][b] = nibbles[b >> 2 & 15u];
  }
}

f32 tcgen05_minifloat(u32 type, u32 byte) { return tables[type][byte & 0xffu]; }
f32 tcgen05_e2m1(u32 nibble) { return nibbles[nibble & 15u]; }

void tcgen05_unpack4(const u8 *from, u8 *to) {
  u8 in[8];
  memcpy(in, from, 8);
  for (u32 k = 0; k < 16; k++) to[k] = (u8)((in[k / 2] >> 4 * (k % 2) & 15u) << 2);
}

void tcgen05_unpack6(const u8 *from, u8 *to) {
  u8 in[16] = {0};
  memcpy(in, from, 12);
  for (u32 k = 0; k < 16; k++) {
    u32 at = 6 * k, pair = in[at / 8] | (u32)in[at / 8 + 1] << 8;
    to[k] = (u8)(pair >> at % 8 & 63u);
  }
}

/* --- rows packed along K ------------------------------------------------------------ */
void tcgen05_expand(const Packed *p, u32 type, u32 packed4, u32 rows, u32 at, Values *out) {
  for (u32 w = 0; w < TC_WORDS; w++) {
    const u32 *in = p->w[w];
    if (type == E_TF32) {
      u32 *d = out->v + w * TC_ROWS + at;
      for (u32 r = 0; r < rows; r++) d[r] = in[r] & 0xffffe000u;
    } else if (type <= E_BF16) {
      u32 *d = out->v + 2 * w * TC_ROWS + at, *e = d + TC_ROWS;
      if (type == E_BF16) {
        for (u32 r = 0; r < rows; r++) {
          d[r] = in[r] << 16;
          e[r] = in[r] & 0xffff0000u;
        }
      } else {
        for (u32 r = 0; r < rows; r++) {
          d[r] = f32_bits(f16_f32(in[r] & 0xffffu));
          e[r] = f32_bits(f16_f32(in[r] >> 16));
        }
      }
    } else if (packed4) {
      for (u32 j = 0; j < 8; j++) {
        u32 *d = out->v + (8 * w + j) * TC_ROWS + at;
        for (u32 r = 0; r < rows; r++) d[r] = f32_bits(nibbles[in[r] >> 4 * j & 15u]);
      }
    } else {
      for (u32 j = 0; j < 4; j++) {
        u32 *d = out->v + (4 * w + j) * TC_ROWS + at;
        if (type == E_S8) {
          for (u32 r = 0; r < rows; r++) d[r] = (u32)(s32)(s8)(in[r] >> 8 * j);
        } else if (type == E_U8) {
          for (u32 r = 0; r < rows; r++) d[r] = in[r] >> 8 * j & 0xffu;
        } else {
          const f32 *table = tables[type];
          for (u32 r = 0; r < rows; r++) d[r] = f32_bits(table[in[r] >> 8 * j & 0xffu]);
        }
      }
    }
  }
}

/* --- shared memory ------------------------------------------------------------------ */
typedef struct Chunks {
  const Cta *cta;
  const u8 *smem;
  u32 last; /* highest offset at which 16 bytes fit */
  u32 none; /* 1: no 16 bytes fit anywhere */
  u32 bad;  /* first address outside */
  u32 watched, n;
  u32 at[2 * TC_ROWS]; /* of those read, for who watches */
} Chunks;

static const _Alignas(16) u8 zeros[16];

static __attribute__((noinline)) void tell(Chunks *s) {
  const Machine *m = s->cta->m;
  OBSERVE(m, engine_chunks, m->landing, s->at, s->n);
  s->n = 0;
}

static inline const u8 *chunk(Chunks *s, u32 addr) {
  u32 off = addr - SMEM_BASE;
  if (__builtin_expect(off > s->last || s->none, 0)) {
    if (!s->bad) s->bad = addr ? addr : 1;
    return zeros;
  }
  if (__builtin_expect(s->watched, 0)) {
    if (s->n == sizeof s->at / sizeof *s->at) tell(s);
    s->at[s->n++] = s->cta->rank << 24 | addr;
  }
  return s->smem + off;
}

static void rows_along_k(Chunks *c, const Source *s, Packed *p) {
  u32 type = s->type;
  int narrow = !s->packed4 && (type == E_E2M1 || type == E_E2M3 || type == E_E3M2);
  for (u32 r = 0; r < s->rows; r++) {
    u32 words[TC_WORDS];
    for (u32 h = 0; h < 2; h++) {
      const u8 *from = chunk(c, sdesc_k_chunk(&s->at, s->first + r, h));
      u8 *to = (u8 *)(words + 4 * h);
      if (!narrow) memcpy(to, from, 16);
      else if (type == E_E2M1) tcgen05_unpack4(from, to);
      else tcgen05_unpack6(from, to);
    }
    for (u32 w = 0; w < TC_WORDS; w++) p->w[w][r] = words[w];
  }
}

/* 16 bytes along M or N at one k. */
static inline void expand_chunk(const u8 *from, u32 type, u32 *d) {
  if (type == E_TF32) {
    u32 x[4];
    memcpy(x, from, 16);
    for (u32 j = 0; j < 4; j++) d[j] = x[j] & 0xffffe000u;
  } else if (type <= E_BF16) {
    u16 x[8];
    memcpy(x, from, 16);
    if (type == E_BF16) {
      for (u32 j = 0; j < 8; j++) d[j] = (u32)x[j] << 16;
    } else {
      for (u32 j = 0; j < 8; j++) d[j] = f32_bits(f16_f32(x[j]));
    }
  } else if (type == E_U8) {
    for (u32 j = 0; j < 16; j++) d[j] = from[j];
  } else if (type == E_S8) {
    for (u32 j = 0; j < 16; j++) d[j] = (u32)(s32)(s8)from[j];
  } else {
    for (u32 j = 0; j < 16; j++) d[j] = f32_bits(tables[type][from[j]]);
  }
}

static void rows_across_k(Chunks *c, const Source *s, u32 at, Values *out) {
  u32 bits = element_bits(s->type), wide = 128 / bits, depth = 256 / bits;
  for (u32 k = 0; k < depth; k++) {
    u32 *d = out->v + k * TC_ROWS + at, part[16];
    for (u32 r = 0; r < s->rows;) {
      u32 row = s->first + r, skip = row % wide, n = wide - skip;
      const u8 *from = chunk(c, sdesc_mn_chunk(&s->at, k, row / wide));
      if (n > s->rows - r) n = s->rows - r;
      if (n == wide) {
        expand_chunk(from, s->type, d + r);
      } else {
        expand_chunk(from, s->type, part);
        memcpy(d + r, part + skip, n * sizeof *d);
      }
      r += n;
    }
  }
}

u32 tcgen05_from_smem(Cta *cta, const Source *s, u32 at, Values *out) {
  u32 size = cta->m->smem_size;
  Chunks c;
  c.cta = cta;
  c.smem = cta->smem;
  c.last = size >= 16 ? size - 16 : 0;
  c.none = size < 16;
  c.bad = c.n = 0;
  c.watched = cta->m->observer != NULL;
  if (s->mn) {
    rows_across_k(&c, s, at, out);
  } else {
    Packed p;
    rows_along_k(&c, s, &p);
    tcgen05_expand(&p, s->type, s->packed4, s->rows, at, out);
  }
  if (c.n) tell(&c);
  return c.bad;
}
