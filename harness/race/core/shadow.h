/* Shadow memory: the accesses to some bytes that may still race with one to come.
 *
 * A cell stands for 16 bytes, told apart by a mask, and takes 64: five accesses in
 * place, more in a chain. An access leaves its cell when a later one that it is ordered
 * before can stand for it: whoever is ordered after the later one is ordered after
 * both. Used entries come first.
 */
#ifndef SIDESTREAM_SHADOW_H
#define SIDESTREAM_SHADOW_H

#include "clock.h"

enum EntryFlag {
  ENTRY_WRITE = 1,
  ENTRY_ASYNC = 2,  /* through the async proxy */
  ENTRY_STRONG = 4, /* may be morally strong (PTX ISA: Morally strong operations) */
  ENTRY_ENGINE = 8, /* made by an asynchronous operation */
  /* A copy reads its tensor map, through the tensor-map proxy: a combination that no
   * other access has. */
  ENTRY_MAP = ENTRY_ENGINE | ENTRY_ASYNC | ENTRY_STRONG
};
enum Scope { SCOPE_NONE = 0, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS, SCOPE_RELAXED = 8 };
/* In the place of a scope, which weak accesses have none of: the bytes were what they are
 * before the write; and another warp had made them so by the same instruction; the read
 * takes the bytes for constant. */
enum { WRITE_KEEPS = 5, WRITE_REPEATS = 6, READ_CONSTANT = 7 };

/* One access, by component `comp` of the machine. `pc` is a bytecode row. */
typedef struct Entry {
  u32 clock;
  u32 pc : 20;
  u32 lane : 6; /* or ANY_LANE; of an operation: what it is made of */
  u32 scope : 3;
  u32 flags_low : 2;
  u32 cut : 1; /* stood for more bytes at first */
  u32 comp : 14;
  u32 flags_high : 2;
  u32 bytes : 16; /* of the cell; 0 = the entry is free */
} Entry;

static inline u32 entry_flags(const Entry *e) { return e->flags_low | e->flags_high << 2; }
static inline void entry_set_flags(Entry *e, u32 flags) {
  e->flags_low = flags & 3u;
  e->flags_high = flags >> 2 & 3u;
}

/* Whether an entry and an access of some bytes of its cell are both strong: of the same
 * bytes, through one proxy, and reductions by operations of elements alike (PTX ISA,
 * Memory Consistency Model: Morally strong operations). */
int shadow_both_strong(const Entry *e, const Entry *now, u32 bytes);

static inline int entry_reads_map(const Entry *e) { return entry_flags(e) == ENTRY_MAP; }

/* Stands for the end of the kernel, where no instruction is. */
enum { END_PC = (1 << 20) - 1 };
enum { CELL_BYTES = 16, CELL_ENTRIES = 5, MAX_COMPONENTS = 1 << 14 };
enum { TMEM_CELL_LANES = 16, TMEM_CELLS_COLUMN = 128 / TMEM_CELL_LANES, TMEM_COLUMNS = 512 };
#define ALL_BYTES 0xffffu
typedef struct Cell {
  Entry entry[CELL_ENTRIES];
  u32 more; /* 1 + index of the next block of a chain, 0 = none */
} Cell;

_Static_assert(sizeof(Entry) == 12 && sizeof(Cell) == 64, "a cell is one cache line");

/* One access to the whole of several cells of a block. */
typedef struct Span {
  u64 cells;
  Entry entry;
} Span;

/* 64 cells: 1024 bytes, or 8 columns of tensor memory. */
enum { BLOCK_CELLS = 64, BLOCK_SPANS = 6, BLOCK_BYTES = BLOCK_CELLS * CELL_BYTES,
       BLOCK_COLUMNS = BLOCK_CELLS / TMEM_CELLS_COLUMN };
typedef struct Block {
  u64 touched; /* cells that were ever accessed */
  u64 fine;    /* cells with entries of their own */
  Cell *cell; /* BLOCK_CELLS, or NULL: no cell ever had */
  Span *more; /* all spans, once `span` has no room; of `capacity` */
  u32 n, capacity;
  Span span[BLOCK_SPANS];
} Block;

typedef struct Shadow {
  Cell *chain; /* blocks of chains, shared by all cells */
  u32 n_chain, cap_chain, free_chain;
} Shadow;

/* How two accesses of one word stand to each other. */
enum Verdict {
  APART = 0,     /* no conflict, or ordered */
  UNORDERED,     /* a race */
  BEHIND_PROXY,  /* ordered, but no proxy fence is on the way */
  UNSCOPED,      /* both strong, but their scopes do not include each other */
  /* tensor memory: ordered, but without tcgen05.fence ... */
  TENSOR_UNSENT,     /* ... ::before_thread_sync by the earlier thread */
  TENSOR_UNRECEIVED, /* ... ::after_thread_sync by the later one */
  /* a write of a tensor map, then a copy by the map, without a proxy fence that ... */
  MAP_UNRELEASED, /* ... releases the write */
  MAP_UNACQUIRED, /* ... acquires what was released, at the map's address */
  MAP_UNSCOPED,   /* ... reaches the other one's thread */
  UNREAD,         /* a source that may be read when its CTA is over */
  OUTLASTS,       /* an access, or a signal, that may come when the CTA is over */
  NOT_CONSTANT    /* a write, then in order a read that takes its bytes for constant */
};

/* Who accesses, for the judge. */
struct Detector;
typedef struct Accessor {
  Entry entry;             /* `bytes` is set for each cell */
  const Knowledge *known;  /* by the accessing lane or operation */
  u32 first_comp;          /* machine component of known's entry 0 */
  u32 async_plane;         /* plane in which an async access sees generic ones */
  u64 address;             /* of the cell, for the report */
  u32 count;               /* cells that are judged as one */
  u32 lanes;               /* that access, or 0 of an operation */
  u32 repeats;             /* it did again what another warp had done to the cell */
  u32 again;               /* ... or another lane, by this very instruction */
  u32 space;
} Accessor;

/* Judge the access against the cell and record it there. */
void shadow_access(struct Detector *d, Cell *cell, Accessor *a, u32 bytes);
/* Only record an entry, and only judge against one: whether the access stands for it. */
void shadow_keep(struct Detector *d, Cell *cell, const Entry *e, u32 bytes);
int shadow_stands(struct Detector *d, const Accessor *a, const Entry *e, u32 bytes);
void shadow_free(Shadow *s);

/* --- blocks.c -------------------------------------------------------------------- */
/* An operation accesses whole cells of the block whose first cell is at `first`. */
void block_access(struct Detector *d, Block *b, Accessor *a, u64 first, u64 cells);
/* A lane accesses bytes of one cell, or an operation a part of it; a->address is set. */
void block_part(struct Detector *d, Block *b, Accessor *a, u32 at, u32 bytes);
/* The entries of one cell; NULL without memory. */
const Cell *block_cell(struct Detector *d, Block *b, u32 at);
void block_free(Block *b);

#endif
