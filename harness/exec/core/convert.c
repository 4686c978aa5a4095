/* Conversions between integers, f32 and f64 (PTX ISA, cvt). */
#include <math.h>

#include "fbits.h"
#include "lanes.h"

/* Integer to integer: sources sit in rows of their own width; x[0] = bits of the
 * destination, x[1] = 1 if it is signed; saturation forms only. */
UN(sext_8_32, u32, u32, R32, R32, (u32)(s32)(s8)a[l])
UN(sext_16_32, u32, u32, R32, R32, (u32)(s32)(s16)a[l])
UN(sext_8_16, u32, u32, R32, R32, (u16)(s16)(s8)a[l])
UN(sext_8_64, u64, u32, R64, R32, (u64)(s64)(s8)a[l])
UN(sext_16_64, u64, u32, R64, R32, (u64)(s64)(s16)a[l])
UN(sext_32_64, u64, u32, R64, R32, (u64)(s64)(s32)a[l])
UN(low_8, u32, u32, R32, R32, (u8)a[l])
UN(low_16, u32, u32, R32, R32, (u16)a[l])

static inline u64 clamp_signed(s64 v, u32 bits, u32 sign) {
  if (sign) {
    s64 hi = bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1, lo = -hi - 1;
    v = v > hi ? hi : v < lo ? lo : v;
  } else {
    u64 hi = bits == 64 ? ~0ull : (1ull << bits) - 1;
    v = v < 0 ? 0 : (u64)v > hi ? (s64)hi : v;
  }
  return bits == 64 ? (u64)v : (u64)v & ((1ull << bits) - 1);
}
static inline u64 clamp_unsigned(u64 v, u32 bits, u32 sign) {
  u64 hi = sign ? (1ull << (bits - 1)) - 1 : bits == 64 ? ~0ull : (1ull << bits) - 1;
  return v > hi ? hi : v;
}
/* a is 64-bit and already sign- or zero-extended; x[2] = signed source */
static inline u64 clamp(u64 v, const Insn *i) {
  u32 bits = (u32)i->x[0], sign = (u32)i->x[1];
  return i->x[2] ? clamp_signed((s64)v, bits, sign) : clamp_unsigned(v, bits, sign);
}
UN(sat_32, u32, u64, R32, R64, (u32)clamp(a[l], i))
UN(sat_64, u64, u64, R64, R64, clamp(a[l], i))

/* Float to integer. x[0]: bits, x[1]: signed, x[2]: rounding 0 rni 1 rzi 2 rmi 3 rpi,
 * x[3]: flush. Out of range clamps; NaN gives 0 for 8, 16, 32-bit results of an f32 or
 * f64 source (PTX ISA, cvt: "In float-to-integer conversions, NaN inputs are converted
 * to 0"), and the top bit alone for 64-bit results. */
static inline f64 to_integral(f64 v, s32 mode) {
  switch (mode) {
    case 0: return rint(v);
    case 1: return trunc(v);
    case 2: return floor(v);
    default: return ceil(v);
  }
}
static inline u64 integer_of(f64 v, const Insn *i) {
  u32 bits = (u32)i->x[0];
  if (v != v) return bits == 64 ? 1ull << 63 : 0;
  v = to_integral(v, i->x[2]);
  if (i->x[1]) {
    f64 hi = ldexp(1.0, (int)bits - 1);
    s64 max = bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1;
    s64 r = v >= hi ? max : v < -hi ? -max - 1 : (s64)v;
    return bits == 64 ? (u64)r : (u64)r & ((1ull << bits) - 1);
  }
  f64 hi = ldexp(1.0, (int)bits);
  u64 max = bits == 64 ? ~0ull : (1ull << bits) - 1;
  return v >= hi ? max : v <= 0 ? 0 : (u64)v;
}
static inline f32 in32(f32 v, const Insn *i) { return i->x[3] ? ftz(v) : v; }
UN(int_f32, u32, f32, R32, RF32, (u32)integer_of(in32(a[l], i), i))
UN(int64_f32, u64, f32, R64, RF32, integer_of(in32(a[l], i), i))
UN(int_f64, u32, f64, R32, RF64, (u32)integer_of(a[l], i))
UN(int64_f64, u64, f64, R64, RF64, integer_of(a[l], i))
/* The hot one: 32-bit results, truncating or rounding, vectorised. */
UN(s32_f32_rz, s32, f32, RS32, RF32,
   a[l] != a[l] ? 0 : a[l] >= 2147483648.0f ? INT32_MAX
                  : a[l] < -2147483648.0f   ? INT32_MIN : (s32)a[l])

/* f32 to f32 integral values */
UN(integral_f32, f32, f32, RF32, RF32,
   canonical((f32)to_integral((f64)in32(a[l], i), i->x[2])))
UN(integral_f64, f64, f64, RF64, RF64, to_integral(a[l], i->x[2]))

/* Integer to float, to nearest even; directed modes are in round.c. */
UN(f32_s32, f32, s32, RF32, RS32, (f32)a[l])
UN(f32_u32, f32, u32, RF32, R32, (f32)a[l])
UN(f32_s64, f32, s64, RF32, RS64, (f32)a[l])
UN(f32_u64, f32, u64, RF32, R64, (f32)a[l])
UN(f64_s32, f64, s32, RF64, RS32, (f64)a[l])
UN(f64_u32, f64, u32, RF64, R32, (f64)a[l])
UN(f64_s64, f64, s64, RF64, RS64, (f64)a[l])
UN(f64_u64, f64, u64, RF64, R64, (f64)a[l])

UN(f64_f32, f64, f32, RF64, RF32, (f64)in32(a[l], i))
static inline f32 narrow(f64 v, const Insn *i) {
  f32 r = canonical((f32)v);
  if (i->x[3]) r = ftz(r);
  return i->x[0] ? sat(r) : r;
}
UN(f32_f64, f32, f64, RF32, RF64, narrow(a[l], i))
/* cvt.sat.f32.f32 and cvt.ftz.f32.f32 */
UN(f32_f32, f32, f32, RF32, RF32, narrow((f64)in32(a[l], i), i))

/* 16-bit formats. Pairs: a is the upper half, b the lower one (PTX ISA, cvt). */
#define RELU(v) (i->x[0] && !((v) > 0.0f) && (v) == (v) ? 0.0f : (v))
UN(cvt_f32_f16, u32, u32, R32, R32, f32_bits(f16_f32(a[l])))
UN(cvt_f32_bf16, u32, u32, R32, R32, f32_bits(bf16_f32(a[l])))
UN(cvt_f16_f32, u32, f32, R32, RF32, f32_f16(RELU(a[l])))
UN(cvt_bf16_f32, u32, f32, R32, RF32, f32_bf16(RELU(a[l])))
BIN(f16x2_f32, u32, f32, R32, RF32, f32_f16(RELU(a[l])) << 16 | f32_f16(RELU(b[l])))
BIN(bf16x2_f32, u32, f32, R32, RF32, f32_bf16(RELU(a[l])) << 16 | f32_bf16(RELU(b[l])))

const OpEntry ops_convert[] = {
    {"sext.8.32", sext_8_32}, {"sext.16.32", sext_16_32}, {"sext.8.16", sext_8_16},
    {"sext.8.64", sext_8_64}, {"sext.16.64", sext_16_64}, {"sext.32.64", sext_32_64},
    {"low.8", low_8}, {"low.16", low_16}, {"cvt.sat.32", sat_32}, {"cvt.sat.64", sat_64},
    {"cvt.int.f32", int_f32}, {"cvt.int64.f32", int64_f32}, {"cvt.int.f64", int_f64},
    {"cvt.int64.f64", int64_f64}, {"cvt.s32.f32.rz", s32_f32_rz},
    {"cvt.integral.f32", integral_f32}, {"cvt.integral.f64", integral_f64},
    {"cvt.f32.s32", f32_s32}, {"cvt.f32.u32", f32_u32}, {"cvt.f32.s64", f32_s64},
    {"cvt.f32.u64", f32_u64}, {"cvt.f64.s32", f64_s32}, {"cvt.f64.u32", f64_u32},
    {"cvt.f64.s64", f64_s64}, {"cvt.f64.u64", f64_u64}, {"cvt.f64.f32", f64_f32},
    {"cvt.f32.f64", f32_f64}, {"cvt.f32.f32", f32_f32}, {"cvt.f32.f16", cvt_f32_f16},
    {"cvt.f32.bf16", cvt_f32_bf16}, {"cvt.f16.f32", cvt_f16_f32}, {"cvt.bf16.f32", cvt_bf16_f32},
    {"cvt.f16x2.f32", f16x2_f32}, {"cvt.bf16x2.f32", bf16x2_f32}, {0, 0},
};
