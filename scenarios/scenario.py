"""A scenario: one call of a varlen attention forward as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sidestream.harness.errors import ContractError
from sidestream.scenarios.declaration import FLOAT8, Declaration
from sidestream.scenarios.fill import SCRATCH, TAIL_BITS
from sidestream.scenarios.layout import LAYOUTS, OUT_LAYOUTS, SHARED_LAYOUTS

VALUES = ("normal", "flat", "equal", "sharp", "ties", "faint", "large")
"""normal: unit normal. flat: keys so small that weights are nearly equal. equal: keys
are 0, so that weights are equal and need no rounding. sharp: keys so large that one
weight takes nearly all. ties: every key occurs twice. faint: the first key takes nearly
all and has no value, so that O is made of small weights. large: values near a tenth of
the format's square-root range, where fp16 products overflow fp16."""
STREAMS = ("default", "side")


@dataclass(frozen=True, kw_only=True)
class Scenario(Declaration):
    """One call of a varlen attention forward, without its data.

    A declaration is what a plan is made from. Of the fields here the first group is
    known on the device only; the second is the world around the call.

    Raises:
        ContractError: a field outside its choices, or fields that contradict.
    """

    name: str
    description: str
    tags: tuple[str, ...] = ()

    lengths_q: tuple[int, ...]
    lengths_kv: tuple[int, ...]
    base_q: int = 0
    """Element 0 of the prefix sums of the query side; needs the prefix form."""
    base_kv: int = 0
    sink_value: float | None = None
    """The sink of every head; None draws them from a unit normal."""
    values: str = "normal"
    nan_sequences: tuple[int, ...] = ()
    """Sequences whose K and V are NaN; every other sequence must be untouched."""
    nan_every: int = 1
    """One of so many tokens of theirs is NaN, the first and those that follow."""

    tail_q: int = 0
    """Tokens of capacity past the live total, in Q, O and LSE."""
    tail_kv: int = 0
    tail_fill: str = "nan"
    layout: str = "packed"
    out_layout: str = "packed"
    lse_slack: int = 0
    """Head stride of a head-major LSE beyond the token capacity."""
    scratch: str = "canary"
    stream: str = "default"
    seed: int = 0

    def __post_init__(self) -> None:
        for field, choices in self.choices():
            if getattr(self, field) not in choices:
                raise ContractError(
                    f"scenario {self.name!r}: {field} is {getattr(self, field)!r}, "
                    f"not one of {', '.join(map(str, choices))}"
                )
        for broken, message in self.contradictions():
            if broken:
                raise ContractError(f"scenario {self.name!r}: {message}")

    def choices(self) -> Iterator[tuple[str, tuple[str | None, ...]]]:
        """Names of fields, those of the declaration first, and what each may be."""
        yield from super().choices()
        yield "values", VALUES
        yield "tail_fill", tuple(TAIL_BITS)
        yield "layout", LAYOUTS
        yield "out_layout", OUT_LAYOUTS
        yield "scratch", SCRATCH
        yield "stream", STREAMS

    def contradictions(self) -> Iterator[tuple[bool, str]]:
        """Whether fields contradict each other, those of the declaration first."""
        yield from super().contradictions()
        yield from (
            (
                len(self.lengths_q) != len(self.lengths_kv) or not self.lengths_q,
                "both sides need the same number of sequences, at least one",
            ),
            (min((*self.lengths_q, *self.lengths_kv), default=0) < 0, "length < 0"),
            (
                self.layout in SHARED_LAYOUTS and self.width_v != self.head_dim,
                f"{self.layout} needs head_dim_v to be head_dim",
            ),
            (
                self.dtype == FLOAT8 and self.values == "large",
                f"large values overflow {FLOAT8}",
            ),
            (self.nan_every < 1, "nan_every must be positive"),
            (min(self.tail_q, self.tail_kv, self.lse_slack) < 0, "negative capacity"),
            (min(self.base_q, self.base_kv) < 0, "negative prefix base"),
            (
                self.base_q > 0 and self.lengths_q_form != "prefix",
                "base_q needs prefix",
            ),
            (
                self.base_kv > 0 and self.lengths_kv_form != "prefix",
                "base_kv needs prefix",
            ),
            (
                self.lse_slack > 0 and self.lse != "head_major",
                "lse_slack needs head_major",
            ),
            (self.sink_value is not None and not self.sinks, "sink_value needs sinks"),
            (
                self.layout == "fused_qkv" and self.capacity_q != self.capacity_kv,
                "fused_qkv needs equal token capacities",
            ),
            (
                any(not 0 <= b < self.batch for b in self.nan_sequences),
                "nan_sequences names a sequence that does not exist",
            ),
            (
                self.max_len_q is not None and self.max_len_q < max(self.lengths_q),
                "a query length exceeds max_len_q",
            ),
            (
                self.max_len_kv is not None and self.max_len_kv < max(self.lengths_kv),
                "a key length exceeds max_len_kv",
            ),
        )

    @property
    def batch(self) -> int:
        """Sequences, empty ones included."""
        return len(self.lengths_q)

    @property
    def total_q(self) -> int:
        """Live query tokens."""
        return sum(self.lengths_q)

    @property
    def total_kv(self) -> int:
        """Live key tokens."""
        return sum(self.lengths_kv)

    @property
    def capacity_q(self) -> int:
        """Token extent of Q, O and LSE."""
        return self.total_q + self.tail_q

    @property
    def capacity_kv(self) -> int:
        """Token extent of K and V."""
        return self.total_kv + self.tail_kv

    @property
    def declared_max_q(self) -> int:
        """Longest query sequence the plan must serve."""
        return self.max_len_q or max(1, *self.lengths_q)

    @property
    def declared_max_kv(self) -> int:
        """Longest key sequence the plan must serve."""
        return self.max_len_kv or max(1, *self.lengths_kv)

    def declaration(self) -> dict[str, Any]:
        """Return the plan-time facts, named as the arguments of `AttentionSpec`.

        The arch and anything else about the device are the caller's to add. Facts that
        our kernels do not know are left out while they have their default.
        """
        same = (
            "dtype",
            "batch",
            "heads_q",
            "heads_kv",
            "head_dim",
            "causal",
            "window_left",
            "window_right",
            "anchor",
            "sinks",
            "lse",
            "scale",
        )
        return {
            **{field: getattr(self, field) for field in same},
            "max_len_q": self.declared_max_q,
            "max_len_kv": self.declared_max_kv,
            "lengths_q": self.lengths_q_form,
            "lengths_kv": self.lengths_kv_form,
            **self._beyond(),
        }

    def _beyond(self) -> dict[str, Any]:
        """Return what is declared beyond the interface of our kernels."""
        plain = self.narrow and self.descales is None and not self.block_scaled
        facts = {
            "head_dim_v": self.width_v if self.width_v != self.head_dim else None,
            "out_dtype": self.output_dtype if self.narrow else None,
            "descaled": False if plain else None,
            "block_scaled": True if self.block_scaled else None,
            "splits": self.splits if self.splits > 1 else None,
            "route": self.route if self.route != "default" else None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def flops(self) -> int:
        """Work of both matrix products without a mask, in flop."""
        pairs = sum(q * k for q, k in zip(self.lengths_q, self.lengths_kv, strict=True))
        return 2 * pairs * self.heads_q * (self.head_dim + self.width_v)
