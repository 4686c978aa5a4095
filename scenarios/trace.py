"""Request traces as a source of sequence lengths.

    for step in steps(excerpt("conv"), limit=20):
        inputs = build(step.scenario())

A trace is a CSV with the columns TIMESTAMP, ContextTokens and GeneratedTokens, one
request a row in order of arrival: the format of the Azure LLM inference trace 2023
(Azure Public Dataset, Microsoft, CC BY 4.0), of which `scenarios/data` has excerpts.

Real prompts have thousands of tokens. `scale` shrinks the workload so that its shape
stays: prompts and generations are divided by it (rounded up), and one step stands for
`scale` real ones in time, so about as many requests are active at once as before.
`max_context` and `max_generated` cap what is left.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sidestream.harness.errors import ContractError, UsageError
from sidestream.scenarios.batcher import Request, Step, batch
from sidestream.scenarios.core import CORE, core
from sidestream.scenarios.scenario import Scenario

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_DATA = Path(__file__).parent / "data"
EXCERPTS = {
    "conv": _DATA / "azure_llm_2023_conv.csv",
    "code": _DATA / "azure_llm_2023_code.csv",
}
"""The traces that come with the package, by name."""


@dataclass(frozen=True, kw_only=True)
class TraceStep(Step):
    """A step of a batcher that serves a trace."""

    trace: str
    """Name of the trace, from its file."""

    @property
    def totals(self) -> tuple[int, int]:
        """Packed query and key tokens of the step."""
        return sum(self.lengths_q), sum(self.lengths_kv)

    def scenario(self, **facts: Any) -> Scenario:
        """Return the step as a scenario of the core declaration.

        `facts` overrides or adds fields of `Scenario` that the core leaves open.
        """
        served = sum(request is not None for request in self.requests)
        given: dict[str, Any] = {
            "name": f"trace-{self.trace}-{self.index:04d}",
            "description": f"Step {self.index} of trace {self.trace} at "
            f"{self.time:.2f} s: {served} of {len(self.requests)} slots, "
            f"{self.waiting} requests waiting.",
            "tags": ("trace",),
            "heads_q": 2,
            "heads_kv": 1,
            "lengths_q": self.lengths_q,
            "lengths_kv": self.lengths_kv,
            "seed": self.index,
        }
        return core(**{**given, **facts})


def excerpt(name: str) -> Path:
    """Return the path of a shipped trace.

    Raises:
        UsageError: `name` is not one of `EXCERPTS`.
    """
    if name not in EXCERPTS:
        raise UsageError(f"no trace is called {name!r}; known: {', '.join(EXCERPTS)}")
    return EXCERPTS[name]


def read(path: str | Path) -> Iterator[Request]:
    """Yield the requests of a trace file; arrivals count from the first row.

    Raises:
        UsageError: the file cannot be read, lacks a column, has no rows, or has a bad
            one; the message carries its line number.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            yield from _rows(csv.DictReader(file), str(path))
    except OSError as error:
        raise UsageError(f"trace {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"trace {path}: not a text file") from error
    except csv.Error as error:
        raise UsageError(f"trace {path}: not a CSV file: {error}") from error


def _rows(reader: csv.DictReader[str], path: str) -> Iterator[Request]:
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(
            f"trace {path}: no column {', '.join(missing)}; needs {', '.join(COLUMNS)}"
        )
    first = before = None
    for number, row in enumerate(reader):
        where = f"trace {path}, line {reader.line_num}"
        stamp, context, generated = (row[name] or "" for name in COLUMNS)
        try:
            moment = datetime.fromisoformat(stamp.strip())
        except ValueError:
            raise UsageError(f"{where}: TIMESTAMP is {stamp!r}") from None
        first, before = first or moment, before or moment
        try:
            late = moment < before
            arrival = (moment - first).total_seconds()
        except TypeError:
            raise UsageError(
                f"{where}: mixes timestamps with and without zone"
            ) from None
        if late:
            raise UsageError(f"{where}: arrives before the row above")
        before = moment
        yield Request(
            number=number,
            arrival=arrival,
            context=_count(context, "ContextTokens", where),
            generated=_count(generated, "GeneratedTokens", where),
        )
    if first is None:
        raise UsageError(f"trace {path}: no requests")


def _count(text: str, column: str, where: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"{where}: {column} is {text!r}, not a number of tokens")
    return int(text)


def scaled(
    requests: Iterable[Request], *, scale: int, max_context: int, max_generated: int
) -> Iterator[Request]:
    """Shrink requests by `scale`; every request keeps at least one token of each."""
    for request in requests:
        yield Request(
            number=request.number,
            arrival=request.arrival,
            context=min(max_context, max(1, -(-request.context // scale))),
            generated=min(max_generated, max(1, -(-request.generated // scale))),
        )


def steps(
    path: str | Path,
    *,
    slots: int = 8,
    token_budget: int = 112,
    scale: int = 16,
    max_context: int = 256,
    max_generated: int = 64,
    step_seconds: float = 0.05,
    limit: int | None = None,
) -> Iterator[TraceStep]:
    """Replay the trace at `path` and yield its first `limit` steps (None: all).

    `token_budget` is in scaled tokens, `step_seconds` in real seconds of one real
    step. Steps in which the totals of the one before would repeat occur only if one
    request leaves as an equal one comes.

    Raises:
        UsageError: as `read`, raised when the row is reached.
        ContractError: parameters that cannot work, or lengths that the core
            declaration does not cover.
    """
    if scale < 1 or max_context < 1 or max_generated < 1:
        raise ContractError("scale, max_context and max_generated must be at least 1")
    longest = min(CORE["max_len_q"], CORE["max_len_kv"])
    if max_context + max_generated > longest:
        raise ContractError(
            f"max_context {max_context} + max_generated {max_generated} exceed the "
            f"declared maximum {longest}"
        )
    if limit is not None and limit < 0:
        raise ContractError(f"limit must not be negative, not {limit}")
    requests = scaled(
        read(path), scale=scale, max_context=max_context, max_generated=max_generated
    )
    served = batch(
        requests,
        slots=slots,
        token_budget=token_budget,
        step_seconds=step_seconds * scale,
    )
    name = "".join(c if c.isalnum() else "-" for c in Path(path).stem.lower())
    for step in itertools.islice(served, limit):
        yield TraceStep(
            index=step.index,
            time=step.time,
            lengths_q=step.lengths_q,
            lengths_kv=step.lengths_kv,
            requests=step.requests,
            waiting=step.waiting,
            trace=name,
        )
