/* What of a launch another launch of its stream may race with.
 *
 * PTX ISA, griddepcontrol; CUDA, Programmatic Dependent Launch and Synchronization. A
 * dependent grid may start before the one that it depends on has completed. Ordered
 * after all of that one is what comes after a griddepcontrol.wait, and after the part
 * that a fence had released before the CTA first executed launch_dependents comes the
 * whole dependent grid. All else of the dependent grid is early.
 */
#ifndef SIDESTREAM_GRIDS_H
#define SIDESTREAM_GRIDS_H

#include "shadow.h"

enum { EARLY_BUCKETS = 4096, MOST_EARLY = 1 << 20 };
enum EarlyKind {
  EARLY_ACCESS = 0, /* of a dependent grid, before its wait */
  EARLY_MAP         /* a copy by a tensor map that this grid has not acquired */
};
typedef struct Early {
  u64 cell; /* address / CELL_BYTES */
  u32 kind, next;
  Entry entry;
} Early;

/* What fences of a cluster had released when a CTA of it let dependents start. */
typedef struct Launched {
  u32 group, born[16];
  Knowledge *known;
} Launched;

typedef struct Grids {
  u32 dependent; /* the launch may start before the one before it has completed */
  u32 waits;     /* warps that have executed griddepcontrol.wait */
  u32 untimely;  /* CTAs that let dependents start without having waited themselves */
  Early *early;
  u32 n_early, cap_early, bucket[EARLY_BUCKETS];
  Launched *launched;
  u32 n_launched, cap_launched;
} Grids;

#endif
