/* The race detector: events of a launch in, pairs of accesses that nothing orders out.
 *
 * It knows no instruction and no machine, only who did what to whom; `observer.c`
 * translates. Slots are places for CTAs; `cluster` of them in a row are a group.
 */
#ifndef SIDESTREAM_DETECTOR_H
#define SIDESTREAM_DETECTOR_H

#include "agents.h"
#include "grids.h"
#include "shadow.h"

enum RaceSpace { RACE_SHARED = 1, RACE_GLOBAL, RACE_TENSOR };
enum Profile { PROFILE_PRACTICE = 0, PROFILE_ISA };
/* Relaxations of the practice profile, each counted where it decided something. */
enum Relaxation {
  RELAX_PEER_ARRIVE = 0, /* an arrival at a peer's mbarrier with a .cta scope on a side */
  RELAX_READ_PROXY,      /* a generic read, then an async write, without a proxy fence */
  RELAX_TENSOR_HANDOFF,  /* tensor memory handed over without a pair of tcgen05 fences */
  RELAX_ISSUE_ORDER,     /* multiplications of one thread with unlike accumulators */
  RELAX_LOAD_USED,       /* a tcgen05.ld without wait::ld, whose registers were used */
  RELAX_LANES_MET,       /* a read of shared memory before its warp met and another lane told */
  RELAX_SAME_VALUE,      /* several warps or lanes store the same twice */
  RELAX_PEER_EXIT,       /* a CTA exits, and an arrival of a peer may still come */
  RELAX_OVER,            /* over, but handed on by a copy's completion or relaxed */
  RELAXATIONS
};

/* One pair of places, and how often they met. */
typedef struct Race {
  u32 space, verdict;
  u32 pc[2];         /* earlier, later access */
  u32 comp[2], lane[2], flags[2];
  u32 clock[2];
  u32 cta[2];        /* linear ids; NO_CTA of one that had the slot before */
  u32 handed_pc;     /* first hand-over by the earlier warp since, or NO_PC */
  u32 learned_pc;    /* last instruction by which the later warp learned, or NO_PC */
  u32 known;         /* clock up to which the later agent knows the earlier one */
  u32 over;          /* enum Over: what would have to be complete first */
  u32 by[2];         /* of operations: 1 + component that issued it, 0: not known */
  u32 by_lanes[2];   /* and its lanes, 0: the warp as a whole */
  u64 address, count;
} Race;
#define NO_CTA 0xffffffffu
/* Of two accesses, the operation that the other side knows to have been issued. */
enum Over { OVER_NEITHER = 0, OVER_EARLIER, OVER_LATER };
/* Pairs of places: unrolled code that misses one fence has thousands. */
enum { MAX_RACES = 1 << 16, MAX_BARRIERS = 256, NAMED_BARRIERS = 16 };

/* Found by space, verdict and places: `slot` is a hash table of 1 + indices. */
typedef struct RaceTable {
  Race *at;
  u32 *slot;
  u32 n, capacity;
  u64 dropped; /* pairs that found no room */
} RaceTable;

/* What arrivals hand to those who wait, by how far it reaches. */
enum Reach { REACH_OWN = 0, REACH_CLUSTER, REACH_NARROW, REACHES };
/* Arrivals from other CTAs that no wait has seen yet. */
typedef struct Signals {
  Entry *at;
  u32 n, capacity;
} Signals;
typedef struct BarrierAgent {
  u32 address; /* 0 = free */
  Signals signals;
  Knowledge *current[REACHES], *complete[REACHES];
  u8 in_current[REACHES], in_complete[REACHES];
  Entry init; /* who initialised it */
  u32 published; /* number of the barrier.cluster behind its fence, 0 = not fenced */
} BarrierAgent;

/* A load of tensor memory: the instruction's number, and the number of the warp's first
 * use of a register that it loads; 0: none yet. */
typedef struct Load {
  u32 clock, number, used;
} Load;
enum { LOADS = 128 };
#define NEVER 0xffffffffu

/* What a warp does in tensor memory: loads, stores, and a pipe for what its threads give
 * to the tensor core. Each is a component; `known` is by what was issued to the pipe. */
enum PipeKind { PIPE_CORE = 0, PIPE_LOAD, PIPE_STORE, PIPES };
typedef struct PipeAgent {
  u32 clock[PIPES], by_lane[LANES]; /* by_lane: of what a lane gave the core last */
  Load load[LOADS]; /* by clock */
  u32 uses; /* of loads */
  u32 over, over_by[LOADS]; /* clock up to which all loads are over; after which use */
  Knowledge *known;
} PipeAgent;

/* What the tensor core is given. The entries of multiplications tell shape, kind and
 * accumulator apart by `lane`, from FORM_FIRST on and without ANY_LANE; past FORMS of
 * them in one launch they look alike, which can only hide a race. */
enum Form { FORM_COPY = 1, FORM_SMALL_COPY, FORM_SHIFT, FORM_FIRST, FORMS = 63 - FORM_FIRST };

/* Who issued an operation, at which clock of its own, and by which lane. */
typedef struct Issue {
  u32 comp, clock, by, at, lane;
  u32 lanes;       /* that issued it; 0: the warp as a whole */
  u32 task;        /* of a bulk store, as its EngineAgent has it */
} Issue;
enum { ISSUES = 128 };

typedef struct CtaAgent {
  u32 linear;       /* its id in the grid */
  u32 born;         /* clocks of its components below this are of an earlier CTA */
  WarpAgent *warp;
  u32 engine_clock[ENGINES];
  u8 engine_busy[ENGINES];
  PipeAgent *pipe; /* of every warp */
  u32 next_engine;
  Knowledge *freed; /* by tcgen05.dealloc */
  /* [column][16 lanes], a bit a lane; bytes. Left as they are by the CTA before: its
   * clocks are of the past. */
  Block *tmem, *smem;
  BarrierAgent barrier[MAX_BARRIERS];
  u32 n_barriers;
  Issue issue[ISSUES]; /* the latest, where they hash to */
  Knowledge *named[NAMED_BARRIERS], *named_done[NAMED_BARRIERS];
} CtaAgent;

/* What lanes of a warp learnt of group `about` at a clock; `pending`: they have not
 * fenced it yet. `everyone`: taken to be known to all, for want of room. */
typedef struct News {
  u32 by, clock, lanes, about;
  u32 pending, everyone;
  Knowledge *known;
} News;

typedef struct GroupAgent {
  Knowledge *cluster, *cluster_done;
  u32 rounds; /* of barrier.cluster that are complete */
  News *news;
  u32 n_news, cap_news;
} GroupAgent;

/* A proxy fence of tensor maps by lanes that knew the same, or by way of exception the
 * copy that is judged. `born` of the CTAs of its cluster, `heard`: news of others. */
enum { MAP_RELEASE = 0, MAP_ACQUIRE, MAX_CLUSTER = 16 };
typedef struct MapFence {
  u32 comp, clock, lanes, within, heard;
  u32 born[MAX_CLUSTER];
  u64 address; /* of the map that an acquire names */
  Knowledge *known;
} MapFence;
typedef struct MapFences {
  MapFence *at;
  u32 n, cap;
} MapFences;

typedef struct Page Page;
typedef struct Location Location;

typedef struct Detector {
  u32 n_slots, cluster, warps, profile;
  u32 per_cta, per_group; /* components */
  u32 rows;               /* of knowledge: TENSOR_ROWS or 0 */
  u32 form[FORMS], n_forms;
  u64 smem_blocks;
  CtaAgent *cta;
  GroupAgent *group;
  EngineAgent **engine; /* in flight or kept, by id - 1 */
  u32 n_engines, free_engine;
  Shadow shadow;
  Page **page;
  u32 n_pages, cap_pages;
  Location **location; /* buckets */
  MapFences map_fence[2]; /* MAP_RELEASE, MAP_ACQUIRE */
  Grids grids;
  Knowledge *scratch;
  RaceTable races, crossed; /* crossed: with the launch in front */
  u64 lost; /* accesses that found no memory */
  u64 relaxed[RELAXATIONS];
  u64 digest;       /* of what was known at every access, in order */
  u32 keep_digest;
} Detector;

/* --- stores.c --- */
/* `practice`: lanes that have parted do the same bulk store, each for itself. */
int same_store(Detector *d, const Accessor *a, const Entry *e);

/* The warp of an access, or NULL if an operation made it. */
WarpAgent *detector_reader(const Detector *d, const Entry *e);
/* Component of a CTA of pipe `kind` of a warp. */
static inline u32 detector_pipe_comp(const Detector *d, u32 kind, u32 warp) {
  return d->warps + ENGINES + kind * d->warps + warp;
}
/* Where the issue of an operation, by its component and clock, is remembered. */
static inline Issue *detector_issued(Detector *d, u32 comp, u32 clock) {
  return &d->cta[comp / d->per_cta].issue[(comp * 31u + clock) % ISSUES];
}
static inline int detector_is_tensor(const Detector *d, u32 comp) {
  return comp % d->per_cta >= d->warps + ENGINES;
}
static inline u32 detector_cta_of(const Detector *d, u32 comp) { return comp / d->per_cta; }
static inline u32 detector_group_of(const Detector *d, u32 comp) { return comp / d->per_group; }
static inline u32 detector_born(const Detector *d, u32 comp) {
  return d->cta[comp / d->per_cta].born;
}

static inline u32 detector_pipe_warp(const Detector *d, u32 comp) {
  return (comp % d->per_cta - d->warps - ENGINES) % d->warps;
}

/* --- tensor.c ------------------------------------------------------------------ */
/* For the digest: up to which clock the loads of component c are known to be over because
 * their registers were used, where the profile lets that count. */
u32 tensor_over(const Detector *d, u32 group, const Knowledge *k, u32 c);
/* Keeps what of `k` is about tensor memory: PTX ISA, Specialized Inter-thread
 * Synchronization for tcgen05 instructions: what orders execution hands it over, relaxed
 * operations included. */
void tensor_only(const Detector *d, Knowledge *k);
/* How an access to tensor memory stands to an entry there (enum Verdict). */
u32 tensor_order(Detector *d, const Accessor *a, const Entry *e);

/* --- over.c --------------------------------------------------------------------- */
/* At the issue of an operation: what its issuer knows to be over. */
void over_issued(const Detector *d, u32 id);
/* Into what its completion at an mbarrier hands over. */
void over_completed(const EngineAgent *e, Knowledge *handed);
/* Keeps what of `k`, by warp `own` of a group or by several, a relaxed arrival or wait
 * hands over: what is about tensor memory, and what is over. */
void over_only(const Detector *d, u32 group, Knowledge *k, u32 own);
#define NO_WARP 0xffffffffu
/* Whether an accessor that nothing orders behind an entry knows it to be over. */
u32 known_over(Detector *d, const Accessor *a, const Entry *e);

/* --- exits.c -------------------------------------------------------------------- */
void signal_note(Detector *d, BarrierAgent *b, const Entry *e);
void signal_phase(BarrierAgent *b);
void signal_waited(BarrierAgent *b);

/* --- report.c ------------------------------------------------------------------ */
void detector_report(Detector *d, const Accessor *a, const Entry *e, u32 verdict);
/* The race between two places, new if its `count` is 0; NULL without room. */
Race *races_find(RaceTable *t, u32 space, u32 verdict, u32 first, u32 second);
void races_free(RaceTable *t);
/* The same for an access of another cluster, or of a CTA that had the slot before:
 * APART if it is known in `plane` through global memory, BEHIND_PROXY if otherwise. */
void news_clear(GroupAgent *g);
/* A fence that reaches beyond the cluster. */
void news_fence(Detector *d, u32 slot, u32 warp, u32 lanes);
/* Whether an agent at `clock` of component comp of its group is behind the news; in a
 * plane of the async proxy: behind a proxy fence after them. */
int news_behind(const News *n, const Knowledge *known, u32 plane, u32 comp, u32 clock,
                u32 lanes);
/* Whether something was released at a word of a cell's bytes. */
int location_in(const Detector *d, u64 cell, u32 bytes);
/* The cell of the bytes at a multiple of CELL_BYTES if they were ever accessed. */
const Cell *global_seen(Detector *d, u64 address);
u32 detector_foreign(const Detector *d, const Accessor *a, const Entry *e, u32 plane);
/* A write of a tensor map that comes before a copy by it: APART behind a pair of proxy
 * fences, else what is missing. */
u32 detector_map_order(Detector *d, const Accessor *a, const Entry *e);
/* Whether an acquiring proxy fence of the map comes before the copy, with a scope that
 * reaches beyond the cluster. */
int detector_map_acquired(Detector *d, const Accessor *a);
/* What a later, or an earlier, launch may race with (grids.h): `bytes` of the cell at. */
void detector_note_early(Detector *d, const Accessor *a, u64 at, u32 bytes);
#endif
