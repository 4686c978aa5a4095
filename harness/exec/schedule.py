"""Schedules: who decides what an execution leaves open, as a value and as a string.

    round-robin          warps in turn, operations land at once
    random:SEED          every decision drawn
    pct:SEED:DEPTH       the warp of highest priority runs; DEPTH times it falls behind
    given:STRING         the decisions of an earlier execution

A given schedule lists the decisions that were not the usual ones (`core/schedule.h`),
so that it can be shortened by leaving some out: `shrink`.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidestream.harness.errors import UsageError

ROUND_ROBIN = "round-robin"
_SEEDED = re.compile(r"random:([1-9]\d{0,18})")
_PCT = re.compile(r"pct:([1-9]\d{0,18}):(\d{1,2})")
_MOST_DEPTH = 16
_FORMS = "round-robin, random:SEED, pct:SEED:DEPTH or given:STRING"

Choices = tuple[tuple[int, int], ...]
"""Number of a decision and its answer, in order of the numbers."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One way to make the decisions of an execution.

    Attributes:
        policy: `round-robin`, `random`, `pct` or `given`.
        seed: Of `random` and `pct`.
        depth: Of `pct`: how often the running warp falls behind all others.
        choices: Of `given`.
    """

    policy: str = ROUND_ROBIN
    seed: int = 0
    depth: int = 0
    choices: Choices = ()

    @staticmethod
    def parse(text: str) -> Schedule:
        """Read a schedule.

        Raises:
            UsageError: it is none, with the forms there are.
        """
        if text == ROUND_ROBIN:
            return Schedule()
        if found := _SEEDED.fullmatch(text):
            return Schedule(policy="random", seed=int(found[1]))
        if found := _PCT.fullmatch(text):
            if int(found[2]) > _MOST_DEPTH:
                raise UsageError(f"schedule {text}: DEPTH is at most {_MOST_DEPTH}")
            return Schedule(policy="pct", seed=int(found[1]), depth=int(found[2]))
        if text.startswith("given:"):
            return Schedule(policy="given", choices=_unpack(text[6:], text))
        raise UsageError(f"schedule {text!r} is none of {_FORMS}")

    def spell(self) -> str:
        """Return the string that `parse` reads back."""
        if self.policy == "random":
            return f"random:{self.seed}"
        if self.policy == "pct":
            return f"pct:{self.seed}:{self.depth}"
        if self.policy == "given":
            return "given:" + _pack(self.choices)
        return ROUND_ROBIN


def shrink(
    choices: Choices, fails: Callable[[Choices], bool], *, most_runs: int = 400
) -> Choices:
    """Return choices, as few as found, that still fail.

    Delta debugging (Zeller and Hildebrandt, 2002): leave out halves, quarters and so on
    as long as the failure stays. Each try is one execution.

    Args:
        choices: Of an execution that fails.
        fails: Executes with fewer choices and tells whether the failure is the same.
        most_runs: Executions after which it is given up; what is reached then counts.
    """
    left, parts, runs = list(choices), 2, 0
    while left and runs < most_runs:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            fewer = left[:start] + left[start + size :]
            runs += 1
            if fails(tuple(fewer)):
                left, parts = fewer, max(parts - 1, 2)
                break
            if runs >= most_runs:
                return tuple(left)
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(left))
    return tuple(left)


def _numbers(values: Sequence[int]) -> bytes:
    out = bytearray()
    for value in values:
        rest = value
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def _pack(choices: Choices) -> str:
    values, last = [], 0
    for at, answer in choices:
        values += [at - last, answer]
        last = at
    packed = zlib.compress(_numbers(values), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _damaged(whole: str) -> str:
    shown = whole if len(whole) <= 40 else f"{whole[:40]}..."
    return f"schedule {shown} is damaged: give it whole, as it was printed"


def _unpack(text: str, whole: str) -> Choices:
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        data = zlib.decompress(packed)
    except (ValueError, zlib.error) as error:
        raise UsageError(_damaged(whole)) from error
    values: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            values.append(value)
            value = shift = 0
    if shift or len(values) % 2:
        raise UsageError(_damaged(whole))
    choices, at = [], 0
    for delta, answer in zip(values[::2], values[1::2], strict=True):
        at += delta
        choices.append((at, answer))
    return tuple(choices)
