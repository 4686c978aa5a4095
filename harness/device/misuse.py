"""What exactly breaks a protocol, by the code that the execution core gives.

A code is an enumerator of the core: `enum MbarError` and its kin. `test_device_misuse`
holds these tables to the headers.
"""

from __future__ import annotations

from collections.abc import Mapping

Told = Mapping[int, tuple[str, str]]
"""By code: what is wrong, to follow "an mbarrier that" and the like, and the need."""

MBARRIER: Told = {
    1: (
        "was not initialised, or was invalidated",
        "mbarrier.init before any use, published to the threads that use it",
    ),
    2: (
        "was overwritten by something else",
        "no ordinary access to the word of a live mbarrier",
    ),
    3: ("is initialised while it is live", "mbarrier.inval before the second init"),
    4: ("is given a count outside 1 to 2^20 - 1", "a count in that range"),
    5: (
        "gets more arrivals than its phase has pending",
        "as many arrivals in a phase as the count it was initialised with",
    ),
    6: (
        "has a tx-count outside -(2^20 - 1) to 2^20 - 1",
        "as many bytes expected as complete",
    ),
    7: (
        "has its phase ended by a .noComplete arrival",
        "an arrival without .noComplete as the last of the phase",
    ),
    8: ("is tested for a parity other than 0 or 1", "the phase number modulo 2"),
    9: (
        "is tested with a state that no arrival returned",
        "the state that an arrive on this mbarrier returned",
    ),
    10: (
        "belongs to another CTA of the cluster",
        "an operation that has a .shared::cluster form, or the CTA's own mbarrier",
    ),
    11: (
        "got bytes that no phase had expected when its CTA was over",
        "as many bytes expected in a phase as its copies bring",
    ),
    12: (
        "is left by more arrivals than its phases expect",
        "arrive_drop of no more than the count that is left of mbarrier.init",
    ),
    13: (
        "is tested with a state two or more phases old",
        "the state of an arrival in the current phase or in the one before it",
    ),
}

BARRIER: Told = {
    1: ("has a number outside 0 to 15", "one of the 16 barriers of a CTA"),
    2: (
        "is given a thread count that is no positive multiple of the warp size, or "
        "more than the CTA has",
        "the number of threads of the warps that take part",
    ),
    3: (
        "is given another thread count than by an earlier participant",
        "one thread count at every use of a phase of the barrier",
    ),
    4: (
        "mixes barrier.red with sync or arrive",
        "barrier.red from every participant of the phase",
    ),
    5: (
        "is aligned, and the lanes of the warp give it different operands",
        "uniform operands, or the form without .aligned",
    ),
    6: (
        "is aligned, and executed by a part of the warp's lanes",
        "all lanes of the warp at one barrier, or the form without .aligned",
    ),
    16: (
        "of the cluster is arrived at twice without a wait",
        "barrier.cluster.wait between two arrivals of a thread",
    ),
    17: (
        "of the cluster is waited for by a thread that has not arrived",
        "barrier.cluster.arrive before barrier.cluster.wait",
    ),
}

TENSORMAP: Told = {
    2: ("has the wrong version", "a map made by cuTensorMapEncode"),
    3: ("has a rank outside 1 to 5", "one to five dimensions"),
    4: (
        "has an element type that does not exist, or that the reduction lacks",
        "an element type that the instruction serves",
    ),
    5: ("has a fill that does not fit its type", "zero fill, or NaN for float types"),
    6: ("has a global address off 16 bytes", "a 16-byte aligned global address"),
    7: (
        "has an inner box that is no multiple of 16 bytes or wider than its swizzle",
        "an inner box of 16 n bytes within the swizzle's span",
    ),
    8: ("has bits set that no map has", "a map that nothing has overwritten"),
    9: (
        "has another rank than the instruction's dimension",
        "the dimension of the instruction that the map was made for",
    ),
    10: (
        "is given a box that starts off 16 bytes within a row",
        "an inner coordinate that is a multiple of 16 bytes",
    ),
    11: (
        "is given a store's box that starts at a negative coordinate",
        "coordinates of a store that are not negative",
    ),
    12: (
        "has a box of more than one row, for an instruction that names its four rows",
        "a box of one row for .tile::gather4 and .tile::scatter4",
    ),
}

BULK: Told = {
    1: ("copies a size that is no multiple of 16", "a size of 16 n bytes"),
    2: ("has a misaligned destination", "a 16-byte aligned destination"),
    3: ("has a misaligned source", "a 16-byte aligned source"),
    4: ("has a misaligned mbarrier", "an 8-byte aligned mbarrier"),
    5: (
        "ignores more than 15 bytes at an end, or more than it copies",
        "0 to 15 bytes to ignore at either end",
    ),
    8: (
        "clears a size or an address that is no multiple of 8, or too much",
        "a size of 8 n bytes below 2^24, at an 8-byte aligned address",
    ),
}

SETMAXNREG: Told = {
    1: (
        "asks for a register count outside 24 to 256 in steps of 8",
        "24 to 256 registers in steps of 8",
    ),
    2: (
        "raises with .dec, or lowers with .inc",
        ".inc to raise the count of the thread, .dec to lower it",
    ),
    3: (
        "is executed by a part of the warp's lanes",
        "all lanes of the warp at one setmaxnreg",
    ),
    4: (
        "is not executed by every warp of its warpgroup",
        "the same setmaxnreg in each of the four warps",
    ),
}

CLUSTER: Told = {
    1: ("names a CTA that the cluster does not have", "a rank within the cluster"),
    2: (
        "names another CTA's memory where only its own is allowed",
        "an address of the CTA's own shared memory, or the .shared::cluster form",
    ),
    3: (
        "signals an mbarrier in another CTA than it writes",
        "an mbarrier in the destination's CTA, or .cta_group::2 within a CTA pair",
    ),
    4: (
        "signals an mbarrier outside the CTA pair that it writes to",
        "an mbarrier in the destination's CTA or in its peer",
    ),
    5: (
        "has .cta_group::2 in a CTA whose pair has no other CTA",
        "a cluster of an even number of CTAs",
    ),
    6: (
        "reaches shared memory of a CTA that has exited",
        "barrier.cluster, or another handshake, before a CTA that is used exits",
    ),
    7: (
        "uses the CTA's own memory where another CTA's is needed",
        "an address of another CTA of the cluster",
    ),
    8: ("is executed in a cluster of one CTA", "a launch with larger clusters"),
}

TENSOR_MEMORY: Told = {
    1: (
        "names a number of columns that is no power of two from 32 to 512",
        "32, 64, 128, 256 or 512 columns",
    ),
    2: (
        "asks for more columns than an earlier allocation of the CTA",
        "allocations in an order in which the columns never increase",
    ),
    3: (
        "allocates after the CTA has relinquished its right to",
        "relinquish_alloc_permit after the last allocation",
    ),
    4: (
        "deallocates an address at which no live allocation begins",
        "the address that alloc wrote, given back once",
    ),
    5: (
        "deallocates another number of columns than were allocated there",
        "the number of columns that alloc was given",
    ),
    6: (
        "names other columns than the peer CTA's warp",
        "the same number of columns, or address, from both CTAs of a pair",
    ),
    7: (
        "allocates columns that are still allocated when the CTA exits",
        "tcgen05.dealloc of every allocation before the CTA exits",
    ),
    8: (
        "accesses a lane past 127 or a column past 511",
        "a base and an extent within 128 lanes and 512 columns",
    ),
    9: (
        "accesses columns that belong to no allocation, or to two",
        "an address within one allocation of this CTA",
    ),
    10: (
        "accesses columns that were deallocated before the access had completed",
        "tcgen05.wait, or the wait for a commit, before tcgen05.dealloc",
    ),
    11: (
        "accesses lanes that belong to another warp of the warpgroup",
        "lanes 32 (w % 4) to 32 (w % 4) + 31 from warp w",
    ),
    12: (
        "has an address in a lane that its shape does not start at",
        "a lane that is a multiple of 32, or of 16 for the 16-lane shapes",
    ),
    13: (
        "reads cells that nothing has written",
        "a store, a copy or an mma of these cells that is ordered before the read",
    ),
}

INSTRUCTION_DESCRIPTOR, SHARED_DESCRIPTOR = range(6, 15), range(15, 19)
MASK = (20, 21)
"""Codes of `TCGEN05` by what holds the wrong value."""

TCGEN05: Told = {
    1: (
        "has another .cta_group than an earlier tcgen05 instruction of the kernel",
        "one .cta_group in all tcgen05 instructions of a kernel",
    ),
    2: (
        "has .cta_group::2 in a CTA without a peer",
        "a launch in clusters of an even number of CTAs",
    ),
    3: (
        "has .cta_group::2 after the peer CTA has exited",
        "a cluster barrier, or another wait, that keeps the peer until the end",
    ),
    4: (
        "is aligned, and executed by a part of the warp's lanes",
        "all 32 lanes of the warp, none of which has exited",
    ),
    5: (
        "is aligned, and the lanes of the warp give it different operands",
        "uniform operands",
    ),
    6: (
        "has an instruction descriptor with a reserved bit set",
        "zeros in the reserved bits of the instruction descriptor",
    ),
    7: (
        "has an instruction descriptor whose sparsity is not the instruction's",
        "bit 2 of the instruction descriptor set for .sp, and only for it",
    ),
    8: (
        "has an instruction descriptor that saturates what is no integer",
        "bit 3 of the instruction descriptor only with .kind::i8",
    ),
    9: (
        "has an instruction descriptor with a type that its .kind does not have",
        "type codes of the .kind for matrices A, B and D",
    ),
    10: (
        "has an instruction descriptor that negates integers",
        "no negation with .kind::i8",
    ),
    11: (
        "has an instruction descriptor that transposes what has no transposed form",
        "M- or N-major matrices only of 8, 16 and 32-bit elements",
    ),
    12: (
        "has an instruction descriptor with an M that .kind and .cta_group exclude",
        "M of 64 or 128 for .cta_group::1, 128 or 256 for ::2; block scaling: no 64",
    ),
    13: (
        "has an instruction descriptor with an N that .kind and .cta_group exclude",
        "N up to 256 in the steps of .kind, .cta_group and majorness",
    ),
    14: (
        "has an instruction descriptor with a scale type or scale factor id that its "
        "scale vector size excludes",
        "UE4M3 only with four factors, and ids aligned to the number of factors",
    ),
    15: (
        "has a shared memory descriptor whose fixed or reserved bits are wrong",
        "0b001 in bits 46 to 48, zeros in the reserved bits",
    ),
    16: (
        "has a shared memory descriptor with a swizzling mode that does not exist or "
        "does not go with type and majorness",
        "mode 0, 2, 4 or 6; mode 1 for M- or N-major 32-bit elements and only them",
    ),
    17: (
        "has a shared memory descriptor with a base offset and no swizzling",
        "base offset 0 without a swizzling mode",
    ),
    18: (
        "has a shared memory descriptor with an absolute leading dimension stride",
        "the relative mode: the absolute one exists on sm_103a only",
    ),
    19: (
        "has scale factors that differ between the partitions of 32 lanes",
        "the same scale factors in all four partitions of tensor memory",
    ),
    20: (
        "is multicast to a CTA that the cluster does not have",
        "a mask of ranks within the cluster",
    ),
    21: (
        "has a zero-column mask with reserved bits set or too wide a shift",
        "a shift of at most what the instruction descriptor and M allow",
    ),
}

CLC: Told = {
    1: (
        "requests a cancellation after the CTA has seen one fail",
        "no further try_cancel once is_canceled was false",
    ),
    2: (
        "asks which CTA was cancelled where none was, and uses the answer",
        "get_first_ctaid under the predicate of is_canceled",
    ),
    3: (
        "queries 16 bytes that no try_cancel has written",
        "the response, read after its mbarrier has completed",
    ),
    4: (
        "names memory outside the CTA's own shared memory",
        "a response and an mbarrier in the CTA's .shared::cta window",
    ),
    5: (
        "has a misaligned response or mbarrier",
        "a 16-byte aligned response and an 8-byte aligned mbarrier",
    ),
    6: (
        "is answered when a CTA that gets the response has exited",
        "a wait for every request before a CTA of the cluster exits",
    ),
}
