/* Bulk async-groups of a thread, as a pure step function (PTX ISA,
 * "cp.async.bulk.commit_group", "cp.async.bulk.wait_group").
 *
 * Groups are numbered in the order of their commits; operations issued since the last
 * commit belong to the group that the next one closes. The whole state of a thread is
 * how many groups it has committed.
 */
#ifndef SIDESTREAM_BULK_GROUP_H
#define SIDESTREAM_BULK_GROUP_H

#include "core.h"

enum BulkGroupOp {
  BULK_GROUP_ISSUE = 0, /* value: the group that the operation joins */
  BULK_GROUP_COMMIT,    /* value: the group that was closed */
  BULK_GROUP_WAIT       /* arg = N, group = an unfinished operation's: value 1 = wait */
};

typedef struct BulkGroupResult {
  u32 committed, value;
} BulkGroupResult;

static inline BulkGroupResult bulk_group_step(u32 committed, u32 op, u32 arg, u32 group) {
  BulkGroupResult r = {committed, committed};
  if (op == BULK_GROUP_COMMIT) {
    r.committed++;
  } else if (op == BULK_GROUP_WAIT) {
    /* the N newest committed groups, and what is not committed, may be pending */
    r.value = (u64)group + arg < committed;
  }
  return r;
}

#endif
