"""Run a mutant over launches and say what became of it.

`caught`: a finding, bits of memory that differ, or mbarriers that are left in the
middle of a phase and were not (PTX ISA, mbarrier: arrivals and expected count do not
match, and the next phase would end early or never). `equivalent`: the mutant orders
nothing, and every agent knows the same of all others at each of its accesses as with
the order: the happens-before graph of these launches has what it adds from elsewhere.
`survived`: neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sidestream.harness.device.vgpu import watch_launch
from sidestream.harness.dsl.record import RecordedLaunch
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.machine import Options
from sidestream.harness.mutate.mutants import DELETE, Mutant, changed
from sidestream.harness.ptx import ir

_WAIT_LOAD = "tcgen05.wait::ld"
CAUGHT, EQUIVALENT, SURVIVED = "caught", "equivalent", "survived"
SEEDS = (0, 1)
"""Schedules that each mutant is run under."""
_SLACK = 20


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One execution: findings by id, why it was not finished, results, order.

    `left` are mbarriers that CTAs left in the middle of a phase.
    """

    kinds: Mapping[str, str]
    unfinished: str
    bits: str
    digest: int
    warp_instructions: int
    executed: frozenset[int]
    left: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        status: `caught`, `equivalent` or `survived`.
        by: Kinds that caught it; `output` is bits that differ, `leftover` mbarriers
            that end in the middle of a phase.
        reason: In words.
    """

    status: str
    by: tuple[str, ...] = ()
    reason: str = ""


@dataclass(kw_only=True)
class Court:
    """Launches of one kernel, and how they go without a change.

    A site's mutants are judged in order: `weaken` tells whether it orders anything,
    which then counts for `delete`, whose execution is another. A mutant meets the
    cheapest launch first, and no more once it is caught.

    Behind a wait for loads of tensor memory their registers tell nothing more. A weak
    one leaves that to the first read, so that what the wait adds to it can be asked.

    Attributes:
        launches: Of one text.
        function: The kernel, decoded from it.
        options: How to execute.
        profile: Under which races are looked for.
        known: Whether launches may have findings as they are; a mutant is then caught
            by what it adds.

    Raises:
        UsageError: a launch does not end unchanged, or has findings and is not `known`.
    """

    launches: Sequence[RecordedLaunch]
    function: ir.Function
    options: Options
    profile: str
    known: bool = False

    def __post_init__(self) -> None:
        self._base: dict[tuple[int, int], Seen] = {}
        self._adds_order: dict[int, bool] = {}
        for number in range(len(self.launches)):
            for seed in SEEDS:
                seen = self._run(number, seed)
                if seen.unfinished or (seen.kinds and not self.known):
                    what = ", ".join(sorted(set(seen.kinds.values())))
                    name = self.launches[number].launch.kernel
                    raise UsageError(
                        f"{name} is not clean as it is ({seen.unfinished or what}); "
                        "mutants of it would tell nothing"
                    )
                self._base[number, seed] = seen
        self._order = sorted(
            self._base, key=lambda key: self._base[key].warp_instructions
        )
        self._known = frozenset(i for seen in self._base.values() for i in seen.kinds)

    def executed(self, index: int) -> bool:
        """Tell whether any launch executed instruction `index`."""
        return any(index in seen.executed for seen in self._base.values())

    def judge(self, mutant: Mutant) -> Verdict:
        """Run a mutant over launches and schedules until one catches it."""
        code = changed(self.function, mutant)
        weak = frozenset() if code else frozenset({mutant.site.index})
        past = weak if mutant.site.instruction.op == _WAIT_LOAD else frozenset()
        unfinished = ""
        same_order = True
        for number, seed in self._order:
            base = self._base[number, seed]
            if mutant.site.index not in base.executed:
                continue
            seen = self._run(number, seed, code=code, weak=weak, past=past, base=base)
            kinds = {kind for i, kind in seen.kinds.items() if i not in self._known}
            if code is not None and not seen.unfinished:
                kinds |= {"output"} if seen.bits != base.bits else set()
                kinds |= {"leftover"} if seen.left > base.left else set()
            if kinds:
                return Verdict(status=CAUGHT, by=tuple(sorted(kinds)))
            unfinished = unfinished or seen.unfinished
            if past and same_order:
                base = self._run(number, seed, past=past)
            if code is None or mutant.change != DELETE:
                same_order &= code is None and seen.digest == base.digest
        if unfinished:
            return Verdict(status=SURVIVED, reason=f"not judged: {unfinished}")
        site = mutant.site.index
        if mutant.site.kind == "grid":
            why = "the launches that it waits for, or lets start, are not among these"
            return Verdict(status=SURVIVED, reason=why)
        if code is None:
            self._adds_order[site] = not same_order
        if mutant.change == DELETE:
            same_order = not self._adds_order.get(site, True)
        if same_order:
            why = "without it every access knows the same of all others"
            return Verdict(status=EQUIVALENT, reason=why)
        why = "no conflict of these launches needs what it orders"
        return Verdict(status=SURVIVED, reason=why)

    def _run(
        self,
        number: int,
        seed: int,
        *,
        code: ir.Function | None = None,
        weak: frozenset[int] = frozenset(),
        past: frozenset[int] = frozenset(),
        base: Seen | None = None,
    ) -> Seen:
        recorded = self.launches[number]
        options = replace(self.options, seed=seed)
        if base is not None:
            budget = max(_SLACK * base.warp_instructions, 100_000)
            options = replace(options, budget=min(options.budget, budget))
        before = recorded.memory.snapshot()
        try:
            watched = watch_launch(
                recorded.launch,
                recorded.memory,
                options,
                profile=self.profile,
                weak=weak,
                digest=code is None,
                code=self.function if past else code,
                past=past,
            )
            digest = hashlib.sha256()
            for allocation in recorded.memory:
                digest.update(allocation.data.tobytes())
        finally:
            recorded.memory.restore(before)
        outcome = watched.outcome
        kinds = {f.id: f.kind for f in outcome.findings}
        why = outcome.incomplete[0].reason if outcome.incomplete else ""
        return Seen(
            kinds=kinds,
            unfinished=why,
            bits=digest.hexdigest(),
            digest=watched.digest,
            warp_instructions=outcome.warp_instructions,
            executed=watched.executed,
            left=watched.unfinished,
        )
