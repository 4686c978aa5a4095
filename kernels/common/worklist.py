"""The device-built work list: lengths in, sequence starts and a unit prefix out.

One CTA runs in front of the forward kernel on the same stream, so the end of its
launch publishes everything it wrote. A *unit* is a run of query rows of one sequence
for one head, or for a pair of heads. The caller's workspace may hold anything before
this kernel runs.

Workspace, in int32 words (`batch` is B):

    [0]                     claim counter, zeroed here, advanced by the loaders
    [32 .. 32+B]            unit prefix: units of all sequences before this one
    [32+(B+1) .. ]          query starts, B+1 words
    [32+2(B+1) .. ]         key starts, B+1 words
    [32+3(B+1) .. ]         atoms of scales of all sequences before, of the queries,
    [32+4(B+1) .. ]         and of the keys; only where there are scales

Starts are saturated at the capacity of their buffer. Lengths longer than declared, or
plain garbage, therefore shorten the work but never move an access out of bounds; a
length is always the difference of two starts.
"""

from typing import Protocol

import cutlass
from cutlass import Float32, Int32, cute

from sidestream.kernels.common.config import ATOM_ROWS


class UnitFacts(Protocol):
    """The plan-time facts that decide how lengths become units."""

    @property
    def prefix_q(self) -> bool:
        """Whether query lengths come as prefix sums."""

    @property
    def prefix_kv(self) -> bool:
        """Whether key lengths come as prefix sums."""

    @property
    def block_scaled(self) -> bool:
        """Whether tokens come with scales, in atoms of `ATOM_ROWS` tokens."""


HEADER_WORDS = 32
PREP_THREADS = 128
PREP_WARPS = PREP_THREADS // 32
UNCAPPED = 0x7FFFFFFF


def workspace_words(batch: int, *, block_scaled: bool = False) -> int:
    """Int32 words of scratch for `batch` sequences."""
    return HEADER_WORDS + (5 if block_scaled else 3) * (batch + 1)


@cute.jit
def unit_prefix(workspace: cute.Pointer, batch: Int32) -> cute.Tensor:
    """Units before each sequence, int32 (B+1)."""
    return cute.make_tensor(workspace + HEADER_WORDS, cute.make_layout(batch + 1))


@cute.jit
def query_starts(workspace: cute.Pointer, batch: Int32) -> cute.Tensor:
    """First query token of each sequence, int32 (B+1)."""
    offset = HEADER_WORDS + (batch + 1)
    return cute.make_tensor(workspace + offset, cute.make_layout(batch + 1))


@cute.jit
def key_starts(workspace: cute.Pointer, batch: Int32) -> cute.Tensor:
    """First key token of each sequence, int32 (B+1)."""
    offset = HEADER_WORDS + 2 * (batch + 1)
    return cute.make_tensor(workspace + offset, cute.make_layout(batch + 1))


@cute.jit
def query_atoms(workspace: cute.Pointer, batch: Int32) -> cute.Tensor:
    """First atom of scales of each sequence's queries, int32 (B+1)."""
    offset = HEADER_WORDS + 3 * (batch + 1)
    return cute.make_tensor(workspace + offset, cute.make_layout(batch + 1))


@cute.jit
def key_atoms(workspace: cute.Pointer, batch: Int32) -> cute.Tensor:
    """First atom of scales of each sequence's keys, int32 (B+1)."""
    offset = HEADER_WORDS + 4 * (batch + 1)
    return cute.make_tensor(workspace + offset, cute.make_layout(batch + 1))


@cute.jit
def declared_length(
    lengths: cute.Pointer, index: Int32, cap: Int32, prefix: cutlass.Constexpr[bool]
) -> Int32:
    """Length of one sequence, clamped to [0, cap].

    A prefix sum contributes only differences, so its base (element 0) cancels and each
    side may have its own.
    """
    view = cute.make_tensor(lengths, cute.make_layout(index + 2))
    length = Int32(0)
    if cutlass.const_expr(prefix):
        length = view[index + 1] - view[index]
    else:
        length = view[index]
    return cutlass.min(cutlass.max(length, Int32(0)), cap)


@cute.jit
def block_scan(
    value: Int32, cap: Int32, totals: cute.Tensor
) -> tuple[Int32, Int32, Int32]:
    """Saturating scan over the CTA: exclusive and inclusive sums, and the total.

    `min(a + b, cap)` is associative for addends in [0, cap], so the usual shuffle scan
    holds; cap is below 2^30 (or the sums are known to fit), so no addition wraps.
    """
    lane = cute.arch.lane_idx()
    warp = cute.arch.warp_idx()
    for step in cutlass.range_constexpr(5):
        below = cute.arch.shuffle_sync_up(value, offset=1 << step)
        if lane >= (1 << step):
            value = cutlass.min(value + below, cap)
    if lane == 31:
        totals[warp] = value
    cute.arch.sync_threads()
    before = Int32(0)
    total = Int32(0)
    for other in cutlass.range_constexpr(PREP_WARPS):
        part = totals[other]
        if other < warp:
            before = cutlass.min(before + part, cap)
        total = cutlass.min(total + part, cap)
    # The totals are reused by the next scan.
    cute.arch.sync_threads()
    below = cute.arch.shuffle_sync_up(value, offset=1)
    if lane == 0:
        below = Int32(0)
    exclusive = cutlass.min(before + below, cap)
    inclusive = cutlass.min(before + value, cap)
    return exclusive, inclusive, total


@cute.kernel
def build_worklist(
    config: cutlass.Constexpr[UnitFacts],
    lengths_q: cute.Pointer,
    lengths_kv: cute.Pointer,
    workspace: cute.Pointer,
    batch: Int32,
    unit_rows: Int32,
    unit_heads: Int32,
    cap_q: Int32,
    cap_kv: Int32,
    amax: cute.Pointer | None,
) -> None:
    """Fill the workspace from the device lengths; one CTA of `PREP_THREADS` threads.

    A sequence has a unit for every `unit_rows` query rows, times `unit_heads`. What
    the forward kernel takes the maximum into, float32 at `amax`, starts from 0.
    Where there are scales, a sequence has an atom of them for every 128 tokens.
    """
    thread, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    totals = smem.allocate_tensor(Int32, cute.make_layout(PREP_WARPS), 16)
    units = unit_prefix(workspace, batch)
    starts_q = query_starts(workspace, batch)
    starts_kv = key_starts(workspace, batch)
    if thread == 0:
        counter = cute.make_tensor(workspace, cute.make_layout(1))
        counter[0] = Int32(0)
        units[0] = Int32(0)
        starts_q[0] = Int32(0)
        starts_kv[0] = Int32(0)
        if cutlass.const_expr(amax is not None):
            cute.make_tensor(amax, cute.make_layout(1))[0] = Float32(0.0)
        if cutlass.const_expr(config.block_scaled):
            query_atoms(workspace, batch)[0] = Int32(0)
            key_atoms(workspace, batch)[0] = Int32(0)
    carry_q = Int32(0)
    carry_kv = Int32(0)
    carry_units = Int32(0)
    carry_atoms = cute.make_rmem_tensor(2, Int32)
    carry_atoms.fill(0)
    for chunk in cutlass.range(cute.ceil_div(batch, PREP_THREADS)):
        index = chunk * PREP_THREADS + thread
        length_q = Int32(0)
        length_kv = Int32(0)
        if index < batch:
            length_q = declared_length(lengths_q, index, cap_q, config.prefix_q)
            length_kv = declared_length(lengths_kv, index, cap_kv, config.prefix_kv)
        begin_q, end_q, total_q = block_scan(length_q, cap_q, totals)
        begin_kv, end_kv, total_kv = block_scan(length_kv, cap_kv, totals)
        begin_q = cutlass.min(carry_q + begin_q, cap_q)
        end_q = cutlass.min(carry_q + end_q, cap_q)
        begin_kv = cutlass.min(carry_kv + begin_kv, cap_kv)
        end_kv = cutlass.min(carry_kv + end_kv, cap_kv)
        tiles = (end_q - begin_q + (unit_rows - 1)) // unit_rows
        _, end_units, total_units = block_scan(
            tiles * unit_heads, Int32(UNCAPPED), totals
        )
        if index < batch:
            starts_q[index + 1] = end_q
            starts_kv[index + 1] = end_kv
            units[index + 1] = carry_units + end_units
        if cutlass.const_expr(config.block_scaled):
            for side in cutlass.range_constexpr(2):
                length, atoms = end_q - begin_q, query_atoms(workspace, batch)
                if cutlass.const_expr(side == 1):
                    length, atoms = end_kv - begin_kv, key_atoms(workspace, batch)
                _, end_atoms, total_atoms = block_scan(
                    (length + (ATOM_ROWS - 1)) // ATOM_ROWS, Int32(UNCAPPED), totals
                )
                if index < batch:
                    atoms[index + 1] = carry_atoms[side] + end_atoms
                carry_atoms[side] = carry_atoms[side] + total_atoms
        carry_q = cutlass.min(carry_q + total_q, cap_q)
        carry_kv = cutlass.min(carry_kv + total_kv, cap_kv)
        carry_units = carry_units + total_units


build_worklist.set_name_prefix(
    "sidestream_worklist", remove_cutlass_symbol=True, keep_mangled_name=False
)


@cute.jit
def claim_unit(workspace: cute.Pointer) -> Int32:
    """Next unit for this CTA; every lane of the calling warp gets the same number."""
    unit = Int32(0)
    if cute.arch.lane_idx() == 0:
        unit = cute.arch.atomic_add(workspace, Int32(1), sem="relaxed", scope="gpu")
    return cute.arch.shuffle_sync(unit, 0)


@cute.jit
def sequence_of(units: cute.Tensor, batch: Int32, unit: Int32) -> Int32:
    """The sequence that owns `unit`: the last one whose prefix does not exceed it.

    Sequences without queries share their prefix with the next and are passed over.
    """
    low = Int32(0)
    high = batch
    while high - low > 1:
        middle = (low + high) // 2
        if units[middle] <= unit:
            low = middle
        else:
            high = middle
    return low
