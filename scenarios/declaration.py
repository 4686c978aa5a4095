"""What a scenario declares: the facts that a plan is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidestream.reference.mask import ANCHORS, CAUSAL
from sidestream.scenarios.layout import LSE

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


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Plan-time facts of one call, named as in `sidestream.kernels.spec`.

    Maxima left out, and what only the lengths tell, are the scenario's to add.
    """

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

    def choices(self) -> Iterator[tuple[str, tuple[str | None, ...]]]:
        """Names of fields, and what each may be."""
        yield "dtype", (*DTYPES, *ONE_BYTE)
        yield "out_dtype", (None, *DTYPES, *ONE_BYTE)
        yield "route", ROUTES
        yield "causal", CAUSAL
        yield "anchor", (None, *ANCHORS)
        yield "lse", LSE
        yield "lengths_q_form", FORMS
        yield "lengths_kv_form", FORMS

    def contradictions(self) -> Iterator[tuple[bool, str]]:
        """Whether fields contradict each other, and what is broken then."""
        yield from (
            (
                self.head_dim < 8 or self.head_dim * self.item % 16 != 0,
                "head_dim must be a multiple of 16 bytes",
            ),
            (
                self.width_v < 8 or self.width_v * self.item % 16 != 0,
                "head_dim_v must be a multiple of 16 bytes",
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
            (
                min(self.heads_q, self.heads_kv) < 1
                or self.heads_q % self.heads_kv != 0,
                "heads_q must be a multiple of heads_kv",
            ),
            (
                self.causal != "none" and self.window_right is not None,
                "causal already means window_right 0",
            ),
            (
                self.causal != "none" and self.anchor not in (None, self.causal),
                "anchor contradicts causal",
            ),
            (self.scale == 0.0, "scale must not be zero"),
        )

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
