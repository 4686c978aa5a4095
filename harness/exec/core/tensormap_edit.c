/* Edits of tensor maps in memory (PTX ISA, "tensormap.replace",
 * "tensormap.cp_fenceproxy"). Field places as recorded on an H200: only the field's
 * bits change, and values that count from one are stored less one. */
#include "tensormap.h"

#include "observer.h"

/* The order is that of exec/lower/tensormap.py. */
enum Field {
  FIELD_ADDRESS = 0, FIELD_RANK, FIELD_BOX, FIELD_DIM, FIELD_STRIDE, FIELD_STEP,
  FIELD_TYPE, FIELD_INTERLEAVE, FIELD_SWIZZLE, FIELD_FILL
};

static void put(u32 *word, u32 at, u32 n, u32 value) {
  u32 mask = n == 32 ? ~0u : ((1u << n) - 1) << at;
  *word = (*word & ~mask) | (value << at & mask);
}

static void edit(u32 *w, u32 field, u32 ord, u64 value) {
  u32 v = (u32)value;
  switch (field) {
    case FIELD_ADDRESS: w[0] = v, w[1] = (u32)(value >> 32); break;
    case FIELD_RANK: put(&w[2], 4, 3, v); break; /* given as rank - 1 */
    case FIELD_BOX:
      if (ord) put(&w[14], 8 * (ord - 1), 8, v - 1);
      else put(&w[13], 24, 8, v - 1);
      break;
    case FIELD_DIM: w[8 + ord] = v - 1; break;
    case FIELD_STRIDE: /* ordinal 0 is dimension 1's */
      w[3 + ord] = (u32)(value >> 4);
      put(&w[7], 4 * ord, 4, (u32)(value >> 36));
      break;
    case FIELD_STEP: put(&w[13], 3 * ord, 3, v - 1); break;
    case FIELD_TYPE: /* 11 and 12 are TF32 forms of f32 and f32.ftz */
      if (v >= 11) put(&w[2], 16, 1, 1);
      put(&w[2], 7, 4, v >= 11 ? v - 4 : v);
      break;
    case FIELD_INTERLEAVE: put(&w[2], 11, 2, v); break;
    case FIELD_SWIZZLE: put(&w[2], 13, 2, v), put(&w[2], 22, 1, 0); break;
    default: put(&w[2], 15, 1, v);
  }
}

/* a = address, b = value (64 bits if x[3]), imm = offset; x = field, ordinal, space */
static int replace(Warp *w, const Insn *i, u32 m) {
  const u64 *a = R64(i->a);
  u64 at[LANES];
  for (u32 l = 0; l < LANES; l++) at[l] = a[l] + (u64)i->imm;
  /* "treated as a weak memory operation, on the entire 1024-bit opaque object" */
  OBSERVE(w->m, lanes, w, i, m, (u32)i->x[2], at, TMAP_BYTES, ACCESS_WRITE);
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(m, (int)l)) continue;
    u8 *p = resolve(w, i, l, (u32)i->x[2], at[l], TMAP_BYTES, TMAP_ALIGN, ACCESS_ATOMIC);
    if (!p) continue;
    u32 words[TMAP_WORDS];
    memcpy(words, p, sizeof words);
    edit(words, (u32)i->x[0], (u32)i->x[1], i->x[3] ? R64(i->b)[l] : R32(i->b)[l]);
    memcpy(p, words, sizeof words);
  }
  return STEP_NEXT;
}

/* Every lane copies its part, in the generic proxy; then the fence. */
static void tell_copy(const Warp *w, const Insn *i, u32 m, u64 from, u64 to, u32 size) {
  u64 source[LANES], target[LANES];
  u32 part = size / LANES;
  if (m != FULL) m &= -m, part = size; /* lanes that have exited copy nothing */
  for (u32 l = 0; l < LANES; l++) {
    source[l] = from + (m == FULL ? l * part : 0);
    target[l] = to + (m == FULL ? l * part : 0);
  }
  OBSERVE(w->m, lanes, w, i, m, SPACE_SHARED, source, part, ACCESS_READ);
  OBSERVE(w->m, lanes, w, i, m, SPACE_GLOBAL, target, part, ACCESS_WRITE);
  OBSERVE(w->m, fence, w, i, w->mask);
}

/* All threads of the warp copy one map together: a = destination (global), b = source
 * (shared); x = offset of the destination, of the source, size. */
static int copy_fence(Warp *w, const Insn *i, u32 m) {
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return STEP_BLOCK;
  }
  u32 l = (u32)__builtin_ctz(m), size = (u32)i->x[2];
  u64 to = R64(i->a)[l] + (u64)(s64)i->x[0];
  u64 from = R64(i->b)[l] + (u64)(s64)i->x[1];
  for (u32 k = 0; k < LANES; k++) /* operands must be the same in all threads */
    if (lane_on(m, (int)k) && (R64(i->a)[k] != R64(i->a)[l] || R64(i->b)[k] != R64(i->b)[l]))
      fault(w, i, k, FAULT_ILLEGAL, R64(i->a)[k], size, 0);
  const u8 *p = resolve(w, i, l, SPACE_SHARED, from, size, 128, ACCESS_READ);
  u8 *d = resolve(w, i, l, SPACE_GLOBAL, to, size, 128, ACCESS_WRITE);
  if (p && d) {
    tell_copy(w, i, m, from, to, size);
    memcpy(d, p, size);
  }
  return STEP_NEXT;
}

const OpEntry ops_tensormap[] = {
    {"tensormap.replace", replace}, {"tensormap.cp_fenceproxy", copy_fence}, {0, 0}};
