/* Bulk stores that lanes of one warp do over again. */
#include "detector.h"
#include "events.h"

static const Issue *issue_at(Detector *d, const Entry *e) {
  const Issue *i = detector_issued(d, e->comp, e->clock);
  return i->comp == e->comp && i->clock == e->clock && i->task ? i : NULL;
}

void detector_task(Detector *d, u32 id, u32 task) {
  EngineAgent *e = detector_engine(d, id);
  if (!e || !task) return;
  e->task = task;
  detector_issued(d, e->group * d->per_group + e->comp, e->clock)->task = task;
}

/* Where the lanes of a warp are together, the machine does one store for them; where they
 * have parted, each part does it. That is the same store again if it takes the same bytes
 * of shared memory to the same place, and nothing but lanes tells the two apart. A lane
 * that stores twice has to wait between. */
int same_store(Detector *d, const Accessor *a, const Entry *e) {
  const u32 kind = ENTRY_WRITE | ENTRY_ENGINE | ENTRY_ASYNC;
  if (a->space != RACE_GLOBAL || entry_flags(e) != kind || entry_flags(&a->entry) != kind ||
      e->pc != a->entry.pc || e->clock < detector_born(d, e->comp))
    return 0;
  const Issue *was = issue_at(d, e), *is = issue_at(d, &a->entry);
  return was && is && was->by == is->by && was->task == is->task && !(was->lanes & is->lanes);
}
