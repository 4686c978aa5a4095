"""Byte ranges of tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from sidestream.harness.runtime import Span, strided


def spans(tensor: torch.Tensor) -> tuple[Span, ...]:
    """Return the bytes that a tensor's elements occupy, without the gaps between."""
    count = tensor.numel()
    if not count:
        return ()
    size = tensor.element_size()
    if tensor.is_contiguous():
        return (Span(tensor.data_ptr(), count * size),)
    return strided(tensor.data_ptr(), tensor.shape, tensor.stride(), size)


def spans_of(tensors: Iterable[torch.Tensor]) -> tuple[Span, ...]:
    """Return the bytes of several tensors."""
    return tuple(span for tensor in tensors for span in spans(tensor))
