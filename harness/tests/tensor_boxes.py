"""A hypothesis strategy of tensors, boxes and coordinates."""

from hypothesis import assume
from hypothesis import strategies as st
from tensor_case import SMEM, TYPES, Tensor


@st.composite
def boxes(draw):
    dtype = draw(st.sampled_from(TYPES))
    size = Tensor(dtype=dtype, dims=(1,), strides=(), box=(1,)).size
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.integers(0, 3))
    inner = 16 * draw(st.integers(1, 1 << swizzle if swizzle else 6)) // size
    box = (inner, *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    dims = (draw(st.integers(1, 64)), *(draw(st.integers(1, 5)) for _ in box[1:]))
    strides = tuple(16 * draw(st.integers(0, 40)) for _ in box[1:])
    steps = tuple(draw(st.integers(1, 3)) for _ in box)
    coords = (
        draw(st.integers(-5, 8)) * 16 // size,
        *(draw(st.integers(-4, 5)) for _ in box[1:]),
    )
    tensor = Tensor(
        dtype=dtype,
        dims=dims,
        strides=strides,
        box=box,
        steps=steps,
        swizzle=swizzle,
        nan_fill=draw(st.booleans()) and TYPES.index(dtype) >= 6,
        offset=16 * draw(st.integers(0, 9)),
    )
    assume(tensor.tile_bytes() <= SMEM - 2048)
    return tensor, coords, 128 * draw(st.integers(0, 16))
