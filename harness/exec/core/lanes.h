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
#define TRI(name, D, A, C, DROW, AROW, CROW, expr)    \
  static int name(Warp *w, const Insn *i, u32 m) {    \
    const A *a = (const A *)AROW(i->a);               \
    const A *b = (const A *)AROW(i->b);               \
    const C *c = (const C *)CROW(i->c);               \
    D *d = (D *)DROW(i->d);                           \
    LANE_LOOP(D, d, expr);                            \
  }

#endif
