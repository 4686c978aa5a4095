"""Landing: when pending operations run, as a policy and as a string.

    eager          every operation lands when it is called, in the order of the program
    laziest        nothing lands before a wait of the host needs it
    latest         likewise, and of what may land that which was called last
    round-robin    at a wait the streams take turns, needed or not
    random:SEED    at a wait every next operation is drawn from those that are ready
    given:STRING   the decisions of an earlier run

Whenever an operation is to land, the candidates are those with nothing pending before
them: needed ones first, then the others, each by age. The usual decision is the first
candidate; `given` lists the decisions that were others, so that it can be shortened by
leaving some out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sidestream.harness.errors import UsageError
from sidestream.harness.exec.schedule import Choices, Schedule
from sidestream.harness.runtime.op import Op

EAGER, LAZIEST, LATEST = "eager", "laziest", "latest"
ROUND_ROBIN = "round-robin"
_SEEDED = re.compile(r"random:([1-9]\d{0,18})")
_FORMS = "eager, laziest, latest, round-robin, random:SEED or given:STRING"


@dataclass(frozen=True, kw_only=True)
class Landing:
    """One way to decide when operations land.

    Attributes:
        policy: `eager`, `laziest`, `latest`, `round-robin`, `random` or `given`.
        seed: Of `random`.
        choices: Of `given`: number of a decision and its answer.
    """

    policy: str = ROUND_ROBIN
    seed: int = 0
    choices: Choices = ()

    @staticmethod
    def parse(text: str) -> Landing:
        """Read a policy.

        Raises:
            UsageError: it is none, with the forms there are.
        """
        if text in (EAGER, LAZIEST, LATEST, ROUND_ROBIN):
            return Landing(policy=text)
        if found := _SEEDED.fullmatch(text):
            return Landing(policy="random", seed=int(found[1]))
        if text.startswith("given:"):
            return Landing(policy="given", choices=Schedule.parse(text).choices)
        raise UsageError(f"landing policy {text!r} is none of {_FORMS}")

    def spell(self) -> str:
        """Return the string that `parse` reads back."""
        if self.policy == "random":
            return f"random:{self.seed}"
        if self.policy == "given":
            return Schedule(policy="given", choices=self.choices).spell()
        return self.policy


class Decisions:
    """Makes the decisions of one run by a policy and keeps them.

    Args:
        landing: The policy.
    """

    def __init__(self, landing: Landing) -> None:
        self.landing = landing
        self._random = random.Random(landing.seed)
        self._given = dict(landing.choices)
        self._served: dict[int, int] = {}
        self._number = 0
        self._made: list[tuple[int, int]] = []

    @property
    def eager(self) -> bool:
        """Whether operations land when they are called."""
        return self.landing.policy == EAGER

    def choose(self, candidates: Sequence[Op], *, needed: int) -> Op:
        """Return the operation that lands next.

        Args:
            candidates: Those that may, needed ones first; at least one.
            needed: How many of them are needed.
        """
        answer = 0
        if len(candidates) > 1:
            answer = self._answer(candidates, needed)
            if answer:
                self._made.append((self._number, answer))
            self._number += 1
        chosen = candidates[answer]
        self._served[chosen.agent] = chosen.id
        return chosen

    def made(self) -> Landing:
        """Return the policy that makes the same decisions again."""
        if self.eager:
            return self.landing
        return Landing(policy="given", choices=tuple(self._made))

    def _answer(self, candidates: Sequence[Op], needed: int) -> int:
        match self.landing.policy:
            case "random":
                return self._random.randrange(len(candidates))
            case "latest":
                return max(needed, 1) - 1
            case "round-robin":
                turns = [self._served.get(op.agent, 0) for op in candidates]
                return turns.index(min(turns))
            case "given":
                # A shortened list may meet fewer candidates than the full one did.
                return min(self._given.get(self._number, 0), len(candidates) - 1)
        return 0
