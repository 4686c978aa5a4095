/* Floating-point formats rounded in integers, for what the host cannot do natively:
 * directed f64 arithmetic and conversions to formats it does not know. */
#ifndef SIDESTREAM_SOFT_H
#define SIDESTREAM_SOFT_H

#include "directed.h"

typedef unsigned __int128 u128;

typedef struct Format {
  u8 frac;  /* fraction bits */
  u8 bits;  /* all bits, the sign on top */
  s16 bias;
  u64 inf;  /* pattern of infinity, or of the first value past the largest */
  u64 nan;  /* canonical NaN; of a format without one, its largest value */
  u32 has_inf;
} Format;

extern const Format FMT_F64, FMT_F32, FMT_F16, FMT_BF16, FMT_TF32, FMT_E4M3, FMT_E5M2,
    FMT_E2M3, FMT_E3M2, FMT_E2M1;

/* sig * 2^exp, plus something below its last place if `sticky`, in format `f`. A sticky
 * sig must have more bits than the format keeps.
 * Overflow gives infinity or the largest value as the mode and `finite` demand. */
u64 soft_round(const Format *f, u32 sign, u128 sig, s32 exp, u32 sticky, u32 mode,
               u32 finite);
/* A number in `f`, NaN and infinity included. */
u64 soft_from_f64(const Format *f, f64 v, u32 mode, u32 finite);

f64 soft_fma(f64 a, f64 b, f64 c, u32 mode);
f64 soft_mul(f64 a, f64 b, u32 mode);
f64 soft_div(f64 a, f64 b, u32 mode);
f64 soft_sqrt(f64 a, u32 mode);

#endif
