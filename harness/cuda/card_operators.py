"""What an operator of torch does on a card: the bytes it touches, and whose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sidestream.harness.runtime import Span
from sidestream.harness.vtorch.operator_schema import operator, tensors
from sidestream.harness.vtorch.tensor_spans import spans_of

Carry = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
"""Carries out an operator, given with its arguments; returns its result."""


@dataclass(frozen=True, kw_only=True)
class Touched:
    """What one operator has done.

    Attributes:
        kind: `fill`, `copy` or another kind of operator.
        label: Its name.
        allocated: Memory on the card that it has made.
        reads: Bytes on the card that it reads.
        writes: Bytes on the card that it writes.
        works: Whether it does more than to make memory.
        pinned: Whether it may be under way in pinned host memory when it returns.
    """

    kind: str
    label: str
    allocated: tuple[Span, ...] = ()
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    works: bool = True
    pinned: bool = False


def touched(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
    on_card: Callable[[torch.Tensor], bool],
) -> Touched | None:
    """Return what an operator has touched; None if that is nothing on the card.

    Args:
        func: The operator.
        args: Its arguments.
        kwargs: Likewise.
        result: What it returned.
        on_card: Tells whether a tensor lies on the card.
    """
    known = operator(func)
    if known.view:
        return None
    every = list(tensors(args, kwargs))
    given = [(k, t) for k, t in every if on_card(t)]
    homes = {t.untyped_storage().data_ptr() for _, t in given}
    made = result if isinstance(result, (list, tuple)) else (result,)
    new = [
        t
        for t in made
        if isinstance(t, torch.Tensor)
        and on_card(t)
        and t.untyped_storage().nbytes()
        and t.untyped_storage().data_ptr() not in homes
    ]
    if not (given or new):
        return None
    held = [t.untyped_storage() for t in new]
    allocated = tuple(Span(h.data_ptr(), h.nbytes()) for h in held)
    if known.empty:
        return Touched(
            kind=known.kind, label=known.label, allocated=allocated, works=False
        )
    beside = [t for t in (*made, *(t for _, t in every)) if isinstance(t, torch.Tensor)]
    return Touched(
        kind=known.kind,
        label=known.label,
        allocated=allocated,
        reads=spans_of(t for k, t in given if k not in known.unread),
        writes=spans_of((*(t for k, t in given if k in known.written), *new)),
        pinned=_returns_early(func, args, kwargs)
        and any(not on_card(t) and t.is_pinned() for t in beside),
    )


def _returns_early(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator was asked not to wait for what it starts."""
    for at, argument in enumerate(func._schema.arguments):
        if argument.name == "non_blocking":
            return bool(kwargs.get("non_blocking", at < len(args) and args[at]))
    return False


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands operators of torch to who carries them out."""

    def __init__(self, carry: Carry) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._carry = carry

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self._carry(func, args, kwargs or {})
