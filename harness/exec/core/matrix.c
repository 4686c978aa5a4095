/* Matrices between shared memory and the lanes of a warp.
 *
 * PTX ISA, Warp-level Matrix Instructions: ldmatrix, stmatrix, movmatrix. Every row
 * of an 8x8 matrix of 16-bit elements is 16 bytes; lane t holds elements 2(t%4) and
 * 2(t%4)+1 of row t/4. Lane 8k+r gives the address of row r of matrix k.
 */
#include "access.h"

enum { ROW = 16, SIDE = 8 };

/* The whole warp must take part: 0 = wait for lanes still elsewhere. */
static int whole(Warp *w, const Insn *i, u32 m) {
  if (lanes_missing(w, FULL)) {
    block_on(w, BLOCK_WARP_SYNC, FULL, w->mask);
    return 0;
  }
  if (m != FULL) fault(w, i, (u32)__builtin_ctz(~m), FAULT_ILLEGAL, m, 0, FULL);
  return 1;
}

/* Pointers to the rows of the first `rows` lanes. */
static void rows_at(Warp *w, const Insn *i, u32 m, u32 rows, u32 access, u8 **p) {
  u64 addr[LANES];
  u32 space = (u32)i->x[0] & 0xff;
  u32 need = rows == LANES ? FULL : (1u << rows) - 1;
  lane_addresses(w, i, i->a, addr);
  if (space == SPACE_GENERIC) {
    for (u32 l = 0; l < rows; l++) {
      addr[l] = lane_on(m, (int)l) ? shared_address(w, i, l, space, addr[l], ROW) : 0;
      if (!addr[l]) need &= ~(1u << l); /* reported: elsewhere than in shared memory */
    }
  }
  lane_pointers(w, i, need & m, SPACE_SHARED, addr, ROW, ROW, access, p);
}

typedef u16 Row __attribute__((vector_size(ROW)));
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Interleaving row r with row r + 4 three times transposes. */
static void transpose(u32 *out, const u32 *in) {
  Row a[SIDE], b[SIDE];
  memcpy(a, in, sizeof a);
  for (int turn = 0; turn < 3; turn++) {
    for (int r = 0; r < 4; r++) {
      b[2 * r] = LOW(a[r], a[r + 4]);
      b[2 * r + 1] = HIGH(a[r], a[r + 4]);
    }
    memcpy(a, b, sizeof a);
  }
  memcpy(out, a, sizeof a);
}

static void give(Warp *w, s32 ref, const u32 *v, u32 m) {
  if (ref == NOREF) return;
  u32 *d = R32(ref);
  if (m == FULL) memcpy(d, v, 4 * LANES);
  else
    for (int l = 0; l < LANES; l++) d[l] = (m >> l) & 1u ? v[l] : d[l];
}

/* ldmatrix m8n8 b16: ext = destinations, x[1] = transpose */
static int ldmatrix(Warp *w, const Insn *i, u32 m) {
  if (!whole(w, i, m)) return STEP_BLOCK;
  u8 *p[LANES];
  rows_at(w, i, m, SIDE * (u32)i->n_ext, ACCESS_READ, p);
  for (s32 k = 0; k < i->n_ext; k++) {
    u32 v[LANES], t[LANES];
    for (int r = 0; r < SIDE; r++) memcpy(v + 4 * r, p[SIDE * k + r], ROW);
    if (i->x[1]) transpose(t, v);
    give(w, w->m->ext[i->ext + k], i->x[1] ? t : v, m);
  }
  return STEP_NEXT;
}

/* ldmatrix m16n16 b8 trans: two registers a matrix. Memory row j is column j; lane t
 * gets columns 4(t%4) .. +3 of rows t/4 (first register) and t/4 + 8 (second). */
static int ldmatrix_b8(Warp *w, const Insn *i, u32 m) {
  if (!whole(w, i, m)) return STEP_BLOCK;
  u8 *p[LANES];
  rows_at(w, i, m, 8 * (u32)i->n_ext, ACCESS_READ, p);
  for (s32 k = 0; k < i->n_ext; k++) {
    u32 v[LANES];
    u8 *const *rows = p + 16 * (k / 2);
    for (int l = 0; l < LANES; l++) {
      v[l] = 0;
      for (int e = 0; e < 4; e++)
        v[l] |= (u32)rows[4 * (l % 4) + e][l / 4 + 8 * (k % 2)] << (8 * e);
    }
    give(w, w->m->ext[i->ext + k], v, m);
  }
  return STEP_NEXT;
}

/* stmatrix m8n8 b16: ext = sources, x[1] = transpose */
static int stmatrix(Warp *w, const Insn *i, u32 m) {
  if (!whole(w, i, m)) return STEP_BLOCK;
  u8 *p[LANES];
  u32 rows[LANES][ROW / 4];
  for (s32 k = 0; k < i->n_ext; k++) {
    const u32 *v = R32(w->m->ext[i->ext + k]);
    if (i->x[1]) transpose(rows[SIDE * k], v);
    else memcpy(rows[SIDE * k], v, SIDE * ROW);
  }
  w->storing = rows;
  rows_at(w, i, m, SIDE * (u32)i->n_ext, ACCESS_WRITE, p);
  w->storing = NULL;
  for (s32 k = 0; k < SIDE * i->n_ext; k++) memcpy(p[k], rows[k], ROW);
  return STEP_NEXT;
}

/* movmatrix m8n8 trans b16 */
static int movmatrix(Warp *w, const Insn *i, u32 m) {
  if (!whole(w, i, m)) return STEP_BLOCK;
  u32 v[LANES], t[LANES];
  memcpy(v, R32(i->a), sizeof v);
  transpose(t, v);
  give(w, i->d, t, m);
  return STEP_NEXT;
}

const OpEntry ops_matrix[] = {
    {"ldmatrix", ldmatrix}, {"ldmatrix.b8", ldmatrix_b8}, {"stmatrix", stmatrix},
    {"movmatrix", movmatrix}, {0, 0},
};
