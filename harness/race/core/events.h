/* What can happen, as the detector is told. Slots, warps and lanes are those of the
 * virtual GPU; `pc` is a bytecode row. */
#ifndef SIDESTREAM_EVENTS_H
#define SIDESTREAM_EVENTS_H

#include "detector.h"

/* --- detector.c ------------------------------------------------------------------ */
Detector *detector_new(u32 slots, u32 cluster, u32 warps, u32 smem_bytes, u32 profile,
                       u32 tensor);
void detector_free(Detector *d);
void detector_cta(Detector *d, u32 slot, u32 threads, u32 linear);
void detector_exit(Detector *d, u32 slot, u32 warp, u32 lanes);
WarpAgent *detector_warp(Detector *d, u32 slot, u32 warp);
void detector_converge(Detector *d, u32 slot, u32 warp, u32 lanes);
/* Lanes meet at a .sync instruction that orders no memory. */
void detector_meet(Detector *d, u32 slot, u32 warp, u32 lanes);
void detector_fence_proxy(Detector *d, u32 slot, u32 warp, u32 lanes, u32 plane);
/* fence.mbarrier_init: initialisations by these lanes are published by the next barrier
 * of the cluster, even a relaxed one. */
void detector_fence_init(Detector *d, u32 slot, u32 warp, u32 lanes);
/* `acquires`, `releases`: what a fence with a .sem of one direction does not. */
void detector_fence(Detector *d, u32 slot, u32 warp, u32 lanes, u32 scope, u32 acquires,
                    u32 releases);
/* fence.proxy.tensormap::generic, which = MAP_RELEASE or MAP_ACQUIRE of the map at an
 * address. The caller lets the clock of the warp go on, once for all lanes. */
void detector_map_fence(Detector *d, u32 slot, u32 warp, u32 lanes, u32 which, u32 scope,
                        u64 address);
void map_fences_free(Detector *d);
/* The CTA of a warp is over, and nobody knows that operation `id` has read its source. */
void detector_unread(Detector *d, u32 id, u32 pc, u32 slot, u32 warp);
/* All threads of the CTA, of so many warps, have exited. */
void detector_over(Detector *d, u32 slot, u32 warps);
/* griddepcontrol.wait has returned; a CTA lets dependents start, for the first time. */
void detector_grid_wait(Detector *d, u32 slot, u32 warp, u32 lanes);
void detector_grid_signal(Detector *d, u32 slot, u32 warp, u32 lanes);
void grids_free(Detector *d);
u32 detector_issue(Detector *d, u32 slot, u32 warp, u32 lanes);
u32 detector_follow(Detector *d, u32 id);
/* Operation `id` is a bulk store, which stores what `task` says where `task` says. */
void detector_task(Detector *d, u32 id, u32 task);
void detector_drop(Detector *d, u32 id);
void detector_complete(Detector *d, u32 id, u32 slot, u32 warp, u32 lanes);
/* An operation with what its issuer knew, of no component yet, or with one. */
u32 detector_begin(Detector *d, u32 slot, u32 warp, u32 lanes, const Knowledge *known);
u32 detector_start(Detector *d, u32 slot, u32 warp, u32 lanes, const Knowledge *known);
/* Whether another lane of the warp issued operation `e`, and nothing has told the lane that
 * issues now: lanes are threads. */
int detector_other_lane(Detector *d, const Accessor *a, const Entry *e);
void detector_note_id(Detector *d, u32 id);
/* Remember who issued an operation of a component, for reports; `known` is by it. */
void detector_note_issue(Detector *d, u32 comp, u32 clock, u32 slot, u32 warp,
                         const Knowledge *known);
EngineAgent *detector_engine(const Detector *d, u32 id);

/* A synchronisation that orders nothing: clocks go on as if it had. */
void detector_tick(Detector *d, u32 slot, u32 warp);
/* Take up into the digest what the lane knows. */
void detector_digest(Detector *d, u32 slot, u32 warp, u32 lane);

/* --- accesses.c ------------------------------------------------------------------ */
/* `size` bytes at word offset `at` of the shared memory of the CTA in slot `memory`,
 * by every lane of `lanes` at its own offset. flags of enum EntryFlag. `value`: what each
 * of the 32 lanes stores, of a weak write, or NULL: one operation stores for them all. */
void detector_shared(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 memory,
                     const u32 *offset, u32 size, u32 flags, u32 scope, const u8 *value);
void detector_global(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes,
                     const u64 *address, u32 size, u32 flags, u32 scope, const u8 *value);
/* A run of bytes by an operation. */
void detector_engine_shared(Detector *d, u32 id, u32 pc, u32 memory, u32 offset,
                            u64 size, u32 flags);
/* Reads of 16 bytes at each of n multiples of 16. */
void detector_engine_chunks(Detector *d, u32 id, u32 pc, u32 memory, const u32 *offset,
                            u32 n, u32 flags);
void detector_engine_global(Detector *d, u32 id, u32 pc, u64 address, u64 size,
                            u32 flags);
void global_free(Detector *d);

/* --- tensor.c -------------------------------------------------------------------- */
/* A lane gives the tensor core a multiplication or a shift (`form`: FORM_SHIFT, or what
 * tells shape, kind and accumulator from others), a copy (FORM_COPY, FORM_SMALL_COPY:
 * .4x256b), a commit. Ids, or 0 without memory. */
u32 detector_core(Detector *d, u32 slot, u32 warp, u32 lane, u32 form);
u32 detector_commit(Detector *d, u32 slot, u32 warp, u32 lane);
/* tcgen05.fence::before_thread_sync, ::after_thread_sync. */
void detector_fence_before(Detector *d, u32 slot, u32 warp, u32 lanes);
void detector_fence_after(Detector *d, u32 slot, u32 warp, u32 lanes);
void detector_tensor_wait(Detector *d, u32 slot, u32 warp, u32 kind);
/* A register is used that the warp's last load by instruction `number` gives. */
void detector_load_used(Detector *d, u32 slot, u32 warp, u32 number);
/* Lanes and columns of tensor memory of the CTA in slot `memory`: by an operation, or
 * by a warp's own load or store (enum PipeKind) by instruction `number`; `second`: by the
 * very operation that was told of last, in another place. */
void detector_engine_tensor(Detector *d, u32 id, u32 pc, u32 memory, u32 lane, u32 lanes,
                            u32 column, u32 columns, u32 flags);
void detector_warp_tensor(Detector *d, u32 slot, u32 warp, u32 pc, u32 kind, u32 number,
                          u32 second, u32 lane, u32 lanes, u32 column, u32 columns);
/* A warp allocates columns of its CTA or gives them back. */
enum TensorOwn { TENSOR_FREED = 0, TENSOR_TAKEN, TENSOR_TAKEN_BY_PAIR };
void detector_tensor_own(Detector *d, u32 slot, u32 warp, u32 pc, u32 column, u32 columns,
                         u32 what);

/* --- barriers.c ------------------------------------------------------------------ */
/* An mbarrier at `address` of the CTA in slot `memory`. */
void detector_mbar_init(Detector *d, u32 slot, u32 warp, u32 pc, u32 lane, u32 memory,
                        u32 address);
/* Arrival of lanes; scope of a release, or SCOPE_NONE if it is relaxed. */
void detector_mbar_arrive(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 memory,
                          u32 address, u32 scope);
/* An operation completes at the barrier; `history`: with all its issuer knew. */
void detector_mbar_engine(Detector *d, u32 id, u32 pc, u32 memory, u32 address,
                          u32 history);
void detector_mbar_phase(Detector *d, u32 memory, u32 address);
void detector_mbar_wait(Detector *d, u32 slot, u32 warp, u32 pc, u32 lanes, u32 address,
                        u32 scope);
void detector_named_arrive(Detector *d, u32 slot, u32 warp, u32 lanes, u32 barrier);
void detector_named_complete(Detector *d, u32 slot, u32 barrier);
void detector_named_leave(Detector *d, u32 slot, u32 warp, u32 lanes, u32 barrier);
void detector_cluster_arrive(Detector *d, u32 slot, u32 warp, u32 lanes, u32 relaxed);
void detector_cluster_complete(Detector *d, u32 slot);
void detector_cluster_wait(Detector *d, u32 slot, u32 warp, u32 lanes, u32 relaxed);

/* --- locations.c ----------------------------------------------------------------- */
/* A strong write, read or both of a word; `atomic`: a read-modify-write. `fenced`: it
 * hands over no more than a fence before it released, `relaxed`: what it sees is known
 * from an acquiring fence on. */
void detector_release(Detector *d, u32 slot, u32 warp, u32 lane, u64 address, u32 fenced,
                      u32 scope, u32 atomic);
void detector_acquire(Detector *d, u32 slot, u32 warp, u32 lane, u64 address,
                      u32 relaxed, u32 scope);
void locations_free(Detector *d);

#endif
