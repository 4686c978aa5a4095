/* Shapes of lane-wise handlers: one, two or three source rows, one destination row. */
#ifndef SIDESTREAM_LANES_H
#define SIDESTREAM_LANES_H

#include "core.h"

#define UN(name, D, A, DROW, AROW, expr)              \
  static int name(Warp *w, const Insn *i, u32 m) {    \
    const A *a = (const A *)AROW(i->a);               \
    D *d = (D *)DROW(i->d);                           \
    LANE_LOOP(D, d, expr);                            \
  }
#define BIN(name, D, A, DROW, AROW, expr)             \
  static int name(Warp *w, const Insn *i, u32 m) {    \
    const A *a = (const A *)AROW(i->a);               \
    const A *b = (const A *)AROW(i->b);               \
    D *d = (D *)DROW(i->d);                           \
    LANE_LOOP(D, d, expr);                            \
  }
/* The second source is a 32-bit row whatever the first is: shift amounts, positions. */
#define BIN32(name, D, A, DROW, AROW, expr)           \
  static int name(Warp *w, const Insn *i, u32 m) {    \
    const A *a = (const A *)AROW(i->a);               \
    const u32 *b = R32(i->b);                         \
    D *d = (D *)DROW(i->d);                           \
    LANE_LOOP(D, d, expr);                            \
  }
#define TRI(name, D, A, C, DROW, AROW, CROW, expr)    \
  static int name(Warp *w, const Insn *i, u32 m) {    \
    const A *a = (const A *)AROW(i->a);               \
    const A *b = (const A *)AROW(i->b);               \
    const C *c = (const C *)CROW(i->c);               \
    D *d = (D *)DROW(i->d);                           \
    LANE_LOOP(D, d, expr);                            \
  }
/* Copy the active lanes of a finished row: for values that no vector loop makes. */
static inline void put32(u32 *d, const u32 *v, u32 m) {
  for (int l = 0; l < LANES; l++) d[l] = (m >> l) & 1u ? v[l] : d[l];
}
static inline void put64(u64 *d, const u64 *v, u32 m) {
  for (int l = 0; l < LANES; l++) d[l] = (m >> l) & 1u ? v[l] : d[l];
}

#endif
