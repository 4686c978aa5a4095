"""Byte ranges of tensors."""

from __future__ import annotations

import functools
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
    start = tensor.data_ptr()
    pattern = _pattern(tuple(tensor.shape), tensor.stride(), size)
    return tuple([Span(start + offset, length) for offset, length in pattern])


@functools.lru_cache(maxsize=1024)
def _pattern(
    shape: tuple[int, ...], strides: tuple[int, ...], size: int
) -> tuple[Span, ...]:
    """Return the bytes of a tensor that begins at address 0."""
    return strided(0, shape, strides, size)


def spans_of(tensors: Iterable[torch.Tensor]) -> tuple[Span, ...]:
    """Return the bytes of several tensors."""
    return tuple(span for tensor in tensors for span in spans(tensor))
