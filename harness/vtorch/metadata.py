"""Shapes, strides and types of results: known when an operator is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch

from sidestream.harness.vtorch.operator_schema import replaced


class Meta:
    """Type, extents and strides of a tensor."""

    __slots__ = ("dtype", "size", "stride")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        self.size = tuple(tensor.shape)
        self.stride = tuple(tensor.stride())


class Metadata:
    """Results of operators by the metadata of their arguments; remembers them.

    Args:
        refuse: Raises `UnsupportedError` for what it is told by name.
    """

    def __init__(self, refuse: Callable[[str], NoReturn]) -> None:
        self._refuse = refuse
        self._known: dict[Any, Any] = {}

    def of(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of a call with a `Meta` in place of every tensor.

        The operator's CPU kernel is run once on zeros. It knows the strides that the
        kernel will give later; torch's metadata functions are only asked where zeros
        will not do, as for the inverse of a matrix: many are in Python, and the first
        one imports torch._dynamo, which takes seconds.

        Raises:
            UnsupportedError: if neither can tell, naming the operator.
            RuntimeError: what the operator itself says of wrong arguments.
        """
        try:
            key = (func, _key(args), _key(tuple(kwargs.items())))
            known = self._known.get(key)
        except TypeError:  # an argument that cannot be a key
            return self._find(func, args, kwargs)
        if known is None:
            known = self._known[key] = (self._find(func, args, kwargs),)
        return known[0]

    def _find(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = {k: None if k == "generator" else v for k, v in kwargs.items()}
        kept = torch.get_rng_state()
        try:
            made = _run(func, args, given, _zeros, "cpu")
        except (RuntimeError, IndexError, ValueError):
            try:
                made = _run(func, args, given, _on_meta, "meta")
            except NotImplementedError:
                self._refuse(str(func))
        finally:
            torch.set_rng_state(kept)
        return self._metas(made)

    def _metas(self, made: Any) -> Any:
        if isinstance(made, torch.Tensor):
            if made.layout != torch.strided:
                self._refuse(f"a tensor of layout {made.layout}")
            if made.is_quantized:
                self._refuse(f"a quantized tensor ({made.dtype})")
            return Meta(made)
        if isinstance(made, (list, tuple)):
            return [self._metas(item) for item in made]
        return made


def _run(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], change: Any, device: str
) -> Any:
    if "device" in kwargs:
        kwargs["device"] = torch.device(device)
    named = {name: replaced(value, change) for name, value in kwargs.items()}
    return func(*replaced(args, change), **named)


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(
        tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype, device="meta"
    )
    if tensor.is_conj():
        made = torch._conj(made)
    return torch._neg_view(made) if tensor.is_neg() else made


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(
        tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype, device="cpu"
    )
    return made.zero_()


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (
            value.dtype,
            tuple(value.shape),
            value.stride(),
            value.is_conj(),
            value.is_neg(),
        )
    if isinstance(value, (list, tuple)):
        return tuple([_key(item) for item in value])
    if isinstance(value, torch.Generator):
        return None
    # 1, 1.0 and True are equal and do not promote alike.
    return type(value), value
