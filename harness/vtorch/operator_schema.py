"""What an operator does to its arguments, read from its schema."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_HIDDEN_VIEWS = {
    *("aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes"),
    *("aten::unsafe_chunk", "aten::_reshape_alias", "aten::lift_fresh", "aten::lift"),
}
"""Operators whose results share memory though the schema does not say so."""

_ONLY_WRITES = {
    *("aten::copy_", "aten::fill_", "aten::zero_", "aten::_foreach_copy_"),
    *("aten::_foreach_zero_", "aten::uniform_", "aten::normal_", "aten::random_"),
    *("aten::exponential_", "aten::bernoulli_", "aten::log_normal_"),
    *("aten::cauchy_", "aten::geometric_", "aten::eye", "aten::index_fill_"),
}
"""Operators that change an argument without reading it."""

_FILLS = {
    *("aten::fill_", "aten::zero_", "aten::zeros", "aten::ones", "aten::full"),
    *("aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::new_zeros"),
    *("aten::new_ones", "aten::new_full", "aten::_foreach_zero_"),
}
_COPIES = {"aten::copy_", "aten::_to_copy", "aten::clone", "aten::_foreach_copy_"}
_EMPTY = {
    *("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty"),
    *("aten::new_empty_strided", "aten::empty_permuted"),
}
_HOST_VALUES = ("number", "Scalar", "bool", "int", "float")
_HIDDEN_WRITES = {"aten::native_batch_norm": (3, 4)}
"""Arguments that are changed though the schema does not say so."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What is known of one overload.

    Attributes:
        name: E.g. `aten::add`.
        label: E.g. `aten.add.Tensor`, as reports call it.
        kind: `torch`, `fill` or `copy`.
        view: Whether its results are other views of its arguments, or an argument
            itself becomes one.
        empty: Whether it allocates and writes nothing.
        places: Whether it takes a `device`.
        random: Whether it draws random numbers.
        hands_out: Whether a result is a host value or its shape depends on data.
        written: Positions and names of the arguments it changes.
        unread: The arguments whose present bytes do not matter.
        out: Names of `out=` arguments.
        makes: Whether it has new results, or may resize one that is given.
        returns: For each result, the changed argument it is, or None for a new one.
    """

    name: str
    label: str
    kind: str
    view: bool
    empty: bool
    places: bool
    random: bool
    hands_out: bool
    written: frozenset[int | str]
    unread: frozenset[int | str]
    out: tuple[str, ...]
    makes: bool
    returns: tuple[int | str | None, ...]


_GIVES_MEMORY = {"aten::resize_", "aten::resize_as_", "aten::set_"}
"""Changes of a tensor's own extents that may change its memory as well."""


@functools.cache
def operator(func: Any) -> Operator:
    """Read the schema of an overload."""
    schema = func._schema
    name = schema.name
    written: set[int | str] = set(_HIDDEN_WRITES.get(name, ()))
    out: list[str] = []
    by_set: dict[frozenset[str], int | str] = {}
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is None:
            continue
        key = argument.name if argument.kwarg_only else index
        by_set[frozenset(argument.alias_info.before_set)] = key
        if argument.alias_info.is_write:
            written.add(key)
            if argument.is_out:
                out.append(argument.name)
    returns: list[int | str | None] = []
    for result in schema.returns:
        info = result.alias_info
        returns.append(
            by_set.get(frozenset(info.before_set)) if info is not None else None
        )
    views = [r.alias_info is not None and not r.alias_info.is_write
             for r in schema.returns]  # fmt: skip
    tags = set(func.tags)
    sized = bool(
        {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & tags
    )
    values = any(str(r.type) in _HOST_VALUES for r in schema.returns)
    unread = set(written) if name in _ONLY_WRITES else set[int | str](out)
    if name.endswith("_like") or name.startswith("aten::new_"):
        unread.add(0)  # an example: its data is of no interest
    kind = "fill" if name in _FILLS else "copy" if name in _COPIES else "torch"
    return Operator(
        name=name,
        label=str(func),
        kind=kind,
        view=name in _HIDDEN_VIEWS
        or (bool(views) and all(views))
        or (torch.Tag.inplace_view in tags and name not in _GIVES_MEMORY),
        empty=name in _EMPTY and not out,
        places=any(a.name == "device" for a in schema.arguments),
        random=torch.Tag.nondeterministic_seeded in tags,
        hands_out=sized or values,
        written=frozenset(written),
        unread=frozenset(unread),
        out=tuple(out),
        makes=bool(out) or None in returns,
        returns=tuple(returns),
    )


def masks(indices: Sequence[torch.Tensor | None]) -> bool:
    """Whether an index is a mask, so that its result is sized by data."""
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def tensors(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[int | str, torch.Tensor]]:
    """Yield every tensor of a call with the position or name of its argument."""
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for key, value in given:
        if isinstance(value, torch.Tensor):
            yield key, value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor):
                    yield key, item


def replaced(value: Any, change: Any) -> Any:
    """Return an argument with its tensors replaced by `change` of them."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [replaced(item, change) for item in value]
    return value
