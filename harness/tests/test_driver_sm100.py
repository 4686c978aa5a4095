"""The drivers on SM100: what is declined and why, launches, metadata, host work."""

import importlib.util

import numpy as np
import pytest
from sm100_drive import STREAM, apart, float8, reasons

NARROW = {"dtype": "float8_e4m3fn", "descales": (1.0, 1.0, 1.0)}
SCALED = {"dtype": "float8_e4m3fn", "block_scaled": True}
DECLINED = [
    ("fa4", SCALED, "no scales of blocks"),
    ("sidestream", SCALED | {"head_dim": 144}, "multiple of 16 in [16, 128]"),
    ("fa4", {"head_dim": 512}, "multiples of 8 up to 128"),
    ("fa4", {"dtype": "float8_e4m3fn", "head_dim": 72}, "multiples of 16"),
    (
        "fa4",
        {"dtype": "float8_e4m3fn", "descales": (1.0, 1.0, 1.0)},
        "no descales",
    ),
    ("fa4", {"splits": 2, "head_dim": 192, "head_dim_v": 128}, "64 key tiles"),
    ("fa4", {"route": "role-split"}, "no role-split route"),
    ("fa4", {"route": "clc", "heads_kv": 4}, "without grouped heads"),
    ("fa4", {"route": "clc", "head_dim": 256}, "tiles of d256"),
    ("cudnn", {"splits": 2}, "without splits"),
    ("cudnn", {"route": "clc"}, "no clc route"),
    ("cudnn", {"route": "role-split"}, "kernel of d512"),
    # The package's own words, from its support check.
    ("cudnn", {"dtype": "float8_e4m3fn", "head_dim": 64}, "cuDNN frontend declines"),
    ("cudnn", {"head_dim": 520}, "cuDNN frontend declines"),
    ("sidestream", {"head_dim": 520, "head_dim_v": 64}, "in [8, 512]"),
    ("sidestream", {"dtype": "float8_e4m3fn"}, "come with factors"),
    ("sidestream", NARROW | {"head_dim": 144}, "multiple of 16 in [16, 128]"),
    ("fa4", {"dtype": "float8_e4m3fn", "out_dtype": "float16"}, "bfloat16 outputs"),
    ("cudnn", NARROW | {"out_dtype": "float8_e4m3fn"}, "bfloat16 outputs"),
    ("sidestream", {"splits": 2}, "never split"),
    ("sidestream", {"route": "clc"}, "no clc route"),
]

SERVED = [
    ("cudnn", SCALED | {"head_dim": 128}),
    ("sidestream", SCALED | {"out_dtype": "float16"}),
    ("fa4", {"head_dim": 256, "sinks": True}),
    ("fa4", {"head_dim": 192, "head_dim_v": 128}),
    ("fa4", {"splits": 3, "causal": "none"}),
    ("fa4", {"route": "clc"}),
    ("cudnn", {"head_dim": 512, "route": "role-split"}),
    ("cudnn", {"head_dim": 192, "head_dim_v": 128}),
    ("cudnn", {"dtype": "float8_e4m3fn", "head_dim": 128}),
    ("cudnn", {"sinks": True, "lengths_q_form": "counts"}),
    ("sidestream", {"head_dim": 192, "head_dim_v": 128}),
    ("sidestream", {"head_dim": 512, "sinks": True}),
    ("sidestream", NARROW),
    ("sidestream", NARROW | {"dtype": "float8_e5m2", "out_dtype": "float8_e4m3fn"}),
]


@pytest.fixture(scope="module")
def cudnn():
    if importlib.util.find_spec("cudnn") is None:
        pytest.skip("cudnn is not installed")


def test_what_is_not_served_is_declined_with_the_reason(cudnn):
    asked = [*((name, changes) for name, changes, _ in DECLINED), *SERVED]
    told = apart(reasons, asked)
    for (name, changes, reason), got in zip(DECLINED, told, strict=False):
        assert got is not None, (name, changes)
        assert reason in got, (name, changes)
    assert told[len(DECLINED) :] == [None] * len(SERVED)


def test_the_float8_forward_of_cudnn(cudnn):
    lengths = (70, 0, 130, 5)
    shown = apart(
        float8,
        {
            "descales": (0.5, 2.0, 1.5),
            "lengths_q": lengths,
            "lengths_kv": lengths,
            "capacity_kv": 208,
        },
    )
    setup, main = shown.launches
    assert setup[1:4] == ((1, 1, 1), (256, 1, 1), (1, 1, 1))
    assert main[1:4] == ((4, 1, 1), (512, 1, 1), (2, 1, 1)), "as many CTAs as SMs"
    assert main[4] > setup[4] > 10
    # Sequence lengths, prefix sums of both sides, and the order of work.
    batch, sums = len(lengths), np.cumsum([0, *lengths])
    words = shown.metadata
    assert words[:batch].tolist() == list(lengths)
    assert words[batch : 2 * batch + 1].tolist() == sums.tolist()
    assert words[2 * batch + 1 : 3 * batch + 2].tolist() == sums.tolist()
    order = sorted(range(batch), key=lambda b: -lengths[b])
    assert words[3 * batch + 2 : 4 * batch + 2].tolist() == order
    # A one for O's factor, which nobody gives, is filled into its scratch.
    assert shown.events == [("hidden-launch", "cuMemsetD32Async", "workspace", STREAM)]
