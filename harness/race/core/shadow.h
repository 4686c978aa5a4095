/* Shadow memory: the accesses to a word that may still race with one to come.
 *
 * A cell stands for 4 bytes and takes 64: five accesses in place, more in a chain. An
 * access leaves its cell when a later one that it is ordered before can stand for it:
 * whoever is ordered after the later one is ordered after both.
 */
#ifndef SIDESTREAM_SHADOW_H
#define SIDESTREAM_SHADOW_H

#include "clock.h"

enum EntryFlag {
  ENTRY_WRITE = 1,
  ENTRY_ASYNC = 2,  /* through the async proxy */
  ENTRY_STRONG = 4, /* may be morally strong (PTX ISA: Morally Strong Operations) */
  ENTRY_ENGINE = 8, /* made by an asynchronous operation */
};
enum Scope { SCOPE_NONE = 0, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS };

/* One access, by component `comp` of the machine. `pc` is a bytecode row. */
typedef struct Entry {
  u32 clock, pc;
  u32 comp : 14;
  u32 lane : 6; /* or ANY_LANE */
  u32 bytes : 4; /* of the word; 0 = the entry is free */
  u32 flags : 5;
  u32 scope : 3;
} Entry;

enum { CELL_ENTRIES = 5, CHAIN_ENTRIES = 5, MAX_COMPONENTS = 1 << 14 };
typedef struct Cell {
  Entry entry[CELL_ENTRIES];
  u32 more; /* 1 + index of the next block of a chain, 0 = none */
} Cell;

typedef struct Shadow {
  Cell *chain; /* blocks of chains, shared by all cells */
  u32 n_chain, cap_chain, free_chain;
  u64 words; /* cells that were touched, for the report */
} Shadow;

/* How two accesses of one word stand to each other. */
enum Verdict {
  APART = 0,     /* no conflict, or ordered */
  UNORDERED,     /* a race */
  BEHIND_PROXY,  /* ordered, but no proxy fence is on the way */
  UNSCOPED       /* both strong, but their scopes do not include each other */
};

/* Who accesses, for the judge. */
struct Detector;
typedef struct Accessor {
  Entry entry;             /* `bytes` is set for each word */
  const Knowledge *known;  /* by the accessing lane or operation */
  u32 first_comp;          /* machine component of known's entry 0 */
  u32 async_plane;         /* plane in which an async access sees generic ones */
  u64 address;             /* of the word, for the report */
  u32 space;
} Accessor;

/* Judge the access against the cell and record it there. */
void shadow_access(struct Detector *d, Cell *cell, Accessor *a, u32 bytes);
void shadow_forget(Shadow *s, Cell *cells, u64 n);
void shadow_free(Shadow *s);

#endif
