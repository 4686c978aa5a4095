/* Exchanges between the lanes of a warp.
 *
 * PTX ISA: shfl.sync, vote.sync, match.sync, redux.sync, activemask, elect.sync,
 * bar.warp.sync, movmatrix. Every one with a member mask first waits until all named
 * lanes that have not exited are here; an executing lane must be named itself.
 */
#include "observer.h"

/* Member mask of the path: 0 = wait. Lanes with different masks form groups; *group
 * is the first one's lanes. */
static int gather(Warp *w, const Insn *i, s32 ref, u32 left, u32 *group, u32 *mask) {
  const u32 *masks = R32(ref);
  u32 lead = (u32)__builtin_ctz(left), g = 0;
  *mask = masks[lead];
  for (u32 l = 0; l < LANES; l++) g |= (u32)(masks[l] == *mask) << l;
  *group = g & left;
  if (lanes_missing(w, *mask)) {
    block_on(w, BLOCK_WARP_SYNC, *mask, w->mask);
    return 0;
  }
  if (*group & ~*mask)
    fault(w, i, (u32)__builtin_ctz(*group & ~*mask), FAULT_ILLEGAL, *mask, 0, *group);
  return 1;
}

/* All groups can go on, or none does: nothing may be done twice. */
static int ready(Warp *w, const Insn *i, s32 ref, u32 m) {
  const u32 *masks = R32(ref);
  u32 lead = masks[__builtin_ctz(m)], same = 1;
  for (u32 l = 0; l < LANES; l++) same &= !lane_on(m, (int)l) || masks[l] == lead;
  if (same && !lanes_missing(w, lead)) return 1;
  for (u32 left = m; left;) {
    u32 group, mask;
    if (!gather(w, i, ref, left, &group, &mask)) return 0;
    left &= ~group;
  }
  return 1;
}

#define FOR_GROUPS(ref)                                                        \
  if (!ready(w, i, ref, m)) return STEP_BLOCK;                                 \
  for (u32 left = m, group = 0, mask = 0;                                      \
       left && gather(w, i, ref, left, &group, &mask); left &= ~group)

/* d = value, x[1] = predicate or NOREF, a = source, b = lane, c = clamp and segment
 * mask, x[2] = member mask, x[0] = mode (0 up, 1 down, 2 bfly, 3 idx). */
static int shfl(Warp *w, const Insn *i, u32 m) {
  u32 src[LANES], out[LANES], from[LANES], pred = 0;
  if (!ready(w, i, i->x[2], m)) return STEP_BLOCK;
  const u32 *b = R32(i->b), *c = R32(i->c), *masks = R32(i->x[2]);
  memcpy(src, R32(i->a), sizeof src);
  u32 mode = (u32)i->x[0];
  for (u32 l = 0; l < LANES; l++) {
    u32 bval = b[l] & 31u, cval = c[l] & 31u, seg = c[l] >> 8 & 31u;
    u32 max = (l & seg) | (cval & ~seg), min = l & seg;
    u32 up = l - bval, down = l + bval, bfly = l ^ bval;
    u32 idx = min | (bval & ~seg);
    u32 j = mode == 0 ? up : mode == 1 ? down : mode == 2 ? bfly : idx;
    u32 p = mode == 0 ? (s32)up >= (s32)max : j <= max;
    from[l] = p ? j & 31u : l;
    pred |= p << l;
  }
  for (u32 l = 0; l < LANES; l++) out[l] = src[from[l]];
  u32 foreign = 0, absent = 0;
  for (u32 l = 0; l < LANES; l++) {
    foreign |= (~masks[l] >> l & 1u) << l;
    absent |= (~(m & masks[l]) >> from[l] & 1u) << l;
  }
  if (foreign & m) {
    u32 l = (u32)__builtin_ctz(foreign & m);
    fault(w, i, l, FAULT_ILLEGAL, masks[l], 0, from[l]);
  }
  /* what an inactive or unnamed lane holds is undefined: a pattern that shows */
  if (absent & m)
    for (u32 l = 0; l < LANES; l++)
      if (lane_on(absent, (int)l)) out[l] = w->m->reg_fill;
  u32 *d = i->d == NOREF ? NULL : R32(i->d);
  if (d)
    for (u32 l = 0; l < LANES; l++) d[l] = (m >> l) & 1u ? out[l] : d[l];
  set_pred(w, i->x[1], pred, m);
  OBSERVE(w->m, meet, w, i, m & masks[__builtin_ctz(m)]);
  return STEP_NEXT;
}

/* d = result, c = member mask, a = predicate, x[0] = all 0, any 1, uni 2, ballot 3 */
static int vote(Warp *w, const Insn *i, u32 m) {
  u32 p = RP(i->a);
  FOR_GROUPS(i->c) {
    u32 yes = p & group;
    OBSERVE(w->m, meet, w, i, group);
    if (i->x[0] == 3) {
      if (i->d == NOREF) continue;
      u32 *d = R32(i->d);
      for (u32 l = 0; l < LANES; l++) d[l] = (group >> l) & 1u ? yes : d[l];
    } else {
      u32 r = i->x[0] == 0 ? yes == group : i->x[0] == 1 ? yes != 0
                                                         : yes == 0 || yes == group;
      set_pred(w, i->d, r ? FULL : 0, group);
    }
  }
  return STEP_NEXT;
}

/* d = mask, x[1] = predicate, a = value, c = member mask, x[0] = all, x[2] = 64 bits */
static int match(Warp *w, const Insn *i, u32 m) {
  u64 v[LANES];
  for (u32 l = 0; l < LANES; l++) v[l] = i->x[2] ? R64(i->a)[l] : R32(i->a)[l];
  FOR_GROUPS(i->c) {
    u32 out[LANES], all = 1;
    for (u32 l = 0; l < LANES; l++) {
      out[l] = 0;
      for (u32 k = 0; k < LANES; k++) out[l] |= (u32)(v[k] == v[l]) << k;
      out[l] &= group;
      all &= !lane_on(group, (int)l) || out[l] == group;
    }
    if (i->d != NOREF) {
      u32 *d = R32(i->d);
      for (u32 l = 0; l < LANES; l++)
        if (lane_on(group, (int)l)) d[l] = !i->x[0] ? out[l] : all ? group : 0;
    }
    OBSERVE(w->m, meet, w, i, group);
    set_pred(w, i->x[1], all ? FULL : 0, group);
  }
  return STEP_NEXT;
}

enum { RX_ADD, RX_MIN_U, RX_MAX_U, RX_MIN_S, RX_MAX_S, RX_AND, RX_OR, RX_XOR,
       RX_MIN_F, RX_MAX_F };
enum { RX_ABS = 1, RX_NAN = 2 };

static u32 redux_f32(const u32 *a, u32 group, int max, u32 flags) {
  const u32 sign = 0x80000000u, inf = 0x7f800000u, nan = 0x7fffffffu;
  u32 best = 0, found = 0;
  for (u32 l = 0; l < LANES; l++) {
    if (!lane_on(group, (int)l)) continue;
    u32 v = flags & RX_ABS ? a[l] & ~sign : a[l];
    if ((v & ~sign) > inf) {
      if (flags & RX_NAN) return nan;
      continue;
    }
    /* the order of the reals, with -0 below +0 */
    u32 key = v & sign ? ~v : v | sign;
    if (!found || (max ? key > best : key < best)) best = key;
    found = 1;
  }
  if (!found) return nan;
  return best & sign ? best & ~sign : ~best;
}

/* d, a, c = member mask, x[0] = operation, x[1] = flags */
static int redux(Warp *w, const Insn *i, u32 m) {
  u32 a[LANES];
  memcpy(a, R32(i->a), sizeof a);
  FOR_GROUPS(i->c) {
    u32 op = (u32)i->x[0], r = a[__builtin_ctz(group)];
    if (op >= RX_MIN_F) {
      r = redux_f32(a, group, op == RX_MAX_F, (u32)i->x[1]);
    } else {
      for (u32 rest = group & (group - 1); rest; rest &= rest - 1) {
        u32 v = a[__builtin_ctz(rest)];
        switch (op) {
          case RX_ADD: r += v; break;
          case RX_MIN_U: r = v < r ? v : r; break;
          case RX_MAX_U: r = v > r ? v : r; break;
          case RX_MIN_S: r = (s32)v < (s32)r ? v : r; break;
          case RX_MAX_S: r = (s32)v > (s32)r ? v : r; break;
          case RX_AND: r &= v; break;
          case RX_OR: r |= v; break;
          default: r ^= v;
        }
      }
    }
    if (i->d == NOREF) continue;
    u32 *d = R32(i->d);
    for (u32 l = 0; l < LANES; l++) d[l] = (group >> l) & 1u ? r : d[l];
  }
  return STEP_NEXT;
}

static int activemask(Warp *w, const Insn *i, u32 m) {
  u32 *d = R32(i->d);
  LANE_LOOP(u32, d, m);
}

/* d = leader (or NOREF), x[1] = predicate, c = member mask. The lowest lane leads. */
static int elect(Warp *w, const Insn *i, u32 m) {
  FOR_GROUPS(i->c) {
    u32 lead = (u32)__builtin_ctz(group);
    if (i->d != NOREF) {
      u32 *d = R32(i->d);
      for (u32 l = 0; l < LANES; l++) d[l] = (group >> l) & 1u ? lead : d[l];
    }
    set_pred(w, i->x[1], 1u << lead, group);
    OBSERVE(w->m, meet, w, i, group);
  }
  return STEP_NEXT;
}

/* c = member mask */
static int warp_sync(Warp *w, const Insn *i, u32 m) {
  FOR_GROUPS(i->c) OBSERVE(w->m, converge, w, i, group);
  return STEP_NEXT;
}

const OpEntry ops_warp[] = {
    {"shfl", shfl},   {"vote", vote},   {"match", match},
    {"redux", redux}, {"elect", elect}, {"activemask", activemask},
    {"warp.sync", warp_sync}, {0, 0},
};
