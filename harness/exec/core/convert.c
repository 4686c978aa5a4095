/* Conversions among integers, and between integers and f32 or f64 (PTX ISA, cvt).
 *
 * Halves come through f32, which holds them exactly; other roundings to floating-point
 * formats are in narrow.c. 8- and 16-bit values are canonical, but a source row may be
 * wider than its type, so that low.* comes first.
 */
#include <math.h>

#include "lanes.h"
#include "soft.h"

UN(sext_8_32, u32, u32, R32, R32, (u32)(s32)(s8)a[l])
UN(sext_16_32, u32, u32, R32, R32, (u32)(s32)(s16)a[l])
UN(sext_8_16, u32, u32, R32, R32, (u16)(s16)(s8)a[l])
UN(sext_8_64, u64, u32, R64, R32, (u64)(s64)(s8)a[l])
UN(sext_16_64, u64, u32, R64, R32, (u64)(s64)(s16)a[l])
UN(sext_32_64, u64, u32, R64, R32, (u64)(s64)(s32)a[l])
UN(low_8, u32, u32, R32, R32, (u8)a[l])
UN(low_16, u32, u32, R32, R32, (u16)a[l])

/* Saturation. a is 64-bit and already extended; x[0] = bits of the result, x[1] = 1 if
 * that is signed, x[2] = 1 if the source is. */
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
static inline u64 clamp(u64 v, const Insn *i) {
  u32 bits = (u32)i->x[0], sign = (u32)i->x[1];
  return i->x[2] ? clamp_signed((s64)v, bits, sign) : clamp_unsigned(v, bits, sign);
}
UN(sat_32, u32, u64, R32, R64, (u32)clamp(a[l], i))
UN(sat_64, u64, u64, R64, R64, clamp(a[l], i))

/* Float to integer, out of range clamped. x[0]: bits, x[1]: signed, x[2]: rounding 0 rni
 * 1 rzi 2 rmi 3 rpi, x[3]: 1 flush, 2 the source is f64 itself. */
enum { FLUSH = 1, WIDE = 2 };
static inline f64 to_integral(f64 v, s32 mode) {
  switch (mode) {
    case 0: return rint(v);
    case 1: return trunc(v);
    case 2: return floor(v);
    default: return ceil(v);
  }
}
/* "NaN input results in: Zero if source is not .f64 and destination is not .s64, .u64;
 * otherwise 1 << (BitWidth(dst) - 1)" (cvt, Integer Notes). */
static inline u64 integer_of(f64 v, const Insn *i) {
  u32 bits = (u32)i->x[0];
  if (v != v) return bits == 64 || i->x[3] & WIDE ? 1ull << (bits - 1) : 0;
  v = to_integral(v, i->x[2]);
  if (i->x[1]) {
    f64 hi = bits_f64((u64)(1022 + bits) << 52); /* 2^(bits - 1) */
    s64 max = bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1;
    s64 r = v >= hi ? max : v < -hi ? -max - 1 : (s64)v;
    return bits == 64 ? (u64)r : (u64)r & ((1ull << bits) - 1);
  }
  f64 hi = bits_f64((u64)(1023 + bits) << 52);
  u64 max = bits == 64 ? ~0ull : (1ull << bits) - 1;
  return v >= hi ? max : v <= 0 ? 0 : (u64)v;
}
static inline f32 in32(f32 v, const Insn *i) { return i->x[3] & FLUSH ? ftz(v) : v; }
UN(int_f32, u32, f32, R32, RF32, (u32)integer_of(in32(a[l], i), i))
UN(int64_f32, u64, f32, R64, RF32, integer_of(in32(a[l], i), i))
UN(int_f64, u32, f64, R32, RF64, (u32)integer_of(a[l], i))
UN(int64_f64, u64, f64, R64, RF64, integer_of(a[l], i))
/* The common ones; a number in range converts natively, and flushing changes only
 * what rounds to zero anyway. */
#define TO_S32(v)                                                            \
  ((v) != (v) ? 0 : (v) >= 2147483648.0f ? INT32_MAX                         \
                  : (v) < -2147483648.0f ? INT32_MIN : (s32)(v))
UN(s32_f32_rz, s32, f32, RS32, RF32, TO_S32(a[l]))
UN(s32_f32_rn, s32, f32, RS32, RF32, ({ f32 r = rintf(a[l]); TO_S32(r); }))

/* Integral values: f32 to f32 and f64 to f64. x[2], x[3] as above; x[1] = 1 saturates. */
static inline f32 integral32(f32 v, const Insn *i) {
  f32 r = canonical((f32)to_integral((f64)in32(v, i), i->x[2]));
  return i->x[1] ? sat(r) : r;
}
static inline f64 sat64(f64 v) { return v > 0.0 ? (v < 1.0 ? v : 1.0) : 0.0; }
static inline f64 integral64(f64 v, const Insn *i) {
  f64 r = to_integral(v, i->x[2]);
  return i->x[1] ? sat64(r) : r;
}
UN(integral_f32, f32, f32, RF32, RF32, integral32(a[l], i))
UN(integral_f64, f64, f64, RF64, RF64, integral64(a[l], i))

/* Integer to float, to nearest even. */
UN(f32_s32, f32, s32, RF32, RS32, (f32)a[l])
UN(f32_u32, f32, u32, RF32, R32, (f32)a[l])
UN(f32_s64, f32, s64, RF32, RS64, (f32)a[l])
UN(f32_u64, f32, u64, RF32, R64, (f32)a[l])
UN(f64_s32, f64, s32, RF64, RS32, (f64)a[l])
UN(f64_u32, f64, u32, RF64, R32, (f64)a[l])
UN(f64_s64, f64, s64, RF64, RS64, (f64)a[l])
UN(f64_u64, f64, u64, RF64, R64, (f64)a[l])
/* Integer to any format in any mode. The source is a 64-bit row; x[0] = format (as in
 * narrow.c), x[1] = mode, x[2] = 1 if the source is signed. */
static inline u64 from_integer(u64 v, const Insn *i) {
  u32 negative = i->x[2] && (s64)v < 0;
  static const Format *const formats[] = {&FMT_F64, &FMT_F32, &FMT_F16, &FMT_BF16};
  return soft_round(formats[i->x[0]], negative, negative ? 0 - v : v, 0, 0,
                    (u32)i->x[1], 0);
}
UN(from_int, u32, u64, R32, R64, (u32)from_integer(a[l], i))
UN(from_int64, u64, u64, R64, R64, from_integer(a[l], i))

/* f32 to f64, f64 to f32, f32 to f32. x[0] = 1 saturates, x[1] = rounding mode,
 * x[3] as above. */
static inline f64 widen(f32 v, const Insn *i) {
  f64 r = (f64)in32(v, i);
  return i->x[0] ? sat64(r) : r;
}
/* A NaN keeps its sign and the upper part of its payload, and becomes quiet. */
static inline f32 to_f32(f64 v, const Insn *i) {
  u64 b = f64_bits(v);
  f32 nan = bits_f32(((u32)(b >> 32) & 0x80000000u) | 0x7fc00000u | ((u32)(b >> 29) & 0x3fffffu));
  f32 r = v == v ? narrow(v, (u32)i->x[1]) : nan;
  if (i->x[3] & FLUSH) r = ftz(r);
  return i->x[0] ? sat(r) : r;
}
UN(f64_f32, f64, f32, RF64, RF32, widen(a[l], i))
UN(f32_f64, f32, f64, RF32, RF64, to_f32(a[l], i))
UN(f32_f32, f32, f32, RF32, RF32, to_f32((f64)a[l], i))
UN(f64_f64, f64, f64, RF64, RF64, i->x[0] ? sat64(a[l]) : a[l])

const OpEntry ops_convert[] = {
    {"sext.8.32", sext_8_32}, {"sext.16.32", sext_16_32}, {"sext.8.16", sext_8_16},
    {"sext.8.64", sext_8_64}, {"sext.16.64", sext_16_64}, {"sext.32.64", sext_32_64},
    {"low.8", low_8}, {"low.16", low_16}, {"cvt.sat.32", sat_32}, {"cvt.sat.64", sat_64},
    {"cvt.int.f32", int_f32}, {"cvt.int64.f32", int64_f32}, {"cvt.int.f64", int_f64},
    {"cvt.int64.f64", int64_f64}, {"cvt.s32.f32.rzi", s32_f32_rz},
    {"cvt.s32.f32.rni", s32_f32_rn}, {"cvt.integral.f32", integral_f32},
    {"cvt.integral.f64", integral_f64}, {"cvt.f32.s32", f32_s32},
    {"cvt.f32.u32", f32_u32}, {"cvt.f32.s64", f32_s64}, {"cvt.f32.u64", f32_u64},
    {"cvt.f64.s32", f64_s32}, {"cvt.f64.u32", f64_u32}, {"cvt.f64.s64", f64_s64},
    {"cvt.f64.u64", f64_u64}, {"cvt.from.int", from_int},
    {"cvt.from.int64", from_int64}, {"cvt.f64.f32", f64_f32}, {"cvt.f32.f64", f32_f64},
    {"cvt.f32.f32", f32_f32}, {"cvt.f64.f64", f64_f64}, {0, 0},
};
