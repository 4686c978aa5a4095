/* Decoding of tcgen05 descriptors. Every combination that the tables of the PTX ISA do
 * not list is an error. */
#include "tcgen05_descriptor.h"

static inline u32 field(u64 bits, u32 at, u32 width) {
  return (u32)(bits >> at) & ((1u << width) - 1);
}

/* Type of matrix A or B by its code; 0 if the kind has no such code. */
static int operand_type(u32 kind, u32 code, u32 *type) {
  static const u8 narrow[8] = {E_E4M3, E_E5M2, 0xff, E_E2M3, E_E3M2, E_E2M1, 0xff, 0xff};
  u32 found = 0xff;
  switch (kind) {
    case KIND_F16: found = code < 2 ? E_F16 + code : 0xff; break;
    case KIND_TF32: found = code == 2 ? E_TF32 : 0xff; break;
    case KIND_I8: found = code < 2 ? E_U8 + code : 0xff; break;
    case KIND_F8F6F4: case KIND_MXF8F6F4: found = narrow[code]; break;
    default: found = code == 1 ? E_E2M1 : 0xff;
  }
  *type = found;
  return found != 0xff;
}

static int result_type(u32 kind, u32 code, u32 *type) {
  u32 found = code == 1 ? E_F32 : 0xff;
  if (code == 0 && (kind == KIND_F16 || kind == KIND_F8F6F4)) found = E_F16;
  if (kind == KIND_I8) found = code == 2 ? E_S32 : 0xff;
  *type = found;
  return found != 0xff;
}

static int eight_bits(u32 type) {
  return type == E_E4M3 || type == E_E5M2 || type == E_U8 || type == E_S8;
}

static int sub_byte(u32 type) {
  return type == E_E2M3 || type == E_E3M2 || type == E_E2M1;
}

/* Matrix Shape, Various combinations of .kind and shapes. */
static u32 check_shape(const MmaForm *f, const Idesc *d) {
  u32 m = d->m, n = d->n, mx = f->kind >= KIND_MXF8F6F4;
  if (f->ws) {
    if (m != 32 && m != 64 && m != 128) return TC_IDESC_M;
    return n == 64 || n == 128 || n == 256 ? TC_OK : TC_IDESC_N;
  }
  u32 full = 128 * f->group, half = mx && f->group == 1 ? full : full / 2;
  if (m != full && m != half) return TC_IDESC_M;
  u32 step = 8 * f->group;
  if (f->kind == KIND_I8 && (f->group == 2 || n > 32)) step *= 2;
  /* Various combinations of N shape with .cta_group qualifier for 8bit transpose B */
  if (d->mn_b && eight_bits(d->b)) step = 16 * f->group;
  return n >= step && n <= 256 && n % step == 0 ? TC_OK : TC_IDESC_N;
}

static u32 check_scale(const MmaForm *f, const Idesc *d) {
  if (d->ue4m3 && (f->kind != KIND_MXF4NVF4 || f->scales != 4)) return TC_IDESC_SCALE;
  u32 step = f->scales == 1 ? 1 : f->scales == 2 ? 2 : 4;
  return d->sfa % step || d->sfb % step ? TC_IDESC_SCALE : TC_OK;
}

u32 tcgen05_idesc(const MmaForm *f, u32 bits, Idesc *out) {
  Idesc d = {0};
  u32 mx = f->kind >= KIND_MXF8F6F4, fp4 = f->kind >= KIND_MXF4;
  if (field(bits, 2, 1)) return TC_IDESC_SPARSITY;
  u32 reserved = mx ? field(bits, 0, 2) | field(bits, 3, 1) | field(bits, 24, 3)
                    : field(bits, 23, 1);
  /* Later architectures double K of 8-bit types by bit 29. cuDNN's d256 forward sets it
   * for 16-bit types, on sm_100 too, where they have one K: it has no effect there. */
  if (!mx && f->kind != KIND_F16) reserved |= field(bits, 29, 1);
  if (reserved | field(bits, 6, 1)) return TC_IDESC_RESERVED;
  d.saturate = field(bits, 3, 1);
  if (d.saturate && f->kind != KIND_I8) return TC_IDESC_SATURATE;
  d.d = E_F32;
  if (!mx && !result_type(f->kind, field(bits, 4, 2), &d.d)) return TC_IDESC_TYPE;
  if (fp4 && field(bits, 12, 1)) return TC_IDESC_RESERVED;
  if (!operand_type(f->kind, field(bits, 7, 3), &d.a)) return TC_IDESC_TYPE;
  if (!operand_type(f->kind, field(bits, 10, fp4 ? 2 : 3), &d.b)) return TC_IDESC_TYPE;
  if (f->kind == KIND_F16 && d.d == E_F16 && (d.a != E_F16 || d.b != E_F16))
    return TC_IDESC_TYPE;
  d.negate_a = field(bits, 13, 1);
  d.negate_b = field(bits, 14, 1);
  if (f->kind == KIND_I8 && (d.negate_a || d.negate_b)) return TC_IDESC_NEGATE;
  d.mn_a = field(bits, 15, 1);
  d.mn_b = field(bits, 16, 1);
  if ((d.mn_a && sub_byte(d.a)) || (d.mn_b && sub_byte(d.b))) return TC_IDESC_MAJOR;
  d.n = field(bits, 17, 6) << 3;
  d.m = mx ? field(bits, 27, 2) << 7 : field(bits, 24, 5) << 4;
  d.max_shift = !mx && field(bits, 30, 2) ? 4u << field(bits, 30, 2) : 0;
  d.k = f->kind == KIND_F16 ? 16 : f->kind == KIND_TF32 ? 8 : fp4 ? 64 : 32;
  u32 wrong = check_shape(f, &d);
  if (wrong) return wrong;
  if (mx) {
    d.sfb = field(bits, 4, 2);
    d.sfa = field(bits, 29, 2);
    d.ue4m3 = !field(bits, 23, 1);
    /* bit 31: K = 96, which only sm_103a has */
    if (field(bits, 31, 1)) return TC_IDESC_RESERVED;
    wrong = check_scale(f, &d);
  }
  *out = d;
  return wrong;
}

u32 tcgen05_sdesc(u64 desc, u32 bits, u32 mn, Sdesc *out) {
  if (field(desc, 14, 2) || field(desc, 30, 2) || field(desc, 46, 3) != 1 ||
      field(desc, 53, 8))
    return TC_SDESC_FIXED;
  Sdesc s = {
      .start = field(desc, 0, 14) << 4,
      .lbo = field(desc, 16, 14) << 4,
      .sbo = field(desc, 32, 14) << 4,
      .base = field(desc, 49, 3),
      .swizzle = field(desc, 61, 3),
  };
  if (s.swizzle == 3 || s.swizzle == 5 || s.swizzle == 7) return TC_SDESC_SWIZZLE;
  /* 32-bit elements are MN-major in this mode only, and no others ever are. It has no
   * K-major atom (Layout for swizzle atoms). */
  if ((s.swizzle == SW_128_BASE32) != (mn && bits == 32)) return TC_SDESC_SWIZZLE;
  if (field(desc, 52, 1)) return TC_SDESC_ABSOLUTE; /* sm_103a only */
  if (s.base && s.swizzle == SW_NONE) return TC_SDESC_BASE;
  *out = s;
  return TC_OK;
}
