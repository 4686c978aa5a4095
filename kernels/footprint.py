"""Which bytes a strided tensor can touch, and whether two tensors can collide."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.protocol import DeviceTensor


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Rows of `width` bytes, `pitch` bytes apart, `rows` of them from `begin` on."""

    begin: int
    rows: int
    pitch: int
    width: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        if self.rows == 0 or self.width == 0:
            return self.begin
        return self.begin + (self.rows - 1) * self.pitch + self.width


def footprint(tensor: DeviceTensor) -> Footprint:
    """Bytes of a tensor whose first extent is its outermost."""
    size = tensor.element_size()
    shape = [int(extent) for extent in tensor.shape]
    stride = [int(step) * size for step in tensor.stride()]
    if not shape:
        return Footprint(begin=tensor.data_ptr(), rows=1, pitch=size, width=size)
    if 0 in shape:
        return Footprint(begin=tensor.data_ptr(), rows=0, pitch=0, width=0)
    inner = zip(shape[1:], stride[1:], strict=True)
    width = size + sum((extent - 1) * step for extent, step in inner)
    return Footprint(
        begin=tensor.data_ptr(), rows=shape[0], pitch=stride[0], width=width
    )


def collide(a: Footprint, b: Footprint) -> bool:
    """Whether some byte may belong to both.

    Ranges that interleave row by row with one common pitch, such as two halves of a
    fused slab, are recognised as disjoint; any other intersection counts as a
    collision.
    """
    if a.begin >= a.end or b.begin >= b.end:
        return False
    if a.end <= b.begin or b.end <= a.begin:
        return False
    if a.pitch != b.pitch or a.rows == 1 or b.rows == 1:
        return True
    shift = (b.begin - a.begin) % a.pitch
    return not (shift >= a.width and shift + b.width <= a.pitch)
