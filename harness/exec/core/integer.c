/* Integer add and subtract (PTX ISA, Integer Arithmetic Instructions). */
#include "core.h"

#define BIN(name, T, ROW, expr)                                \
  static int name(Warp *w, const Insn *i, u32 m) {             \
    const T *a = (const T *)ROW(i->a), *b = (const T *)ROW(i->b); \
    T *d = (T *)ROW(i->d);                                     \
    LANE_LOOP(T, d, expr);                                     \
  }

BIN(add_32, u32, R32, a[l] + b[l])
BIN(add_64, u64, R64, a[l] + b[l])

const OpEntry ops_integer[] = {{"add.b32", add_32}, {"add.b64", add_64}, {0, 0}};
