"""The rules of memory ordering that the litmus tests hold, each by its id.

A rule is held where a twin removes it: its `rule`, or one of its `also`. What no litmus
test can hold says why, and where it is held instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sidestream.scenarios.litmus.twin import GridTwin, Twin


@dataclass(frozen=True, kw_only=True)
class Held:
    """Which litmus tests hold a rule.

    Attributes:
        twins: Their names, `file.name`.
        told_as: Ids of the rules that findings on the broken kernels name.
    """

    twins: tuple[str, ...]
    told_as: tuple[str, ...]


RULES: Mapping[str, str] = {
    "T1": "mma, cp, shift, ld and st are asynchronous: in no order of their own",
    "T2": "pipelines of one thread: mma, mma; cp, mma; shift, mma; mma, shift",
    "T3": "a pipeline across threads needs both fences and a hand-over, no completion",
    "T4": "a commit arrives when what its thread gave the tensor core is over",
    "T5": "wait::ld ends the warp's loads, wait::st its stores, and nothing else",
    "T6": "before_thread_sync and after_thread_sync order, and wait for nothing",
    "T7": "outside of pipelines the first thread waits for completion, then hands over",
    "T8": "a register that a load gives orders its value, not memory",
    "T9": "products and copies read shared memory through the async proxy, until over",
    "T10": "a warp reaches a quarter of the lanes",
    "T11": "allocation: sizes, permit, dealloc before the end, one group a kernel",
    "T12": "an operation of a CTA pair touches both CTAs, and both have to be there",
    "M1": "arrival counts and bytes have bounds; bytes may come early",
    "M2": "a phase is over when no arrival and no byte is pending",
    "M3": "arrive, arrive with a count, expect_tx, drop, noComplete",
    "M4": "a wait names this phase or the one before",
    "M5": "somebody sees a phase's end before arrivals of the next",
    "M6": "arrive releases, wait acquires, in scopes that include each other",
    "M7": "at a peer's mbarrier: arrive, never wait",
    "M8": "an mbarrier is initialised once, published, and touched by nothing else",
    "M9": "bytes of a copy come with its completion; of its issuer, what was over",
    "P1": "copies are in no order with each other or with what their thread does next",
    "P2": "from the generic to the async proxy, a fence.proxy.async of the state space",
    "P3": "until a copy is over: source and map not written, destination not read",
    "P4": "bulk groups: of one thread, in order; .read says that sources are read",
    "P5": "a multicast writes and signals at one offset in each CTA of its mask",
    "P6": "copies and st.async into a peer complete at a barrier of the peer",
    "P7": "tensor maps: release, hand over, acquire, then the copy",
    "P8": "cp.async.mbarrier.arrive tracks the copies of its thread",
    "B1": "named barriers: one count, one kind, whole warps; arrive learns nothing",
    "B2": "barrier.cluster: release and acquire by default, one arrival and one wait",
    "B3": "bar.warp.sync orders the lanes of its mask",
    "B4": "elect.sync makes lanes meet and orders no memory",
    "B5": "setmaxnreg: counts, whole warpgroups, registers that somebody gives",
    "B6": "launch control: the response is an async write; reuse, failure",
    "B7": "dependent launches: only griddepcontrol.wait, or what was released before",
    "B8": "launches of one stream are in order, but for tensor maps",
    "U1": "shared memory holds no value before a write of it, by byte and by CTA",
    "U2": "a register holds no value before a write of it, nor one that is gained",
    "cluster.peer": "a CTA exits when what its peers do to its shared memory is over",
    "race.order": "a release and an acquire of one word order what lies around them",
    "race.scope": "strong accesses need scopes that include each other",
    "race.constant": "ld.global.nc takes its bytes for constant while the kernel runs",
}
"""What a rule says, in short."""

ELSEWHERE: Mapping[str, str] = {}
"""Rules that no twin holds, and why."""

SITUATIONS: Mapping[str, tuple[str, ...]] = {
    "T2: products of one accumulator, of two; a commit between": (
        "tensor_order.products_that_share_columns_partly",
        "tensor_order.a_commit_between_unlike_products",
    ),
    "T2: copy then product, product then copy": ("tensor_core.copy_then_product",),
    "T3: hand-over without before, without after, by a relaxed arrival": (
        "tensor_order.product_after_anothers_behind_its_fence",
        "tensor_order.product_after_anothers_behind_the_own_fence",
        "tensor_order.product_after_anothers_copy",
    ),
    "T4: a second commit right after the first": (
        "tensor_core.commit_right_behind_a_commit",
    ),
    "T4: commit of another thread's work": (
        "tensor_core.another_thread_commits_nothing_of_mine",
        "tensor_pair.commit_of_the_peer_tracks_nothing_of_mine",
    ),
    "T4: commit of nothing": ("tensor_core.commit_of_nothing_arrives",),
    "T5: wait::ld where wait::st is needed": (
        "tensor_memory.wait_for_loads_is_none_for_stores",
    ),
    "T9: generic store then product without a proxy fence": (
        "tensor_core.stored_source_crosses_the_proxy",
        "tensor_pair.source_of_the_peer_crosses_the_proxy",
    ),
    "T9: refill before the commit is seen": (
        "tensor_core.source_is_refilled_after_the_product",
    ),
    "T10: lanes of another warp": ("tensor_memory.other_lanes",),
    "T11: allocation after relinquish": (
        "tensor_allocation.allocation_after_the_permit_was_given_up",
    ),
    "T11: no dealloc": ("tensor_allocation.given_back_at_the_end",),
    "M1: 16 bytes too few": ("bulk_copy.bytes_expected_are_16_too_many",),
    "M1: more bytes than expected": ("protocols.bytes_that_nobody_expected",),
    "M4: parity lap": ("protocols.parity_lap",),
    "M6: relaxed arrive; relaxed wait and a fence": (
        "mbarrier.relaxed_arrive",
        "mbarrier.relaxed_wait_before_a_fence",
    ),
    "M8: no fence of the initialisation": (
        "cluster.initialisation_before_a_relaxed_arrival",
    ),
    "P2: fence of another state space": ("proxy_fence.fence_of_another_state_space",),
    "P4: .read, then a read of the destination": (
        "bulk_copy.source_was_read_destination_not_written",
    ),
    "P4: group of another lane": ("bulk_copy.group_of_another_lane",),
    "P5: a multicast slot again before every CTA gave it back": (
        "cluster.slot_of_both_is_free",
    ),
    "P7: no acquire": ("tensor_map.acquire_before_a_copy",),
    "B1: count off by 32": ("named_barrier.count_off_by_a_warp",),
    "B1: a reader that only arrives": ("named_barrier.arrive_learns_nothing",),
    "B5: inc without dec": ("protocols.registers_that_nobody_gave",),
    "B6: a response again without a fence": (
        "launch_control.loaded_place_crosses_the_proxy",
    ),
    "B7: no griddepcontrol.wait": ("dependent_grid.wait_before_a_read",),
}
"""What a litmus suite has to have by name, and the twins that are it. B8, a launch on a
side stream without an event, is of the host: `scenarios/bugs`."""


def held(twins: Mapping[str, Twin | GridTwin], rule: str) -> Held:
    """Return who holds a rule."""
    names = [n for n, twin in twins.items() if rule in (twin.rule, *twin.also)]
    told = {found.rule for name in names for found in twins[name].found}
    return Held(twins=tuple(names), told_as=tuple(sorted(told)))


def table(twins: Mapping[str, Twin | GridTwin]) -> str:
    """Return the rules as a table of Markdown, for `docs/races.md`."""
    lines = [
        "| rule | says | litmus files | told as |",
        "|---|---|---|---|",
    ]
    for rule, says in RULES.items():
        by = held(twins, rule)
        files = _listed(dict.fromkeys(name.split(".")[0] for name in by.twins))
        told = _listed(by.told_as)
        lines.append(f"| {rule} | {says} | {files} | {told} |")
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
