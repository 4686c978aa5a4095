/* The observer that tells the detector, and what it is told about the code. */
#ifndef SIDESTREAM_WATCH_H
#define SIDESTREAM_WATCH_H

#include "events.h"
#include "mbarrier.h"
#include "observer.h"
#include "unwritten.h"

enum Sem { SEM_WEAK = 0, SEM_RELAXED, SEM_ACQUIRE, SEM_RELEASE, SEM_ACQ_REL };
enum FenceKind { FENCE_NONE = 0, FENCE_MEMORY, FENCE_ASYNC, FENCE_ASYNC_SHARED, FENCE_ASYNC_GLOBAL,
                 FENCE_TENSOR_BEFORE, FENCE_INIT,
                 FENCE_MAP_RELEASE, FENCE_MAP_ACQUIRE, FENCE_MAP_COPY, FENCE_TENSOR_AFTER };

/* What the text says of one bytecode row; written by race/notes.py. */
typedef struct Note {
  u8 sem, scope, fence;
  u8 weak; /* 1: it orders nothing, as if it were not there */
  u8 red;  /* 1: a reduction, which reads for nobody */
  u8 unit; /* bytes of each operation that it stands for, 0: it is one */
  u8 constant; /* 1: it takes what it reads for constant (ld.global.nc) */
} Note;

/* An operation that someone may still wait for by its group. */
typedef struct Grouped {
  u32 agent, kind, group, lanes, pc;
  u64 seq;
} Grouped;
typedef struct GroupList {
  Grouped *at;
  u32 n, capacity;
} GroupList;

typedef struct Watch {
  Observer observer;
  Detector *detector;
  const Note *note;
  u32 n_notes;
  GroupList *list; /* of every warp of every slot */
  Written *written; /* bytes of shared memory, or NULL */
  Registers *registers; /* those that may be undefined, or NULL */
} Watch;

static inline Note note_of(const Watch *h, const Warp *w, const Insn *i) {
  u32 pc = pc_of(w->m, i);
  return pc < h->n_notes ? h->note[pc] : (Note){0};
}

/* The detector of a launch, told which instruction of the warp is at work. */
static inline Detector *told(Watch *h, const Warp *w) {
  detector_warp(h->detector, w->cta->slot, w->id)->pc = w->pc;
  return h->detector;
}

static inline int weak(const Watch *h, const Warp *w) {
  return w->pc < h->n_notes && h->note[w->pc].weak;
}

/* --- watch_groups.c ---------------------------------------------------------------- */
/* Whether an operation of this kind is waited for by its group, and keep one that is,
 * issued by `lanes`. */
int watch_grouped(u32 kind);
void watch_group(Watch *h, const Async *op, u32 lanes);
/* An arrival of cp.async at an mbarrier tracks the copies of its thread before it. */
void watch_copies_before(Watch *h, const Async *op, u32 pc, u32 memory, u32 at);
/* `over` and `groups` of the observer. */
void watch_finished(void *state, const Cta *c);
void watch_groups(void *state, const Warp *w, const Insn *i, u32 m, u32 kind, const u32 *end,
                  u32 reads);

#endif
