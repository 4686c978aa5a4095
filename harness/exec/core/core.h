/* The virtual GPU's execution core: data layout shared by all instruction families.
 *
 * A warp owns a register file in which every virtual register is a row of 32 lanes:
 *   predicate           one uint32_t, bit l = lane l
 *   8, 16, 32 bit       uint32_t[32]; narrower values are kept zero-extended
 *   64 bit              uint64_t[32]
 *   128 bit             uint64_t[2][32], low halves first
 * An operand reference is a byte offset into the register file (>= 0), or the
 * complement of a byte offset into the constant pool (< 0), which all warps share.
 */
#ifndef SIDESTREAM_CORE_H
#define SIDESTREAM_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 32
#define FULL 0xffffffffu
#define NOREF INT32_MIN
#define MAX_WARPS 32 /* warps of a CTA: 1024 threads */
#define SMEM_BASE 1024u /* shared memory that the driver reserves, as on SM90+ */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

typedef struct Warp Warp;
typedef struct Cta Cta;
typedef struct Machine Machine;
typedef struct Insn Insn;
typedef struct Observer Observer; /* observer.h */

/* What a handler tells the interpreter loop. */
enum Step {
  STEP_NEXT = 0, /* done: go to pc + 1 */
  STEP_JUMP,     /* done: the handler set the warp's pc or paths */
  STEP_BLOCK,    /* not executed: try again later, let others run */
  STEP_YIELD,    /* done, go to pc + 1, and let others run */
  STEP_STOP      /* the launch cannot go on; machine->status says why */
};

typedef int (*OpFn)(Warp *w, const Insn *i, u32 m);

/* One bytecode instruction. The Python side fills everything except `fn`. */
struct Insn {
  OpFn fn;      /* set by the linker in machine.c from `op` */
  u32 op;       /* index into the table of operations */
  s32 guard;    /* predicate row, or NOREF */
  u32 guard_neg; /* 1 for @!p */
  s32 d, a, b, c; /* operand references */
  s32 x[4];     /* small immediates, or further operand references */
  s32 ext;      /* first index into machine->ext (operand references of vectors) */
  s32 n_ext;    /* how many */
  s32 pad;
  s64 imm;      /* address offset, branch target, wide immediate */
};

/* A global-memory allocation as the kernel may see it, sorted by va. */
typedef struct Alloc {
  u64 va, size;
  u8 *host; /* where the bytes really are; NULL once freed */
  u8 *init; /* one byte per byte, 1 = written; NULL = everything initialised */
  u32 id;
  u32 flags;
} Alloc;
enum { ALLOC_READ = 1, ALLOC_WRITE = 2, ALLOC_FREED = 4 };

enum FaultKind {
  FAULT_OOB_READ = 1,
  FAULT_OOB_WRITE,
  FAULT_MISALIGNED,
  FAULT_FREED,
  FAULT_READONLY,
  FAULT_UNINIT,
  FAULT_SMEM_OOB,
  FAULT_SMEM_MISALIGNED,
  FAULT_LOCAL_OOB,
  FAULT_PARAM_OOB,
  FAULT_MBARRIER,      /* info = MbarError */
  FAULT_NAMED_BARRIER, /* info = barrier error */
  FAULT_TENSORMAP,     /* info = which field */
  FAULT_BULK,          /* bulk copy size or alignment */
  FAULT_SETMAXNREG,
  FAULT_TRAP,          /* trap executed */
  FAULT_ILLEGAL,       /* operand value an instruction does not allow; info says */
  FAULT_TMEM_ALLOC,    /* tensor memory allocation; info = enum TmemError */
  FAULT_TMEM,          /* tensor memory access; info = enum TmemError */
  FAULT_TCGEN05,       /* descriptor, operand or issue; info = enum Tcgen05Error */
  FAULT_CLUSTER,       /* use of another CTA; info = enum ClusterError */
  FAULT_CLC,           /* cluster launch control; info = enum ClcError */
  FAULT_TMEM_UNINIT    /* a read of tensor memory that nothing wrote */
};

/* One folded defect: first occurrence and how often it came again. */
typedef struct Fault {
  u32 kind, pc;
  u32 cta[3];
  u32 warp, lane; /* NO_LANE: the warp as a whole */
  u32 alloc;      /* nearest allocation id, or ~0 */
  u32 engine;     /* enum AsyncKind of the operation that did it, not the warp itself */
  u32 pad;
  u64 addr, size, info, count;
} Fault;
#define NO_LANE 0xffffffffu
#define MAX_FAULTS 256

enum Status {
  ST_RUNNING = 0,
  ST_DONE,
  ST_STEPS,       /* the slice ended; call again */
  ST_BUDGET,      /* warp-instruction budget spent */
  ST_DEADLOCK,
  ST_UNSUPPORTED, /* stop_pc names the instruction */
  ST_TRAP,
  ST_DIVERGENT_SYNC, /* lanes wait in different .sync instructions for each other */
  ST_INTERNAL
};

/* Why a warp's current path is blocked; kept for the deadlock report. */
enum BlockKind {
  BLOCK_NONE = 0,
  BLOCK_MBARRIER,  /* addr = barrier, info = phase parity waited for */
  BLOCK_BARRIER,   /* addr = named barrier id, info = expected threads */
  BLOCK_WARP_SYNC, /* addr = member mask, info = lanes here */
  BLOCK_ASYNC,     /* bulk or cp.async group wait; info = groups outstanding */
  BLOCK_CLUSTER,
  BLOCK_SETMAXNREG,
  BLOCK_OTHER,
  BLOCK_TMEM_ALLOC, /* info = columns asked for */
  BLOCK_TCGEN05,    /* tcgen05.wait, or the first use of a loaded register */
  BLOCK_GRID        /* griddepcontrol.wait */
};

typedef struct Barrier { /* named barrier of a CTA */
  u32 expected; /* threads, 0 when idle */
  u32 arrived;
  u32 generation;
  u32 kind;     /* 1 once a barrier.red, 2 once a sync or arrive took part */
  u32 open;     /* no thread count was given: exited warps are not waited for */
  u32 trues, falses; /* predicates of barrier.red so far */
} Barrier;

typedef struct ClusterBarrier { /* barrier.cluster; in the cluster's rank 0 */
  u32 live;    /* threads of the cluster that have not exited */
  u32 arrived; /* of them, in this phase */
  u64 phase;
} ClusterBarrier;

typedef struct GridState { /* programmatic dependent launch; see dependent.h */
  u32 ctas;    /* of the grid */
  u32 ready;   /* that have let dependents start, or are over */
  u32 pending; /* 1: a prerequisite grid has not completed */
} GridState;

struct Cta {
  Machine *m;
  u32 slot;       /* index in machine->ctas */
  u32 id[3];      /* %ctaid */
  u32 linear;
  u32 rank;       /* in its cluster */
  u32 first_slot; /* slot of the cluster's rank 0 */
  u32 live_warps; /* 0: the slot is free */
  u8 *smem;       /* smem_size bytes, address SMEM_BASE is smem[0] */
  u8 *mbar_live;  /* per 8 bytes of smem: an initialised mbarrier lies there */
  u32 *tmem;      /* tensor memory, [column][lane] (tmem.h), or NULL */
  struct TmemState *tmem_state;
  Barrier bar[16];
  u32 pending_async; /* operations in flight that read or write this CTA's smem */
  u32 regs_pool;  /* registers released by setmaxnreg.dec, in registers x warps */
  ClusterBarrier cluster_bar;
  u32 dependents_counted; /* it has let dependent grids start, or has exited */
  u32 clc_closed, clc_failed; /* clc.h; closed counts in the cluster's rank 0 */
  struct Ledger *ledger; /* ledger.h */
};

typedef struct PathWait { /* what a path of a warp waits for */
  u32 pc, kind;
  u64 addr, info;
} PathWait;

struct Warp {
  u8 *rf;
  const u8 *consts;
  u32 pc, mask; /* the current path */
  u32 limit;    /* lowest pc > pc of the other runnable paths: merge or switch there */
  u32 live;     /* lanes that have not exited */
  u32 initial;  /* lanes that exist */
  u32 n_paths;  /* others, below */
  u32 path_pc[LANES], path_mask[LANES];
  u8 path_stalled[LANES];
  Cta *cta;
  Machine *m;
  u32 id;    /* warp of the CTA */
  u32 index; /* warp of the machine */
  u32 done;
  u32 block_kind;
  PathWait blocks[LANES]; /* the last of each path, by its first lane */
  /* two-phase instructions: the barrier generation a blocked path waits for */
  u32 wait_active[LANES]; /* per lane: 1 + barrier id while inside bar.sync */
  u32 wait_gen[LANES];
  u32 bar_lanes[16]; /* lanes that arrived while their warp's others had not */
  u32 bar_trues[16], bar_falses[16]; /* their barrier.red predicates */
  u32 bar_red[LANES]; /* result of the barrier.red that released the lane */
  u32 timeout_seen; /* machine->timeout_epoch when the path began to wait */
  u32 cc;   /* carry flag, one bit per lane */
  u32 nreg; /* registers per thread after setmaxnreg */
  u32 nreg_set; /* it was executed: until then nreg is what launch bounds leave room for */
  u32 nreg_times, nreg_pc; /* executions of setmaxnreg, and where the last one was */
  u64 executed;
  const void *storing; /* the bytes that a store is about to write, lane by lane, or NULL */
  /* per lane group counters of cp.async and cp.async.bulk (see async.c) */
  u32 cpa_committed[LANES], bulk_committed[LANES];
  u64 cluster_lane[LANES]; /* 1 + phase of barrier.cluster arrived at, not waited */
  u32 tmem_loads, tmem_stores; /* tcgen05.ld and .st in flight */
  u64 tc_fence; /* tcgen05 operations numbered below it land before later ones */
  u64 tc_own;   /* the same for those that this warp issued itself */
  u8 *local; /* local_bytes per lane */
};

/* An operation in flight: executed when the scheduler lets it land. */
typedef struct Async Async;
typedef void (*LandFn)(Machine *m, Async *op);
/* Whether nothing that is still in flight has to land before `op`. The oldest
 * operation in flight must always be ready. */
typedef int (*ReadyFn)(const Machine *m, const Async *op);
struct Async {
  LandFn land;
  ReadyFn ready; /* NULL: whenever the scheduler likes */
  const Insn *insn;
  Warp *warp;
  Cta *cta;
  u32 kind;  /* enum AsyncKind */
  u32 lane;  /* issuing lane, for per-thread groups */
  u32 mask;
  u32 group; /* group the operation belongs to */
  u32 element; /* bytes of what it reduces one by one, else 0 */
  u64 seq;
  u64 arg[24];
  u64 lanes[LANES][2]; /* per-lane addresses (cp.async) */
  u8 *data;            /* bytes read and not yet written; freed with the operation */
  u64 work;            /* flops or bytes, and how many units share them */
  u32 units;
  u32 agent, timed;    /* names that the race detector and the cost model give it */
};
enum AsyncKind {
  ASYNC_CP = 1,
  ASYNC_BULK_LOAD,
  ASYNC_BULK_STORE, /* shared memory not read yet */
  ASYNC_OTHER,
  ASYNC_BULK_WRITE, /* the second half of a bulk store: global memory not written yet */
  ASYNC_TMEM_LD,    /* tcgen05.ld: registers not written yet */
  ASYNC_TMEM_ST,    /* tcgen05.st: tensor memory not written yet */
  ASYNC_TC_MMA,     /* tcgen05.mma */
  ASYNC_TC_CP,      /* tcgen05.cp */
  ASYNC_TC_SHIFT,   /* tcgen05.shift */
  ASYNC_TC_COMMIT,  /* tcgen05.commit: the arrival it makes once what it tracks landed */
  ASYNC_CLC,        /* clusterlaunchcontrol.try_cancel */
  ASYNC_CP_ARRIVE   /* cp.async.mbarrier.arrive */
};

struct Machine {
  Insn *code;
  u32 n_code;
  const s32 *ext;
  u32 n_ext;
  const u8 *consts;
  u32 n_consts;
  u32 rf_bytes;
  const u8 *params;
  u32 n_params;
  u32 grid[3], block[3], cluster[3];
  u32 cluster_size, n_ctas; /* CTAs of the grid */
  u32 next_cta;
  u32 live_ctas, max_ctas; /* now, and at most */
  u32 held; /* 1: CTAs are left that max_ctas keeps from starting */
  GridState dependency;
  u32 smem_size; /* static + dynamic bytes of a CTA, without SMEM_BASE */
  u32 local_bytes;
  u32 n_slots, warps_per_cta;
  Cta *ctas;
  Warp *warps; /* n_slots * warps_per_cta */
  u32 n_warps, live_warps;
  Alloc *allocs;
  u32 n_allocs;
  u32 *alloc_hint; /* per pc: allocation of the last access */
  u64 *counts;     /* per pc: executed warp instructions */
  struct Ledger *ledgers; /* of each slot */
  Async **queue;
  u32 n_queue, cap_queue;
  Async *free_list;
  u64 async_seq;
  u64 seed, rng;
  u32 quantum;
  u32 smem_fill, reg_fill, tmem_fill;
  u32 arch;          /* 90, 100, 120: numerics and limits that differ */
  u32 isa_order;     /* 1: only the order that the tcgen05 pipelines promise */
  u32 tmem_check;    /* 1: a read of tensor memory that nothing wrote is a fault */
  u32 n_sms;
  u64 budget, executed;
  u64 progress;      /* counts everything that can unblock someone */
  u32 timeout_epoch; /* raised when all is blocked: try_wait may then return false */
  u32 status, stop_pc;
  u32 rr; /* round-robin position */
  u32 regs_per_thread;
  u64 mma_flops, tma_bytes;
  Fault faults[MAX_FAULTS];
  u32 n_faults;
  u64 dropped_faults;
  u64 unfinished; /* mbarriers that exiting CTAs left in the middle of a phase */
  struct Schedule *schedule; /* schedule.h; NULL with seed 0 */
  const Observer *const *observer; /* those who watch, then NULL; or NULL */
  u32 stepped; /* 1: one of them is told of each instruction */
  const Async *landing;     /* the operation that lands now, or NULL */
  void *memory; /* the one block behind rf, smem and local */
};

/* --- operands ---------------------------------------------------------------- */
static inline void *row(const Warp *w, s32 ref) {
  return ref >= 0 ? (void *)(w->rf + ref) : (void *)(w->consts + ~ref);
}
#define R32(ref) ((u32 *)row(w, (ref)))
#define RS32(ref) ((s32 *)row(w, (ref)))
#define RF32(ref) ((f32 *)row(w, (ref)))
#define R64(ref) ((u64 *)row(w, (ref)))
#define RS64(ref) ((s64 *)row(w, (ref)))
#define RF64(ref) ((f64 *)row(w, (ref)))
#define RP(ref) (*(u32 *)row(w, (ref)))

static inline int lane_on(u32 m, int l) { return (m >> l) & 1u; }

/* d[l] = expr for active lanes. The destination may be the very row of a source:
 * lane l only ever reads lane l, so the vectoriser may ignore the overlap. */
#define LANE_LOOP(T, dst, expr)                                                   \
  do {                                                                            \
    T *restrict_d = (dst);                                                        \
    if (m == FULL) {                                                              \
      _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++) restrict_d[l] = (expr); \
    } else {                                                                      \
      _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++) {                       \
        T lane_v = (expr);                                                        \
        restrict_d[l] = ((m >> l) & 1u) ? lane_v : restrict_d[l];                  \
      }                                                                           \
    }                                                                             \
    return STEP_NEXT;                                                             \
  } while (0)

/* Predicate destination: bit l of mask expression for active lanes. */
static inline void set_pred(Warp *w, s32 ref, u32 bits, u32 m) {
  if (ref == NOREF) return;
  u32 *p = (u32 *)row(w, ref);
  *p = (*p & ~m) | (bits & m);
}

/* --- the table of operations ------------------------------------------------- */
typedef struct OpEntry {
  const char *name;
  OpFn fn;
} OpEntry;
/* Each family file defines `const OpEntry ops_<family>[]` ended by {0, 0}. */

/* --- residency.c -------------------------------------------------------------- */
/* %ctaid of the CTA of rank `rank` in the grid's cluster number `cluster`. */
void cta_coordinates(const Machine *m, u32 cluster, u32 rank, u32 *id);
/* Start clusters where slots are free; `must`: all that fit. */
void start_ctas(Machine *m, int must);
/* A warp has no lanes left. */
void finish_warp(Machine *m, Warp *w);

/* --- machine.c ---------------------------------------------------------------- */
u64 next_random(Machine *m);
int stop_launch(Warp *w, const Insn *i, u32 status);
static inline u32 pc_of(const Machine *m, const Insn *i) { return (u32)(i - m->code); }
void block_on(Warp *w, u32 kind, u64 addr, u64 info);

/* --- fault.c ------------------------------------------------------------------ */
/* Record a defect; the launch goes on so that one run tells more than one. */
void fault(Warp *w, const Insn *i, u32 lane, u32 kind, u64 addr, u64 size, u64 info);
void fault_at(Machine *m, const Insn *i, const Cta *c, u32 warp, u32 lane, u32 kind,
              u64 addr, u64 size, u64 info);

/* --- gmem.c ------------------------------------------------------------------- */
/* ACCESS_MAP: for an observer, a copy's unit reads its tensor map. */
/* ACCESS_TRIED: an atomic that found another value than it compares, this time. */
enum Access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ATOMIC = 3, ACCESS_MAP = 5, ACCESS_TRIED = 11 };
/* Host pointer for [va, va + size) or NULL after recording the fault. Checks bounds,
 * liveness, permission and, for reads, initialisation; a write marks initialised.
 * `align` of 0 skips the alignment check. */
u8 *gmem(Warp *w, const Insn *i, u32 lane, u64 va, u32 size, u32 align, u32 access);
/* The same for an asynchronous operation that has no running warp. */
u8 *gmem_async(Machine *m, const Insn *i, const Cta *c, u32 warp, u32 lane, u64 va,
               u64 size, u32 align, u32 access);
/* Allocation that wholly holds [lo, hi) for `access` with no init tracking needed,
 * or NULL: the fast path of a whole warp. */
const Alloc *gmem_span(Machine *m, const Insn *i, u64 lo, u64 hi, u32 access);
/* The same, but the caller heeds `init` where there is one. */
const Alloc *gmem_tracked_span(Machine *m, const Insn *i, u64 lo, u64 hi, u32 access);

/* --- smem.c ------------------------------------------------------------------- */
/* Host pointer for a shared::cta or shared::cluster address (rank << 24 | offset),
 * or NULL after recording the fault. */
u8 *smem(Warp *w, const Insn *i, u32 lane, u32 addr, u32 size, u32 align);
/* CTA of the warp's cluster that a shared address names, or NULL. */
Cta *smem_cta(const Cta *c, u32 addr);
/* Plain bounds-checked pointer for asynchronous operations; NULL if out of range. */
u8 *smem_ptr(Cta *c, u32 addr, u64 size);

/* Whether the shared memory at `addr`, another CTA's than `c`, is gone: that CTA has
 * exited. */
int smem_gone(const Cta *c, u32 addr);

/* --- generic addresses -------------------------------------------------------- */
/* The top byte tells the window; global memory is the plain address. */
#define WINDOW_SHIFT 60
#define WINDOW_SHARED 1ull
#define WINDOW_LOCAL 2ull
#define WINDOW_PARAM 3ull
enum Space {
  SPACE_GENERIC = 0, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM,
  SPACE_CLUSTER /* .shared::cluster; SPACE_SHARED is the CTA's own */
};
/* Resolve one lane's address in `space` to a host pointer (faults recorded). */
u8 *resolve(Warp *w, const Insn *i, u32 lane, u32 space, u64 addr, u32 size, u32 align,
            u32 access);

/* --- async.c ------------------------------------------------------------------ */
Async *async_new(Warp *w, const Insn *i, u32 kind, LandFn land);
void async_push(Machine *m, Async *op);
/* Land an operation that was never queued: its effects come with its issue. */
void async_land_at_once(Machine *m, Async *op);
/* Operations of `kind` still in flight that lane `lane` of `w` issued in groups
 * numbered at most `group`. */
u32 async_outstanding(const Warp *w, u32 kind, u32 lane, u32 group);
void async_land_one(Machine *m, u32 index);
/* Index of the first operation at or after `from` (cyclic) that may land now. */
u32 async_ready(const Machine *m, u32 from);
void async_land_cta(Machine *m, Cta *c);

/* --- setmaxnreg.c -------------------------------------------------------------- */
/* The CTA is over: every warp of a warpgroup has executed it as often as the others. */
void setmaxnreg_finish(Cta *c);

/* --- cluster.c ---------------------------------------------------------------- */
/* Lanes of a warp exit, for the barrier of its cluster. */
void cluster_exit(Warp *w, u32 lanes);

/* --- paths.c ------------------------------------------------------------------ */
void paths_init(Warp *w, u32 pc, u32 mask);
void paths_branch(Warp *w, u32 taken, u32 target); /* lanes `taken` go to target */
void paths_add(Warp *w, u32 pc, u32 mask);
int paths_pick(Warp *w);                           /* 0: none can run */
void paths_arrived(Warp *w);                       /* pc >= limit: merge or switch */
void paths_stall(Warp *w);                         /* the current path blocks */
void paths_wake(Warp *w);                          /* a new slice: all may try */
void paths_exit(Warp *w, u32 lanes);
/* Lanes of `need` that are alive but not in the current path: a .sync instruction
 * must wait while this is not 0. */
static inline u32 lanes_missing(const Warp *w, u32 need) {
  return need & w->live & ~w->mask;
}

#endif
