"""Which arguments an operator reads and which it writes, as another stream can tell.

What an operator of one stream read another stream may read as well but not write; what
it wrote the other may not even read. The operators are those that PyTorch's tests of
its CUDA sanitizer look at (`TestArgumentHandler`).
"""

import pytest
import torch
from vtorch_case import POLICIES, device


def whole(*shape, dtype=torch.float32):
    return torch.ones(shape, device="cuda", dtype=dtype)


def call_add():
    a, b = whole(5, 3), whole(5, 3)
    return {"a": a, "b": b}, lambda: {"c": torch.add(a, b)}


def call_cat():
    parts = {name: whole(2, n, 5) for name, n in (("a", 4), ("b", 1), ("c", 7))}
    return parts, lambda: {"d": torch.cat(tuple(parts.values()), dim=1)}


def call_in_place():
    a = whole(4, 2)

    def run():
        a.add_(5)
        return {}

    return {"a": a}, run


def call_out():
    a, b = whole(8, dtype=torch.int64), whole(8)

    def run():
        torch.mul(a, 3, out=b)
        return {}

    return {"a": a, "b": b}, run


def call_split():
    a = whole(5, 2)
    return {"a": a}, lambda: dict(enumerate(torch.split(a, 2)))


def call_nonzero():
    a = whole(5, 3, 2)
    return {"a": a}, lambda: dict(enumerate(torch.nonzero(a, as_tuple=True)))


def call_masked():
    a, mask = whole(8), whole(8, dtype=torch.bool)
    return {"a": a, "mask": mask}, lambda: {"out": a[mask]}


def call_addr():
    square, vector = whole(3, 3), whole(3)
    return (
        {"M": square, "v": vector},
        lambda: {"out": torch.addr(square, vector, vector)},
    )


CALLS = {
    "add": (call_add, {"a", "b"}, {"c"}),
    "cat": (call_cat, {"a", "b", "c"}, {"d"}),
    "in-place": (call_in_place, set(), {"a"}),
    "out": (call_out, {"a"}, {"b"}),
    # A view is made by the host alone: no byte is touched.
    "split": (call_split, set(), set()),
    # The host waits for the number of them only; they are sought behind that.
    "nonzero": (call_nonzero, {"a"}, {0, 1, 2}),
    "masked": (call_masked, {"a", "mask"}, {"out"}),
    "addr": (call_addr, {"M", "v"}, {"out"}),
}
"""By name: the call, what it reads only, what it writes."""


def races(policy, name, probe, touched):
    """Call on one stream and probe one tensor on another; return the findings."""
    make = CALLS[name][0]
    with device(policy) as made:
        tensors, run = make()
        torch.cuda.synchronize()
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(first):
            tensors = {**tensors, **run()}
        with torch.cuda.stream(second):
            probe(tensors[touched])
        torch.cuda.synchronize()
        made.runtime.drain()
        assert not made.runtime.incomplete()
        return [f for f in made.runtime.findings() if f.kind != "hidden-launch"]


def names(name):
    with device("eager"):
        tensors, run = CALLS[name][0]()
        return [*tensors, *run()]


TOUCHED = [(name, touched) for name in CALLS for touched in names(name)]


@pytest.mark.parametrize("policy", ["eager", "laziest", "random:3"])
@pytest.mark.parametrize(("name", "touched"), TOUCHED)
def test_another_stream_may_read_what_was_only_read(name, touched, policy):
    _, read, written = CALLS[name]
    found = races(policy, name, lambda t: t.clone(), touched)
    assert [f.kind for f in found] == ["stream-race"] * (touched in written)
    found = races(policy, name, lambda t: t.zero_(), touched)
    assert [f.kind for f in found] == ["stream-race"] * (touched in read | written)


@pytest.mark.parametrize("policy", POLICIES[:3])
def test_a_race_names_both_calls_with_their_places_and_the_memory(policy):
    (found,) = races(policy, "add", lambda t: t.zero_(), "a")
    assert found.kind == "stream-race"
    add, zero = sorted((s.operation, s.source, s.agent) for s in found.sites)
    assert "add" in add[0]
    assert "zero_" in zero[0]
    assert add[2] != zero[2]
    assert all("test_vtorch_arguments.py:" in source for _, source, _ in (add, zero))
    assert found.need
