/* tcgen05.cp and tcgen05.shift: from shared to tensor memory, and one lane down.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: tcgen05.cp, Optional Decompression,
 * tcgen05.shift. The source is a K-major matrix of 16-byte chunks; with .cta_group::2
 * each CTA copies from its own shared memory to its own tensor memory.
 */
#include "tcgen05_operand.h"
#include "observer.h"
#include "tcgen05_order.h"

/* x[0] of the row: shape | format << 4 | multicast << 8, as exec/lower/tcgen05_mma.py
 * has them; x[1] = .cta_group; a = address (x[2] = offset), b = descriptor. */
enum CpShape { CP_128X256B, CP_4X256B, CP_128X128B, CP_64X128B, CP_32X128B };
enum CpFormat { CP_PLAIN, CP_B6, CP_B4 };
enum CpMulticast { CP_ONE, CP_02_13, CP_01_23, CP_X4 };

typedef struct Copy {
  u64 desc;
  u32 addr;
} Copy;

static void refuse(Machine *m, const Async *op, const Cta *c, u32 kind, u64 addr, u64 size,
                   u32 code) {
  fault_at(m, op->insn, c, op->warp->id, op->lane, kind, addr, size, code);
}

/* Columns [column, column + n) of an access that starts in `lane` and may do so. */
static int columns_ok(Machine *m, const Async *op, const Cta *c, u32 addr, u32 n,
                      int aligned) {
  u32 column = tmem_column(addr), code = TMEM_OK;
  if (tmem_lane(addr) >= TMEM_LANES || column >= TMEM_COLUMNS ||
      n > TMEM_COLUMNS - column)
    code = TMEM_RANGE;
  else if (!aligned)
    code = TMEM_ALIGNMENT;
  else if (!tmem_owned(c, column, n))
    code = TMEM_UNALLOCATED;
  if (code) refuse(m, op, c, FAULT_TMEM, addr, n, code);
  return !code;
}

static u32 rows_of(u32 shape) {
  return shape <= CP_128X128B ? (shape == CP_4X256B ? 4 : 128)
                              : (shape == CP_64X128B ? 64 : 32);
}

/* The first lane that row r goes to, and how many copies follow at what distance. */
static u32 lane_of(u32 shape, u32 cast, u32 first, u32 r, u32 *copies, u32 *step) {
  *copies = 1;
  *step = 0;
  if (shape == CP_4X256B) return first + 32 * r;
  if (cast == CP_X4) {
    *copies = 4;
    *step = 32;
  } else if (cast != CP_ONE) {
    *copies = 2;
    *step = cast == CP_02_13 ? 64 : 32;
    if (cast == CP_01_23) return r + (r & 32u);
  }
  return r;
}

static void copy_cta(Machine *m, const Async *op, Cta *c) {
  const Copy *call = (const Copy *)op->arg;
  u32 form = (u32)op->insn->x[0], shape = form & 15u, format = form >> 4 & 15u;
  u32 wide = shape <= CP_4X256B ? 2 : 1, lane = tmem_lane(call->addr), bad = 0;
  u32 column = tmem_column(call->addr);
  int aligned = shape == CP_4X256B ? lane < 32 : lane == 0;
  if (!columns_ok(m, op, c, call->addr, 4 * wide, aligned)) return;
  Sdesc s;
  u32 code = tcgen05_sdesc(call->desc, 8, 0, &s);
  if (code) {
    refuse(m, op, c, FAULT_TCGEN05, call->desc, 0, code);
    return;
  }
  int few = shape == CP_4X256B; /* a lane of every 32 */
  for (u32 q = 0; q < (few ? 4u : 1u); q++)
    OBSERVE(m, engine_tensor, op, c, few ? lane + 32 * q : 0, few ? 1 : TMEM_LANES, column,
            4 * wide, ACCESS_WRITE);
  for (u32 r = 0; r < rows_of(shape); r++) {
    u32 copies, step, to = lane_of(shape, form >> 8, lane, r, &copies, &step);
    for (u32 h = 0; h < wide; h++) {
      u32 at = sdesc_k_chunk(&s, r, h), off = at - SMEM_BASE;
      u32 words[4] = {0};
      OBSERVE(m, engine, op, SPACE_SHARED, c->rank << 24 | at, 16, ACCESS_READ);
      if (m->smem_size < 16 || off > m->smem_size - 16) {
        if (!bad) bad = at ? at : 1;
      } else if (format == CP_B4) {
        tcgen05_unpack4(c->smem + off, (u8 *)words);
      } else if (format == CP_B6) {
        tcgen05_unpack6(c->smem + off, (u8 *)words);
      } else {
        memcpy(words, c->smem + off, 16);
      }
      for (u32 k = 0; k < copies; k++)
        for (u32 w = 0; w < 4; w++)
          *tmem_cell(c, to + k * step, column + 4 * h + w) = words[w];
    }
  }
  if (bad) refuse(m, op, c, FAULT_SMEM_OOB, bad, 16, m->smem_size);
  tmem_mark(c, 0, TMEM_LANES, column, 4 * wide);
}

/* Every lane but the last of the 32 takes what the next one had. */
static void shift_cta(Machine *m, const Async *op, Cta *c) {
  u32 addr = ((const Copy *)op->arg)->addr, lane = tmem_lane(addr);
  if (!columns_ok(m, op, c, addr, 8, lane % 32 == 0)) return;
  OBSERVE(m, engine_tensor, op, c, lane, 32, tmem_column(addr), 8, ACCESS_ATOMIC);
  for (u32 k = 0; k < 8; k++) {
    u32 *cells = tmem_cell(c, lane, tmem_column(addr) + k);
    memmove(cells, cells + 1, 31 * sizeof *cells);
  }
}

static void land(Machine *m, Async *op) {
  u32 group = (u32)op->insn->x[1];
  if (!tcgen05_pair_alive(m, op, group)) return;
  Cta *ctas[2] = {op->cta, group == 2 ? tcgen05_peer(op->cta) : NULL};
  for (u32 g = 0; g < group; g++) {
    if (op->kind == ASYNC_TC_CP) copy_cta(m, op, ctas[g]);
    else shift_cta(m, op, ctas[g]);
  }
}

static int issue(Warp *w, const Insn *i, u32 m, u32 kind) {
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    if (tcgen05_group(w, i, l, (u32)i->x[1])) continue;
    Copy call = {i->b == NOREF ? 0 : R64(i->b)[l], R32(i->a)[l] + (u32)i->x[2]};
    u32 small = kind == ASYNC_TC_CP && ((u32)i->x[0] & 15u) == CP_4X256B;
    TcOp what = {.kind = kind, .small = small, .units = 1};
    if (tcgen05_issue(w, i, l, what, land, &call, sizeof call)) return STEP_STOP;
  }
  return STEP_NEXT;
}

static int cp(Warp *w, const Insn *i, u32 m) { return issue(w, i, m, ASYNC_TC_CP); }
static int shift(Warp *w, const Insn *i, u32 m) { return issue(w, i, m, ASYNC_TC_SHIFT); }

const OpEntry ops_tcgen05_cp[] = {{"tcgen05.cp", cp}, {"tcgen05.shift", shift}, {0, 0}};
