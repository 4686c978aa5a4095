"""Scenarios about the numbers: poison around the data, and hard values in it."""

from __future__ import annotations

from sidestream.scenarios.core import core
from sidestream.scenarios.scenario import Scenario

NUMERICS: tuple[Scenario, ...] = (
    core(
        name="nan-tail",
        description="NaN past the packed total reaches P V as 0 * NaN when bounds are "
        "those of the capacity (NVIDIA/cudnn-frontend#624; #842 on SM120). Its "
        "lengths [200, 150, 47], halved.",
        tags=("numerics", "tail"),
        lengths_q=(100, 75, 23),
        lengths_kv=(100, 75, 23),
        tail_q=122,
        tail_kv=122,
    ),
    Scenario(
        name="nan-tail-fp16-d128",
        description="nan-tail in fp16 at head dim 128 (NVIDIA/cudnn-frontend#842).",
        tags=("numerics", "tail"),
        dtype="float16",
        head_dim=128,
        lengths_q=(50, 37, 11),
        lengths_kv=(100, 75, 23),
        tail_q=30,
        tail_kv=130,
        causal="bottom_right",
    ),
    core(
        name="inf-tail",
        description="Infinity past the total: inf * 0 is NaN as well.",
        tags=("numerics", "tail"),
        lengths_q=(33, 20),
        lengths_kv=(65, 96),
        tail_q=31,
        tail_kv=65,
        tail_fill="inf",
    ),
    Scenario(
        name="huge-tail",
        description="The largest finite value past the total: products overflow, and "
        "no NaN points at the culprit.",
        tags=("numerics", "tail"),
        dtype="float16",
        lengths_q=(33, 20),
        lengths_kv=(65, 97),
        tail_q=31,
        tail_kv=65,
        tail_fill="huge",
    ),
    core(
        name="tail-one-token",
        description="A tail of one poisoned token behind a length of tile - 1.",
        tags=("numerics", "tail", "tile-edge"),
        lengths_q=(64, 63),
        lengths_kv=(64, 63),
        tail_q=1,
        tail_kv=1,
    ),
    core(
        name="neighbour-nan",
        description="One sequence holds NaN in K and V; a tile that overshoots into it "
        "must not carry it to the others (a compact clamp bounds the packed "
        "total only).",
        tags=("numerics", "neighbour-nan"),
        lengths_q=(30, 40, 20),
        lengths_kv=(70, 33, 65),
        nan_sequences=(1,),
    ),
    core(
        name="flat-weights",
        description="Nearly equal weights over many keys: errors of P add up the most.",
        tags=("numerics", "values"),
        lengths_q=(20, 64),
        lengths_kv=(300, 64),
        values="flat",
    ),
    core(
        name="sharp-weights",
        description="One weight takes nearly all; the running maximum jumps often.",
        tags=("numerics", "values"),
        lengths_q=(64, 20),
        lengths_kv=(200, 64),
        values="sharp",
    ),
    core(
        name="tied-keys",
        description="Every key occurs twice: ties at the maximum.",
        tags=("numerics", "values"),
        lengths_q=(20, 64),
        lengths_kv=(130, 64),
        values="ties",
    ),
    Scenario(
        name="large-values-fp16",
        description="Values whose partial products leave fp16's range: scores and "
        "sums must be fp32.",
        tags=("numerics", "values"),
        dtype="float16",
        lengths_q=(20, 40),
        lengths_kv=(65, 40),
        values="large",
    ),
    Scenario(
        name="negative-scale",
        description="A negative scale turns the order of the scores around.",
        tags=("numerics", "scale"),
        lengths_q=(33, 20),
        lengths_kv=(70, 20),
        causal="top_left",
        scale=-0.3,
    ),
    Scenario(
        name="custom-scale",
        description="A scale that is no power of two and not 1/sqrt(d).",
        tags=("numerics", "scale"),
        dtype="float16",
        lengths_q=(33, 20),
        lengths_kv=(70, 20),
        scale=0.2171,
    ),
)
