/* Double-precision arithmetic (PTX ISA, Floating-Point Instructions): natively to
 * nearest, in integers in the directed modes. NaN payloads are the host's. */
#include "lanes.h"
#include "soft.h"

BIN(add_rn, f64, f64, RF64, RF64, a[l] + b[l])
BIN(sub_rn, f64, f64, RF64, RF64, a[l] - b[l])
BIN(mul_rn, f64, f64, RF64, RF64, a[l] * b[l])
BIN(div_rn, f64, f64, RF64, RF64, a[l] / b[l])
TRI(fma_rn, f64, f64, f64, RF64, RF64, RF64, __builtin_fma(a[l], b[l], c[l]))
UN(rcp_rn, f64, f64, RF64, RF64, 1.0 / a[l])
UN(sqrt_rn, f64, f64, RF64, RF64, __builtin_sqrt(a[l]))

#define MODE(mode, R)                                                              \
  BIN(add_##mode, f64, f64, RF64, RF64, soft_fma(a[l], 1.0, b[l], R))              \
  BIN(sub_##mode, f64, f64, RF64, RF64, soft_fma(a[l], 1.0, -b[l], R))             \
  BIN(mul_##mode, f64, f64, RF64, RF64, soft_mul(a[l], b[l], R))                   \
  BIN(div_##mode, f64, f64, RF64, RF64, soft_div(a[l], b[l], R))                   \
  TRI(fma_##mode, f64, f64, f64, RF64, RF64, RF64, soft_fma(a[l], b[l], c[l], R))  \
  UN(rcp_##mode, f64, f64, RF64, RF64, soft_div(1.0, a[l], R))                     \
  UN(sqrt_##mode, f64, f64, RF64, RF64, soft_sqrt(a[l], R))
MODE(rz, RZ)
MODE(rm, RM)
MODE(rp, RP)

/* The gross approximations work on the upper words alone; subnormals are zero. */
#define UPPER 0xffffffff00000000ull
static inline f64 upper_in(f64 v) {
  u64 b = f64_bits(v) & UPPER;
  return bits_f64(b >> 52 & 0x7ff ? b : b & 1ull << 63);
}
static inline u64 upper_out(f64 v) {
  u64 b = f64_bits(v);
  if (v != v) return 0x7fffffff00000000ull;
  return b >> 52 & 0x7ff ? b & UPPER : b & 1ull << 63;
}
UN(rcp_gross, u64, f64, R64, RF64, upper_out(1.0 / upper_in(a[l])))
UN(rsqrt_gross, u64, f64, R64, RF64, upper_out(1.0 / __builtin_sqrt(upper_in(a[l]))))
UN(rsqrt_approx, f64, f64, RF64, RF64, 1.0 / __builtin_sqrt(a[l]))

#define OPS(mode, s)                                                       \
  {"add.f64" s, add_##mode}, {"sub.f64" s, sub_##mode},                    \
  {"mul.f64" s, mul_##mode}, {"div.f64" s, div_##mode},                    \
  {"fma.f64" s, fma_##mode}, {"rcp.f64" s, rcp_##mode},                    \
  {"sqrt.f64" s, sqrt_##mode}

const OpEntry ops_double[] = {
    OPS(rn, ""), OPS(rz, ".rz"), OPS(rm, ".rm"), OPS(rp, ".rp"),
    {"rcp.approx.ftz.f64", rcp_gross}, {"rsqrt.approx.ftz.f64", rsqrt_gross},
    {"rsqrt.approx.f64", rsqrt_approx}, {0, 0},
};
