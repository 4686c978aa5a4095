/* tcgen05.mma: issue, checks, and where its matrices lie.
 *
 * PTX ISA, TensorCore 5th Generation Instructions: tcgen05.mma, Data Path Layout
 * Organization, Block Scaling for tcgen05.mma, Issue Granularity.
 *
 * A datapath lane multiplies its own row of A with columns of B. By layout:
 *   A, D  M = 128 a CTA: lane l has row l and all columns
 *   B, E  M = 64 a CTA (pair, or .ws): lanes 0-63 have rows 0-63 and the lower half of
 *         the columns, lanes 64-127 the same rows and the upper half
 *   F     M = 64: rows in the first (or, at lane 16, second) half of each 32 lanes
 *   G     M = 32 (.ws): each 32 lanes have rows 0-31 and a quarter of the columns
 * With A in tensor memory, a lane takes the row that lies in it: layouts B, E and G need
 * A once for every group of columns.
 */
#include "tcgen05_mma.h"

#include "observer.h"
#include "tcgen05_columns.h"
#include "tcgen05_multiply.h"
#include "tcgen05_order.h"
#include "tcgen05_scale.h"

/* A multiplication while it is carried out. */
typedef struct Mma {
  Machine *m;
  const Async *op;
  MmaForm form;
  Idesc d;
  const MmaCall *call;
  u32 parts;     /* groups of columns */
  u32 rows;      /* of A and D in one CTA */
  u32 half;      /* layout F: 1 + its first lane (0 or 16); 0 otherwise */
  u32 columns;   /* of tensor memory under D */
} Mma;

static int refuse(const Mma *x, const Cta *c, u32 kind, u64 addr, u64 size, u32 code) {
  const Async *op = x->op;
  fault_at(x->m, op->insn, c, op->warp->id, op->lane, kind, addr, size, code);
  return 0;
}

/* n columns at `addr`, whose lane must be `lane`. `read`: something wrote them before. */
static int columns_ok(const Mma *x, const Cta *c, u32 addr, u32 n, u32 lane, int read) {
  u32 code = TMEM_OK, column = tmem_column(addr);
  if (tmem_lane(addr) >= TMEM_LANES || column >= TMEM_COLUMNS ||
      n > TMEM_COLUMNS - column)
    code = TMEM_RANGE;
  else if (tmem_lane(addr) != lane)
    code = TMEM_ALIGNMENT;
  else if (!tmem_owned(c, column, n))
    code = TMEM_UNALLOCATED;
  else if (read && x->m->tmem_check && !tmem_marked(c, 0, TMEM_LANES, column, n))
    code = TMEM_UNWRITTEN;
  u32 kind = code == TMEM_UNWRITTEN ? FAULT_TMEM_UNINIT : FAULT_TMEM;
  if (code) refuse(x, c, kind, addr, n, code);
  return code == TMEM_OK || code == TMEM_UNWRITTEN;
}

/* --- A ------------------------------------------------------------------------------ */
/* From rows 0 .. rows - 1 of every k to the lanes that multiply with them. */
static void spread_rows(const Mma *x, Values *a) {
  if (x->rows == TMEM_LANES) return;
  for (u32 k = 0; k < x->d.k; k++) {
    u32 *v = a->v + k * TC_ROWS;
    if (x->half) {
      for (u32 q = 4; q-- > 0;) memmove(v + 32 * q + x->half - 1, v + 16 * q, 64);
    } else {
      for (u32 at = x->rows; at < TMEM_LANES; at += x->rows)
        memcpy(v + at, v, x->rows * sizeof *v);
    }
  }
}

static int matrix_a(const Mma *x, Cta *c, Values *a) {
  const Idesc *d = &x->d;
  u32 packed4 = x->form.kind >= KIND_MXF4;
  if (x->op->insn->x[0] & MMA_A_TMEM) {
    if (!columns_ok(x, c, (u32)x->call->a, TC_WORDS, x->half ? x->half - 1 : 0, 1))
      return 0;
    OBSERVE(x->m, engine_tensor, x->op, c, 0, TMEM_LANES, tmem_column((u32)x->call->a),
            TC_WORDS, ACCESS_READ);
    Packed p;
    for (u32 w = 0; w < TC_WORDS; w++)
      memcpy(p.w[w], tmem_cell(c, 0, tmem_column((u32)x->call->a) + w), TMEM_LANES * 4);
    tcgen05_expand(&p, d->a, packed4, TMEM_LANES, 0, a);
  } else {
    Source s = {.type = d->a, .mn = d->mn_a, .packed4 = packed4, .rows = x->rows};
    u32 code = tcgen05_sdesc(x->call->a, element_bits(d->a), d->mn_a, &s.at);
    if (code) return refuse(x, c, FAULT_TCGEN05, x->call->a, 0, code);
    u32 bad = tcgen05_from_smem(c, &s, 0, a);
    if (bad) refuse(x, c, FAULT_SMEM_OOB, bad, 16, x->m->smem_size);
    spread_rows(x, a);
  }
  if (d->negate_a != d->negate_b)
    for (u32 k = 0; k < d->k; k++)
      for (u32 l = 0; l < TMEM_LANES; l++) a->v[k * TC_ROWS + l] ^= 0x80000000u;
  return 1;
}

/* --- B ------------------------------------------------------------------------------ */
/* The even CTA of a pair has the lower half of B's columns. */
static int matrix_b(const Mma *x, Cta *const *ctas, Values *b) {
  const Idesc *d = &x->d;
  u32 each = d->n / x->form.group, masked = x->op->insn->x[3];
  Source s = {.type = d->b, .mn = d->mn_b, .packed4 = x->form.kind >= KIND_MXF4,
              .rows = each};
  u32 code = tcgen05_sdesc(x->call->b, element_bits(d->b), d->mn_b, &s.at);
  if (code) return refuse(x, x->op->cta, FAULT_TCGEN05, x->call->b, 1, code);
  ColumnMask mask;
  if (masked) {
    code = tcgen05_zero_columns(x->call->zero, d->m, d->n, d->max_shift, &mask);
    if (code) return refuse(x, x->op->cta, FAULT_TCGEN05, x->call->zero, 3, code);
    s.first = mask.shift;
  }
  for (u32 g = 0; g < x->form.group; g++) {
    u32 bad = tcgen05_from_smem(ctas[g], &s, g * each, b);
    if (bad) refuse(x, ctas[g], FAULT_SMEM_OOB, bad, 16, x->m->smem_size);
  }
  if (!masked) return 1;
  for (u32 k = 0; k < d->k; k++)
    for (u32 n = 0; n < d->n; n++)
      if (mask.zero[n]) b->v[k * TC_ROWS + n] = 0;
  return 1;
}

/* Lanes of D that are not switched off, in runs. */
static void touched(const Mma *x, const Cta *c, u32 lane, u32 column, u32 access,
                    const u32 *disabled) {
  u32 first = 0, n = 0;
  for (u32 l = 0; l <= TMEM_LANES; l++) {
    int on = l < TMEM_LANES && (!x->half || l % 32 / 16 == lane / 16) &&
             !(disabled[l / 32] >> l % 32 & 1u);
    if (on && !n++) first = l;
    if (on || !n) continue;
    OBSERVE(x->m, engine_tensor, x->op, c, first, n, column, x->columns, access);
    n = 0;
  }
}

/* --- D ------------------------------------------------------------------------------ */
static void one_cta(const Mma *x, Cta *c, const Values *b, const u32 *disabled) {
  const Insn *i = x->op->insn;
  Values a;
  u32 lane = x->half ? x->half - 1 : 0, column = tmem_column(x->call->d);
  if (!columns_ok(x, c, x->call->d, x->columns, lane, (int)x->call->enable)) return;
  if (!matrix_a(x, c, &a)) return;
  u32 access = x->call->enable ? ACCESS_ATOMIC : ACCESS_WRITE;
  if (x->m->observer) touched(x, c, lane, column, access, disabled);
  Product p = {
      .a = &a,
      .b = b,
      .k = x->d.k,
      .parts = x->parts,
      .columns = x->columns,
      .d = tmem_cell(c, 0, column),
      .accumulate = x->call->enable,
      .half = x->d.d == E_F16,
      .scale = 1.0f / (f32)(1u << i->x[1]),
      .saturate = x->d.saturate,
  };
  for (u32 q = 0; q < 4; q++)
    p.write[q] = (x->half ? 0xffffu << lane : FULL) & ~disabled[q];
  if (x->form.scales) {
    Scales s;
    u32 sfa = tcgen05_scale_address(x->call->sfa, x->d.sfa);
    u32 sfb = tcgen05_scale_address(x->call->sfb, x->d.sfb);
    if (!columns_ok(x, c, sfa, tcgen05_scale_columns(x->rows), 0, 1) ||
        !columns_ok(x, c, sfb, tcgen05_scale_columns(x->columns), 0, 1))
      return;
    OBSERVE(x->m, engine_tensor, x->op, c, 0, TMEM_LANES, tmem_column(sfa),
            tcgen05_scale_columns(x->rows), ACCESS_READ);
    OBSERVE(x->m, engine_tensor, x->op, c, 0, TMEM_LANES, tmem_column(sfb),
            tcgen05_scale_columns(x->columns), ACCESS_READ);
    u32 code = tcgen05_scales(c, &x->d, x->form.scales, x->rows, x->parts,
                              tmem_column(sfa), tmem_column(sfb), &s);
    if (code) refuse(x, c, FAULT_TCGEN05, sfa, sfb, code);
    tcgen05_multiply_scaled(&p, &s);
  } else if (x->form.kind == KIND_I8) {
    tcgen05_multiply_integer(&p);
  } else {
    tcgen05_multiply(&p);
  }
  tmem_mark(c, 0, TMEM_LANES, column, x->columns);
}

static void land(Machine *m, Async *op) {
  const MmaCall *call = (const MmaCall *)op->arg;
  const Insn *i = op->insn;
  Mma x = {.m = m, .op = op, .form = mma_form(i), .call = call};
  if (!tcgen05_pair_alive(m, op, x.form.group)) return;
  u32 code = tcgen05_idesc(&x.form, call->idesc, &x.d);
  if (code) {
    refuse(&x, op->cta, FAULT_TCGEN05, call->idesc, 2, code);
    return;
  }
  Cta *ctas[2] = {op->cta, NULL};
  if (x.form.group == 2) {
    Cta *peer = tcgen05_peer(op->cta);
    ctas[0] = op->cta->rank & 1u ? peer : op->cta;
    ctas[1] = op->cta->rank & 1u ? op->cta : peer;
  }
  x.rows = x.d.m / x.form.group;
  x.parts = x.rows < TMEM_LANES && (x.form.ws || x.form.group == 2)
                ? TMEM_LANES / x.rows : 1;
  if (x.rows == 64 && x.parts == 1) x.half = 1 + (tmem_lane(call->d) == 16 ? 16 : 0);
  x.columns = x.d.n / x.parts;
  m->mma_flops += 2ull * x.d.m * x.d.n * x.d.k;
  Values b;
  if (!matrix_b(&x, ctas, &b)) return;
  for (u32 g = 0; g < x.form.group; g++) one_cta(&x, ctas[g], &b, call->disabled + 4 * g);
}

/* --- issue -------------------------------------------------------------------------- */
/* The rows of operands: registers in ext, each with a constant behind it where it is an
 * address. */
enum { EXT_D, EXT_D_AT, EXT_A, EXT_A_AT, EXT_B, EXT_IDESC, EXT_ENABLE, EXT_SFA,
       EXT_SFA_AT, EXT_SFB, EXT_SFB_AT, EXT_ZERO, EXT_MASK };

static u64 flops(const MmaForm *form, u32 idesc) {
  Idesc d;
  return tcgen05_idesc(form, idesc, &d) ? 0 : 2ull * d.m * d.n * d.k;
}

static int mma(Warp *w, const Insn *i, u32 m) {
  const s32 *ext = w->m->ext + i->ext;
  MmaForm form = mma_form(i);
  u32 scaled = form.scales != 0;
  for (u32 left = m; left; left &= left - 1) {
    u32 l = (u32)__builtin_ctz(left);
    if (tcgen05_group(w, i, l, form.group)) continue;
    MmaCall call = {
        .d = R32(ext[EXT_D])[l] + (u32)ext[EXT_D_AT],
        .b = R64(ext[EXT_B])[l],
        .idesc = R32(ext[EXT_IDESC])[l],
        .enable = RP(ext[EXT_ENABLE]) >> l & 1u,
    };
    call.a = i->x[0] & MMA_A_TMEM ? R32(ext[EXT_A])[l] + (u32)ext[EXT_A_AT]
                                  : R64(ext[EXT_A])[l];
    if (scaled) {
      call.sfa = R32(ext[EXT_SFA])[l] + (u32)ext[EXT_SFA_AT];
      call.sfb = R32(ext[EXT_SFB])[l] + (u32)ext[EXT_SFB_AT];
    }
    if (ext[EXT_ZERO] != NOREF) call.zero = R64(ext[EXT_ZERO])[l];
    for (s32 k = EXT_MASK; k < i->n_ext; k++) call.disabled[k - EXT_MASK] = R32(ext[k])[l];
    /* M, N and the type of D, which has one with block scaling: there its bits are the
     * scale factor id of B. */
    u32 fields = scaled ? 0x187e0000u : 0x1f7e0030u;
    u32 shape = (u32)form.kind << 28 | (call.idesc & fields);
    u32 same = (shape ^ form.ws << 6 ^ call.d * 0x9e3779b1u) | 1u;
    TcOp what = {.kind = ASYNC_TC_MMA, .form = same, .units = form.group};
    if (w->m->observer) what.work = flops(&form, call.idesc);
    if (tcgen05_issue(w, i, l, what, land, &call, sizeof call)) return STEP_STOP;
  }
  return STEP_NEXT;
}

const OpEntry ops_tcgen05_mma[] = {{"tcgen05.mma", mma}, {0, 0}};
