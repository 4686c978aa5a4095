/* atom and red (PTX ISA, Parallel Synchronization and Communication Instructions).
 *
 * Lanes of a warp act one after another, lowest first; nothing comes between.
 * a = address, imm = offset, x[0] = space | ADDR64, x[1] = operation, x[2] = type,
 * x[3] = elements n; ext = n destinations (NOREF: red or `_`), n sources, and for cas
 * a second source.
 */
#include "access.h"
#include "atomic.h"
#include "fbits.h"
#include "observer.h"

static u32 size_of(u32 type) {
  switch (type) {
    case TY_B16: case TY_F16: case TY_BF16: return 2;
    case TY_B64: case TY_S64: case TY_F64: return 8;
    case TY_B128: return 16;
    default: return 4;
  }
}

/* min and max of the `min`, `max` instructions: a NaN gives way, -0 is below +0 */
static u32 half_extreme(u32 a, u32 b, int max, u32 inf) {
  int na = (a & 0x7fffu) > inf, nb = (b & 0x7fffu) > inf;
  if (na || nb) return na && nb ? 0x7fffu : na ? b : a;
  s32 ka = a & 0x8000u ? -1 - (s32)(a & 0x7fffu) : (s32)a;
  s32 kb = b & 0x8000u ? -1 - (s32)(b & 0x7fffu) : (s32)b;
  return (max ? ka >= kb : ka <= kb) ? a : b;
}

static u32 half(u32 op, int bf, u32 a, u32 b) {
  if (op != AT_ADD) return half_extreme(a, b, op == AT_MAX, bf ? 0x7f80u : 0x7c00u);
  f32 s = bf ? bf16_f32(a) + bf16_f32(b) : f16_f32(a) + f16_f32(b);
  /* exact in binary32 or rounded far below a half's last bit: one rounding counts */
  return bf ? f32_bf16(s) : f32_f16(s);
}

static u32 word32(u32 op, u32 type, u32 o, u32 b, u32 c, int flush) {
  switch (type) {
    case TY_F32: {
      f32 x = bits_f32(o), y = bits_f32(b);
      f32 r = flush ? ftz(ftz(x) + ftz(y)) : x + y;
      return op == AT_ADD ? f32_bits(canonical(r)) : b;
    }
    case TY_F16X2: case TY_BF16X2: {
      int bf = type == TY_BF16X2;
      return half(op, bf, o & 0xffffu, b & 0xffffu) | half(op, bf, o >> 16, b >> 16) << 16;
    }
    default:
      break;
  }
  switch (op) {
    case AT_ADD: return o + b;
    case AT_MIN: return type == TY_S32 ? ((s32)b < (s32)o ? b : o) : b < o ? b : o;
    case AT_MAX: return type == TY_S32 ? ((s32)b > (s32)o ? b : o) : b > o ? b : o;
    case AT_INC: return o >= b ? 0 : o + 1;
    case AT_DEC: return o == 0 || o > b ? b : o - 1;
    case AT_AND: return o & b;
    case AT_OR: return o | b;
    case AT_XOR: return o ^ b;
    case AT_CAS: return o == b ? c : o;
    default: return b;
  }
}

static u64 word64(u32 op, u32 type, u64 o, u64 b, u64 c) {
  if (type == TY_F64) {
    f64 r = bits_f64(o) + bits_f64(b);
    return r == r ? f64_bits(r) : 0x7fffffffffffffffull;
  }
  switch (op) {
    case AT_ADD: return o + b;
    case AT_MIN: return type == TY_S64 ? ((s64)b < (s64)o ? b : o) : b < o ? b : o;
    case AT_MAX: return type == TY_S64 ? ((s64)b > (s64)o ? b : o) : b > o ? b : o;
    case AT_AND: return o & b;
    case AT_OR: return o | b;
    case AT_XOR: return o ^ b;
    case AT_CAS: return o == b ? c : o;
    default: return b;
  }
}

u64 atomic_word(u32 op, u32 type, int wide, u64 old, u64 b) {
  return wide ? word64(op, type, old, b, 0) : word32(op, type, (u32)old, (u32)b, 0, 0);
}

static const void *source(const Warp *w, const Insn *i, s32 k) {
  return row(w, w->m->ext[i->ext + k]);
}

/* Where a lane compares and swaps, or NULL behind a fault. */
static u8 *compared(Warp *w, const Insn *i, u32 lane, u32 space, const u64 *addr, u32 size,
                    const void *expected) {
  const u32 *low = expected;
  const u64 *wide = expected;
  u64 value[2] = {size <= 4 ? low[lane] : wide[lane], size == 16 ? wide[LANES + lane] : 0};
  u8 *p = resolve(w, i, lane, space, addr[lane], size, size, ACCESS_ATOMIC);
  if (p)
    OBSERVE(w->m, lanes, w, i, 1u << lane, space, addr, size,
            memcmp(p, value, size) ? ACCESS_TRIED : ACCESS_ATOMIC);
  return p;
}

static int atom(Warp *w, const Insn *i, u32 m) {
  u32 op = (u32)i->x[1], type = (u32)i->x[2], size = size_of(type);
  s32 n = i->x[3];
  u32 bytes = size * (u32)n, space = (u32)i->x[0] & 0xff;
  u64 addr[LANES];
  u8 *p[LANES];
  lane_addresses(w, i, i->a, addr);
  if (op != AT_CAS) lane_pointers(w, i, m, space, addr, bytes, bytes, ACCESS_ATOMIC, p);
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    if (op == AT_CAS && !(p[l] = compared(w, i, l, space, addr, size, source(w, i, n))))
      continue;
    int global = space == SPACE_GLOBAL || (space == SPACE_GENERIC && !(addr[l] >> WINDOW_SHIFT));
    u64 given[8] = {0}; /* read first: a destination may be another element's source */
    for (s32 k = 0; k < n && size <= 8; k++) {
      const void *b = source(w, i, n + k);
      given[k] = size == 8 ? ((const u64 *)b)[l] : ((const u32 *)b)[l];
    }
    for (s32 k = 0; k < n; k++) {
      u8 *at = p[l] + size * (u32)k;
      s32 d = w->m->ext[i->ext + k];
      const void *b = source(w, i, n + k), *c = op == AT_CAS ? source(w, i, 2 * n) : b;
      if (size <= 4) {
        u32 o = 0, v;
        if (size == 4) memcpy(&o, at, 4);
        else memcpy(&o, at, 2);
        u32 bv = (u32)given[k], cv = ((const u32 *)c)[l];
        if (type == TY_F16 || type == TY_BF16)
          v = half(op, type == TY_BF16, o, bv & 0xffffu);
        else if (size == 2) v = word32(op, type, o, bv & 0xffffu, cv, 0);
        else v = word32(op, type, o, bv, cv, global);
        if (size == 4) memcpy(at, &v, 4);
        else memcpy(at, &v, 2);
        if (d != NOREF) R32(d)[l] = o;
      } else if (size == 8) {
        u64 o, v;
        memcpy(&o, at, 8);
        v = word64(op, type, o, given[k], ((const u64 *)c)[l]);
        memcpy(at, &v, 8);
        if (d != NOREF) R64(d)[l] = o;
      } else {
        u64 o[2], v[2];
        const u64 *b2 = b, *c2 = c;
        memcpy(o, at, 16);
        int same = o[0] == b2[l] && o[1] == b2[LANES + l];
        for (u32 h = 0; h < 2; h++)
          v[h] = op == AT_EXCH ? b2[h * LANES + l] : same ? c2[h * LANES + l] : o[h];
        memcpy(at, v, 16);
        if (d != NOREF) {
          R64(d)[l] = o[0];
          R64(d)[LANES + l] = o[1];
        }
      }
    }
  }
  return STEP_NEXT;
}

const OpEntry ops_atomic[] = {{"atom", atom}, {0, 0}};
