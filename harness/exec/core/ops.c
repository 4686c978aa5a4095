/* Every instruction family, in the order that gives an operation its number. */
#include "core.h"

extern const OpEntry ops_control[], ops_special[], ops_move[], ops_compare[];
extern const OpEntry ops_integer[], ops_multiply[], ops_packed[], ops_logic[];
extern const OpEntry ops_bitfield[], ops_float[], ops_double[], ops_extreme[];
extern const OpEntry ops_half[], ops_transcendental[], ops_narrow[];
extern const OpEntry ops_convert[], ops_mma_sync[], ops_mma_int[];
extern const OpEntry ops_memory[], ops_mbarrier[], ops_named_barrier[], ops_warp[];
extern const OpEntry ops_matrix[], ops_atomic[], ops_cp_async[], ops_setmaxnreg[];
extern const OpEntry ops_st_async[], ops_cluster[], ops_clc[], ops_dependent[];
extern const OpEntry ops_tma[], ops_bulk[], ops_tensormap[];
extern const OpEntry ops_tcgen05_alloc[], ops_tcgen05_ldst[], ops_tcgen05_sync[];
extern const OpEntry ops_tcgen05_mma[], ops_tcgen05_commit[], ops_tcgen05_cp[];

const OpEntry *const all_ops[] = {
    ops_control, ops_special, ops_move, ops_compare, ops_integer, ops_multiply,
    ops_packed, ops_logic, ops_bitfield, ops_float, ops_double, ops_extreme, ops_half,
    ops_transcendental, ops_convert, ops_narrow, ops_mma_sync, ops_mma_int,
    ops_memory, ops_mbarrier, ops_named_barrier, ops_warp, ops_matrix, ops_atomic,
    ops_cp_async, ops_setmaxnreg, ops_st_async, ops_cluster, ops_clc, ops_dependent,
    ops_tma, ops_bulk, ops_tensormap,
    ops_tcgen05_alloc, ops_tcgen05_ldst, ops_tcgen05_sync, ops_tcgen05_mma,
    ops_tcgen05_commit, ops_tcgen05_cp, 0,
};
