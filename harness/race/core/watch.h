/* The observer that tells the detector, and what it is told about the code. */
#ifndef SIDESTREAM_WATCH_H
#define SIDESTREAM_WATCH_H

#include "events.h"
#include "mbarrier.h"
#include "observer.h"

enum Sem { SEM_WEAK = 0, SEM_RELAXED, SEM_ACQUIRE, SEM_RELEASE, SEM_ACQ_REL };
enum FenceKind { FENCE_NONE = 0, FENCE_MEMORY, FENCE_ASYNC, FENCE_ASYNC_SHARED, FENCE_ASYNC_GLOBAL,
                 FENCE_TENSOR_BEFORE, FENCE_INIT,
                 FENCE_MAP_RELEASE, FENCE_MAP_ACQUIRE, FENCE_MAP_COPY, FENCE_TENSOR_AFTER };

/* What the text says of one bytecode row; written by race/notes.py. */
typedef struct Note {
  u8 sem, scope, fence;
  u8 weak; /* 1: it orders nothing, as if it were not there */
  u8 red;  /* 1: a reduction, which reads for nobody */
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
} Watch;

#endif
