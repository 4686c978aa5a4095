"""Look for a schedule under which a launch fails, and make it short.

A race is found without it, from any run. It is for what depends on the order itself:
deadlocks, paths that data decide, and a run in which a race changes the results.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.outcome import Outcome
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.machine import Options
from sidestream.harness.exec.result import choices_of
from sidestream.harness.exec.schedule import Choices, Schedule, shrink
from sidestream.harness.launch import Launch

DEPTH = 3
"""Of `pct` where none is given."""
_FORMS = "random:NUMBER, pct:NUMBER, pct:NUMBER:DEPTH or exhaustive:NUMBER"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A schedule under which the launch goes otherwise than in turn.

    Attributes:
        schedule: Shortened; `spell` gives the string for `--schedule`.
        outcome: What executing it gives.
        differs: Whether memory differs, where that is all there is.
        tried: Schedules executed until it was found.
    """

    schedule: Schedule
    outcome: Outcome
    differs: bool
    tried: int


def schedules(text: str) -> Iterator[Schedule]:
    """Give the schedules that a word of `--explore` stands for.

    `exhaustive:N` takes the order in turn and changes one decision after the other,
    then pairs, among the first N decisions.

    Raises:
        UsageError: it is none, with the forms there are.
    """
    words = text.split(":")
    numbers = [int(word) for word in words[1:] if word.isdecimal()]
    if len(numbers) != len(words) - 1 or not numbers:
        raise UsageError(f"{text!r} is none of {_FORMS}")
    if 0 in numbers:
        raise UsageError(f"{text!r} explores nothing: numbers start at 1")
    number, depth = numbers[0], numbers[1] if len(numbers) > 1 else DEPTH
    if words[0] == "random" and len(numbers) == 1:
        for seed in range(1, number + 1):
            yield Schedule(policy="random", seed=seed)
    elif words[0] == "pct" and len(numbers) <= 2:
        for seed in range(1, number + 1):
            yield Schedule(policy="pct", seed=seed, depth=depth)
    elif words[0] == "exhaustive" and len(numbers) == 1:
        yield from _exhaustive(number)
    else:
        raise UsageError(f"{text!r} is none of {_FORMS}")


def _exhaustive(decisions: int) -> Iterator[Schedule]:
    """One decision changed, then two: answers are warps, lengths and operations."""
    single = [(at, answer) for at in range(decisions) for answer in range(8)]
    for choice in single:
        yield Schedule(policy="given", choices=(choice,))
    for first, second in itertools.combinations(single, 2):
        if first[0] != second[0]:
            yield Schedule(policy="given", choices=(first, second))


def explore(
    launch: Launch,
    table: AllocationTable,
    options: Options,
    wanted: Iterable[Schedule],
    *,
    profile: str | None = None,
    tell: Callable[[int], None] | None = None,
) -> Failure | None:
    """Execute a launch under schedules until one fails; None if none does.

    A failure is a kind of finding that the order in turn does not give, or memory that
    differs from what it leaves. Memory is restored after each execution.

    Args:
        launch: The launch.
        table: Its memory.
        options: Budgets; its schedule does not matter.
        wanted: What to try, in order.
        profile: Under which to look for races, or None not to.
        tell: Called with the number of schedules tried.
    """
    before = table.snapshot()

    def run(schedule: Schedule) -> tuple[Outcome, str]:
        try:
            made = options.scheduled(schedule)
            outcome = run_launch(launch, table, made, None, profile)
            digest = hashlib.sha256()
            for allocation in table:
                digest.update(allocation.data.tobytes())
            return outcome, digest.hexdigest()
        finally:
            table.restore(before)

    base, bits = run(Schedule())
    usual = {f.kind for f in base.findings}

    def failure(outcome: Outcome, left: str) -> frozenset[str]:
        kinds = {f.kind for f in outcome.findings} - usual
        if outcome.finished and base.finished and left != bits:
            kinds |= {"output"}
        return frozenset(kinds)

    for tried, schedule in enumerate(wanted, 1):
        outcome, left = run(schedule)
        if tell is not None:
            tell(tried)
        kinds = failure(outcome, left)
        if not kinds:
            continue

        def same(choices: Choices, kinds: frozenset[str] = kinds) -> bool:
            given = Schedule(policy="given", choices=choices)
            return kinds <= failure(*run(given))

        choices = choices_of(outcome.made)
        if choices and same(choices):
            short = Schedule(policy="given", choices=shrink(choices, same))
            outcome, left = run(short)
            schedule = short
        return Failure(
            schedule=schedule,
            outcome=outcome,
            differs="output" in kinds,
            tried=tried,
        )
    return None
