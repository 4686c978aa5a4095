/* Integer products and the carry flag (PTX ISA, Integer Arithmetic Instructions: mul,
 * mad, mul24, mad24; Extended-Precision Integer Arithmetic Instructions).
 */
#include "lanes.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

#define LOW32(a, b) ((a) * (b))
#define HIGH_U32(a, b) ((u32)(((u64)(a) * (b)) >> 32))
#define HIGH_S32(a, b) ((u32)(((s64)(s32)(a) * (s32)(b)) >> 32))
#define HIGH_U64(a, b) ((u64)(((u128)(a) * (b)) >> 64))
#define HIGH_S64(a, b) ((u64)(((s128)(s64)(a) * (s64)(b)) >> 64))
#define WIDE_U16(a, b) ((u32)(u16)(a) * (u16)(b))
#define WIDE_S16(a, b) ((u32)((s32)(s16)(a) * (s16)(b)))

BIN(mul_32, u32, u32, R32, R32, a[l] * b[l])
BIN(mul_64, u64, u64, R64, R64, a[l] * b[l])
BIN(mul_16, u32, u32, R32, R32, (u16)(a[l] * b[l]))
BIN(hi_u32, u32, u32, R32, R32, HIGH_U32(a[l], b[l]))
BIN(hi_s32, u32, u32, R32, R32, HIGH_S32(a[l], b[l]))
BIN(hi_u64, u64, u64, R64, R64, HIGH_U64(a[l], b[l]))
BIN(hi_s64, u64, u64, R64, R64, HIGH_S64(a[l], b[l]))
BIN(hi_u16, u32, u32, R32, R32, WIDE_U16(a[l], b[l]) >> 16)
BIN(hi_s16, u32, u32, R32, R32, WIDE_S16(a[l], b[l]) >> 16)
BIN(wide_u32, u64, u32, R64, R32, (u64)a[l] * b[l])
BIN(wide_s32, s64, s32, RS64, RS32, (s64)a[l] * b[l])
BIN(wide_u16, u32, u32, R32, R32, WIDE_U16(a[l], b[l]))
BIN(wide_s16, u32, u32, R32, R32, WIDE_S16(a[l], b[l]))

#define MAD(name, T, ROW, product) TRI(name, T, T, T, ROW, ROW, ROW, (product) + c[l])
MAD(mad_32, u32, R32, a[l] * b[l])
MAD(mad_64, u64, R64, a[l] * b[l])
MAD(madhi_u32, u32, R32, HIGH_U32(a[l], b[l]))
MAD(madhi_s32, u32, R32, HIGH_S32(a[l], b[l]))
MAD(madhi_u64, u64, R64, HIGH_U64(a[l], b[l]))
MAD(madhi_s64, u64, R64, HIGH_S64(a[l], b[l]))
MAD(madwide_u16, u32, R32, WIDE_U16(a[l], b[l]))
MAD(madwide_s16, u32, R32, WIDE_S16(a[l], b[l]))
TRI(mad_16, u32, u32, u32, R32, R32, R32, (u16)(a[l] * b[l] + c[l]))
TRI(madhi_u16, u32, u32, u32, R32, R32, R32,
    (u16)((WIDE_U16(a[l], b[l]) >> 16) + c[l]))
TRI(madhi_s16, u32, u32, u32, R32, R32, R32,
    (u16)((WIDE_S16(a[l], b[l]) >> 16) + c[l]))
TRI(madwide_u32, u64, u32, u64, R64, R32, R64, (u64)a[l] * b[l] + c[l])
TRI(madwide_s32, u64, s32, u64, R64, RS32, R64, (u64)((s64)a[l] * b[l]) + c[l])

static inline u32 add_clamped(u32 a, u32 b) {
  s64 v = (s64)(s32)a + (s32)b;
  return (u32)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}
TRI(madhi_sat, u32, u32, u32, R32, R32, R32,
    add_clamped(HIGH_S32(a[l], b[l]), c[l]))

/* 24-bit factors: the low bits, sign-extended where the type is signed. */
static inline s64 s24(u32 v) { return (s32)(v << 8) >> 8; }
#define P24_U(a, b) ((u64)((a) & 0xffffffu) * ((b) & 0xffffffu))
#define P24_S(a, b) ((u64)(s24(a) * s24(b)))
BIN(mul24_lo_u, u32, u32, R32, R32, (u32)P24_U(a[l], b[l]))
BIN(mul24_lo_s, u32, u32, R32, R32, (u32)P24_S(a[l], b[l]))
BIN(mul24_hi_u, u32, u32, R32, R32, (u32)(P24_U(a[l], b[l]) >> 16))
BIN(mul24_hi_s, u32, u32, R32, R32, (u32)(P24_S(a[l], b[l]) >> 16))
MAD(mad24_lo_u, u32, R32, (u32)P24_U(a[l], b[l]))
MAD(mad24_lo_s, u32, R32, (u32)P24_S(a[l], b[l]))
MAD(mad24_hi_u, u32, R32, (u32)(P24_U(a[l], b[l]) >> 16))
MAD(mad24_hi_s, u32, R32, (u32)(P24_S(a[l], b[l]) >> 16))
TRI(mad24_hi_sat, u32, u32, u32, R32, R32, R32,
    add_clamped((u32)(P24_S(a[l], b[l]) >> 16), c[l]))

/* Sums with the carry flag, one bit a lane in w->cc. x[0]: 1 reads the flag, 2 writes
 * it; x[1]: 1 subtracts, when the flag is a borrow. */
enum { CC_IN = 1, CC_OUT = 2 };
#define CARRY(name, T, ROW, product)                                     \
  static int name(Warp *w, const Insn *i, u32 m) {                       \
    const T *a = ROW(i->a), *b = ROW(i->b), *c = ROW(i->c);              \
    T *d = ROW(i->d);                                                    \
    u32 in = i->x[0] & CC_IN ? w->cc : 0, out = 0;                       \
    u32 down = (u32)i->x[1];                                             \
    for (int l = 0; l < LANES; l++) {                                    \
      if (!lane_on(m, l)) continue;                                      \
      T x = product, y = c[l], carry = in >> l & 1, r, r2;               \
      u32 lost;                                                          \
      if (down) {                                                        \
        r = x - y, r2 = r - carry;                                       \
        lost = (x < y) | (r < carry);                                    \
      } else {                                                           \
        r = x + y, r2 = r + carry;                                       \
        lost = (r < x) | (r2 < r);                                       \
      }                                                                  \
      out |= lost << l;                                                  \
      d[l] = r2;                                                         \
    }                                                                    \
    if (i->x[0] & CC_OUT) w->cc = (w->cc & ~m) | out;                    \
    return STEP_NEXT;                                                    \
  }
/* A plain sum is a product with one: b is then unused. */
CARRY(sum_32, u32, R32, ((void)b, a[l]))
CARRY(sum_64, u64, R64, ((void)b, a[l]))
CARRY(cc_lo_32, u32, R32, a[l] * b[l])
CARRY(cc_lo_64, u64, R64, a[l] * b[l])
CARRY(cc_hi_u32, u32, R32, HIGH_U32(a[l], b[l]))
CARRY(cc_hi_s32, u32, R32, HIGH_S32(a[l], b[l]))
CARRY(cc_hi_u64, u64, R64, HIGH_U64(a[l], b[l]))
CARRY(cc_hi_s64, u64, R64, HIGH_S64(a[l], b[l]))

const OpEntry ops_multiply[] = {
    {"mul.b32", mul_32}, {"mul.b64", mul_64}, {"mul.b16", mul_16},
    {"mul.hi.u32", hi_u32}, {"mul.hi.s32", hi_s32}, {"mul.hi.u64", hi_u64},
    {"mul.hi.s64", hi_s64}, {"mul.hi.u16", hi_u16}, {"mul.hi.s16", hi_s16},
    {"mul.wide.u32", wide_u32}, {"mul.wide.s32", wide_s32},
    {"mul.wide.u16", wide_u16}, {"mul.wide.s16", wide_s16},
    {"mad.b32", mad_32}, {"mad.b64", mad_64}, {"mad.b16", mad_16},
    {"mad.hi.u32", madhi_u32}, {"mad.hi.s32", madhi_s32}, {"mad.hi.u64", madhi_u64},
    {"mad.hi.s64", madhi_s64}, {"mad.hi.u16", madhi_u16}, {"mad.hi.s16", madhi_s16},
    {"mad.hi.sat.s32", madhi_sat}, {"mad.wide.u32", madwide_u32},
    {"mad.wide.s32", madwide_s32}, {"mad.wide.u16", madwide_u16},
    {"mad.wide.s16", madwide_s16}, {"mul24.lo.u32", mul24_lo_u},
    {"mul24.lo.s32", mul24_lo_s}, {"mul24.hi.u32", mul24_hi_u},
    {"mul24.hi.s32", mul24_hi_s}, {"mad24.lo.u32", mad24_lo_u},
    {"mad24.lo.s32", mad24_lo_s}, {"mad24.hi.u32", mad24_hi_u},
    {"mad24.hi.s32", mad24_hi_s}, {"mad24.hi.sat.s32", mad24_hi_sat},
    {"carry.b32", sum_32}, {"carry.b64", sum_64}, {"carry.lo.b32", cc_lo_32},
    {"carry.lo.b64", cc_lo_64}, {"carry.hi.u32", cc_hi_u32},
    {"carry.hi.s32", cc_hi_s32}, {"carry.hi.u64", cc_hi_u64},
    {"carry.hi.s64", cc_hi_s64}, {0, 0},
};
