/* Rounding in integers; see soft.h. Every function is exact up to one rounding. */
#include "soft.h"

/*                       frac bits bias  infinity                NaN      has_inf */
const Format FMT_F64 = {52, 64, 1023, 0x7ff0000000000000ull, 0x7fffffffffffffffull, 1};
const Format FMT_F32 = {23, 32, 127, 0x7f800000, CANONICAL_F32, 1};
const Format FMT_F16 = {10, 16, 15, 0x7c00, CANONICAL_16, 1};
const Format FMT_BF16 = {7, 16, 127, 0x7f80, CANONICAL_16, 1};
const Format FMT_TF32 = {10, 19, 127, 0x3fc00, 0x3ffff, 1};
const Format FMT_E4M3 = {3, 8, 7, 0x7f, 0x7f, 0};
const Format FMT_E5M2 = {2, 8, 15, 0x7c, 0x7f, 1};
const Format FMT_E2M3 = {3, 6, 1, 0x20, 0x1f, 0};
const Format FMT_E3M2 = {2, 6, 3, 0x20, 0x1f, 0};
const Format FMT_E2M1 = {1, 4, 1, 0x8, 0x7, 0};

static u32 length(u128 v) {
  u64 hi = (u64)(v >> 64), lo = (u64)v;
  if (hi) return 128 - (u32)__builtin_clzll(hi);
  return lo ? 64 - (u32)__builtin_clzll(lo) : 0;
}

/* Whether what was cut off, as a fraction of the last place kept, rounds away. */
static u32 rounds_up(u32 mode, u32 sign, u32 last, u32 half, u32 below) {
  switch (mode) {
    case RN: return half && (below || last);
    case RNA: return half;
    case RM: return sign && (half || below);
    case RP: return !sign && (half || below);
    default: return 0;
  }
}

static u64 overflow(const Format *f, u32 sign, u32 mode, u32 finite) {
  u32 stays = finite || mode == RZ || (mode == RM && !sign) || (mode == RP && sign);
  return stays ? f->inf - 1 : f->has_inf ? f->inf : f->nan;
}

u64 soft_round(const Format *f, u32 sign, u128 sig, s32 exp, u32 sticky, u32 mode,
               u32 finite) {
  u64 top = (u64)sign << (f->bits - 1);
  if (!sig) return top;
  s32 lowest = 1 - f->bias;
  s32 e = exp + (s32)length(sig) - 1; /* exponent of the leading bit */
  if (e < lowest) e = lowest;         /* subnormals share the lowest one */
  s32 shift = e - f->frac - exp;
  u64 kept;
  if (shift <= 0) {
    kept = (u64)(sig << -shift);
  } else if (shift > 127) {
    kept = rounds_up(mode, sign, 0, 0, 1);
  } else {
    kept = (u64)(sig >> shift);
    u32 half = (u32)(sig >> (shift - 1)) & 1;
    u32 below = sticky || (sig & (((u128)1 << (shift - 1)) - 1)) != 0;
    kept += rounds_up(mode, sign, kept & 1, half, below);
  }
  /* The implicit bit, or a carry into it, raises the exponent by itself. */
  u64 bits = ((u64)(e + f->bias - 1) << f->frac) + kept;
  return top | (bits >= f->inf ? overflow(f, sign, mode, finite) : bits);
}

/* A finite number as sig * 2^exp with an integer sig. */
typedef struct Parts {
  u32 sign;
  u64 sig;
  s32 exp;
} Parts;

static Parts parts(f64 v) {
  u64 b = f64_bits(v);
  s32 e = (s32)(b >> 52 & 0x7ff);
  u64 f = b & 0xfffffffffffffull;
  return (Parts){(u32)(b >> 63), e ? f | 1ull << 52 : f, (e ? e : 1) - 1075};
}
static u32 is_finite(f64 v) { return v - v == 0.0; }

u64 soft_from_f64(const Format *f, f64 v, u32 mode, u32 saturate) {
  if (v != v) return f->nan;
  Parts p = parts(v);
  if (!is_finite(v)) {
    u64 top = (u64)p.sign << (f->bits - 1);
    return top | (saturate || !f->has_inf ? f->inf - 1 : f->inf);
  }
  return soft_round(f, p.sign, p.sig, p.exp, 0, mode, saturate);
}

/* The sum of two integers times powers of two. The larger one leads at bit 125, so
 * that a carry fits and bits shifted out of the smaller one lie far below. */
static f64 sum(u32 sa, u128 a, s32 ea, u32 sb, u128 b, s32 eb, u32 mode) {
  s32 la = 126 - (s32)length(a), lb = 126 - (s32)length(b);
  a <<= la, ea -= la;
  b <<= lb, eb -= lb;
  if (ea < eb || (ea == eb && a < b)) {
    u128 v = a;
    s32 e = ea;
    u32 s = sa;
    a = b, ea = eb, sa = sb;
    b = v, eb = e, sb = s;
  }
  s32 gap = ea - eb;
  u32 sticky = gap > 127 || (b & (((u128)1 << gap) - 1)) != 0;
  b = gap > 127 ? 0 : b >> gap;
  u128 r = sa == sb ? a + b : a - b - sticky;
  if (!r) return mode == RM ? -0.0 : 0.0;
  return bits_f64(soft_round(&FMT_F64, sa, r, ea, sticky, mode, 0));
}

f64 soft_fma(f64 a, f64 b, f64 c, u32 mode) {
  if (!is_finite(a) || !is_finite(b) || !is_finite(c)) return __builtin_fma(a, b, c);
  Parts x = parts(a), y = parts(b), z = parts(c);
  u32 sign = x.sign ^ y.sign;
  u128 p = (u128)x.sig * y.sig;
  if (!p && !z.sig) {
    u32 negative = sign == z.sign ? sign : mode == RM;
    return negative ? -0.0 : 0.0;
  }
  if (!p) return c;
  if (!z.sig) return soft_mul(a, b, mode);
  return sum(sign, p, x.exp + y.exp, z.sign, z.sig, z.exp, mode);
}

f64 soft_mul(f64 a, f64 b, u32 mode) {
  if (!is_finite(a) || !is_finite(b)) return a * b;
  Parts x = parts(a), y = parts(b);
  return bits_f64(soft_round(&FMT_F64, x.sign ^ y.sign, (u128)x.sig * y.sig,
                             x.exp + y.exp, 0, mode, 0));
}

f64 soft_div(f64 a, f64 b, u32 mode) {
  if (!is_finite(a) || !is_finite(b) || b == 0.0 || a == 0.0) return a / b;
  Parts x = parts(a), y = parts(b);
  /* A quotient of at least 63 bits, whatever the operands' lengths. */
  s32 up = 127 - (s32)length(x.sig);
  u128 n = (u128)x.sig << up, q = n / y.sig;
  return bits_f64(soft_round(&FMT_F64, x.sign ^ y.sign, q, x.exp - y.exp - up,
                             n % y.sig != 0, mode, 0));
}

f64 soft_sqrt(f64 a, u32 mode) {
  if (!is_finite(a) || !(a > 0.0)) return __builtin_sqrt(a);
  Parts x = parts(a);
  s32 up = 125 - (s32)length(x.sig);
  if ((x.exp - up) & 1) up++;
  u128 v = (u128)x.sig << up;
  /* One step of Newton's from a root good to 50 bits, then single steps. */
  u64 r = (u64)__builtin_sqrt((f64)v);
  r = (u64)((r + v / r) / 2);
  while ((u128)r * r > v) r--;
  while ((u128)(r + 1) * (r + 1) <= v) r++;
  return bits_f64(
      soft_round(&FMT_F64, 0, r, (x.exp - up) / 2, (u128)r * r != v, mode, 0));
}
