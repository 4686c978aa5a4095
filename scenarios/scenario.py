"""A scenario: one call of a varlen attention forward as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sidestream.harness.errors import ContractError
from sidestream.reference.mask import ANCHORS, CAUSAL
from sidestream.scenarios.fill import SCRATCH, TAIL_BITS
from sidestream.scenarios.layout import LAYOUTS, LSE, OUT_LAYOUTS, SHARED_LAYOUTS

DTYPES = ("float16", "bfloat16")
FLOAT8 = "float8_e4m3fn"
ONE_BYTE = (FLOAT8, "float8_e5m2")
"""Types of inputs that may come with factors, and O in any type: bfloat16 unless said.
O of these types has a factor too."""
ROUTES = ("default", "clc", "role-split")
"""default: what the implementation chooses. clc: tiles are taken by cluster launch
control. role-split: one CTA pair makes the weights, another uses them. What has no such
route declines."""
FORMS = ("counts", "prefix")
VALUES = ("normal", "flat", "equal", "sharp", "ties", "faint", "large")
"""normal: unit normal. flat: keys so small that weights are nearly equal. equal: keys
are 0, so that weights are equal and need no rounding. sharp: keys so large that one
weight takes nearly all. ties: every key occurs twice. faint: the first key takes nearly
all and has no value, so that O is made of small weights. large: values near a tenth of
the format's square-root range, where fp16 products overflow fp16."""
STREAMS = ("default", "side")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One call of a varlen attention forward, without its data.

    The first group of fields is what a plan is made from and is named as in
    `sidestream.kernels.spec`; the second is known on the device only; the third is
    the world around the call.

    Raises:
        ContractError: a field outside its choices, or fields that contradict.
    """

    name: str
    description: str
    tags: tuple[str, ...] = ()

    dtype: str = "bfloat16"
    heads_q: int = 2
    heads_kv: int = 1
    head_dim: int = 64
    head_dim_v: int | None = None
    """Of V and O; None means `head_dim`."""
    descales: tuple[float, float, float] | None = None
    """Factors of Q, K and V, for one-byte inputs only."""
    block_scaled: bool = False
    """Whether every 32 elements of one-byte inputs have a scale; no input has a
    factor."""
    out_dtype: str | None = None
    """Type of O, for one-byte inputs only; None means bfloat16 there."""
    scale_out: float | None = None
    """Factor of O before it is rounded, for a one-byte O and always there."""
    splits: int = 1
    """Parts of the keys that are worked on apart and combined."""
    route: str = "default"
    causal: str = "none"
    window_left: int | None = None
    window_right: int | None = None
    anchor: str | None = None
    """Anchor of a window without `causal`; None means the top left."""
    sinks: bool = False
    lse: str = "token_major"
    lengths_q_form: str = "counts"
    lengths_kv_form: str = "counts"
    scale: float | None = None
    max_len_q: int | None = None
    """Declared maximum; None declares the longest sequence (at least 1)."""
    max_len_kv: int | None = None

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
        for field, choices in (
            ("dtype", (*DTYPES, *ONE_BYTE)),
            ("out_dtype", (None, *DTYPES, *ONE_BYTE)),
            ("route", ROUTES),
            ("causal", CAUSAL),
            ("lse", LSE),
            ("lengths_q_form", FORMS),
            ("lengths_kv_form", FORMS),
            ("values", VALUES),
            ("tail_fill", tuple(TAIL_BITS)),
            ("layout", LAYOUTS),
            ("out_layout", OUT_LAYOUTS),
            ("anchor", (None, *ANCHORS)),
            ("scratch", SCRATCH),
            ("stream", STREAMS),
        ):
            if getattr(self, field) not in choices:
                raise ContractError(
                    f"scenario {self.name!r}: {field} is {getattr(self, field)!r}, "
                    f"not one of {', '.join(map(str, choices))}"
                )
        for broken, message in (
            (
                len(self.lengths_q) != len(self.lengths_kv) or not self.lengths_q,
                "both sides need the same number of sequences, at least one",
            ),
            (min((*self.lengths_q, *self.lengths_kv), default=0) < 0, "length < 0"),
            (
                self.head_dim < 8 or self.head_dim * self.item % 16 != 0,
                "head_dim must be a multiple of 16 bytes",
            ),
            (
                self.width_v < 8 or self.width_v * self.item % 16 != 0,
                "head_dim_v must be a multiple of 16 bytes",
            ),
            (
                self.layout in SHARED_LAYOUTS and self.width_v != self.head_dim,
                f"{self.layout} needs head_dim_v to be head_dim",
            ),
            (
                self.dtype == FLOAT8 and self.values == "large",
                f"large values overflow {FLOAT8}",
            ),
            (
                self.descales is not None and not self.narrow,
                "descales need one-byte inputs",
            ),
            (
                self.block_scaled and (not self.narrow or self.descales is not None),
                "block_scaled needs one-byte inputs, and no descales",
            ),
            (
                self.block_scaled and max(self.head_dim, self.width_v) > 128,
                "block_scaled is laid out for head dims up to 128",
            ),
            (
                self.out_dtype not in (None, self.dtype) and not self.narrow,
                "an out_dtype of its own needs one-byte inputs",
            ),
            (
                (self.scale_out is not None) != (self.output_dtype in ONE_BYTE),
                "scale_out belongs to a one-byte O",
            ),
            (
                self.scale_out is not None and self.scale_out <= 0.0,
                "scale_out must be positive",
            ),
            (
                self.descales is not None
                and (len(self.descales) != 3 or min(self.descales) <= 0.0),
                "descales are three positive factors",
            ),
            (self.splits < 1, "splits must be positive"),
            (self.nan_every < 1, "nan_every must be positive"),
            (
                self.heads_kv < 1 or self.heads_q < 1 or self.heads_q % self.heads_kv,
                "heads_q must be a multiple of heads_kv",
            ),
            (min(self.tail_q, self.tail_kv, self.lse_slack) < 0, "negative capacity"),
            (min(self.base_q, self.base_kv) < 0, "negative prefix base"),
            (self.base_q and self.lengths_q_form != "prefix", "base_q needs prefix"),
            (self.base_kv and self.lengths_kv_form != "prefix", "base_kv needs prefix"),
            (self.lse_slack and self.lse != "head_major", "lse_slack needs head_major"),
            (
                self.causal != "none" and self.window_right is not None,
                "causal already means window_right 0",
            ),
            (
                self.causal != "none" and self.anchor not in (None, self.causal),
                "anchor contradicts causal",
            ),
            (self.scale == 0.0, "scale must not be zero"),
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
        ):
            if broken:
                raise ContractError(f"scenario {self.name!r}: {message}")

    @property
    def width_v(self) -> int:
        """Head dim of V and O."""
        return self.head_dim if self.head_dim_v is None else self.head_dim_v

    @property
    def narrow(self) -> bool:
        """Whether Q, K and V have one-byte elements; the largest |O| is told then."""
        return self.dtype in ONE_BYTE

    @property
    def item(self) -> int:
        """Bytes of an element of Q, K and V."""
        return 1 if self.narrow else 2

    @property
    def output_dtype(self) -> str:
        """Type of O."""
        return self.out_dtype or ("bfloat16" if self.narrow else self.dtype)

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
