"""Checks of execute's arguments; metadata only, in the order a caller reads them."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.call import CallTensors
from sidestream.kernels.common.config import ATOM_BYTES
from sidestream.kernels.errors import ContractError
from sidestream.kernels.footprint import footprint
from sidestream.kernels.protocol import DeviceTensor
from sidestream.kernels.spec import MAX_TOKENS, AttentionSpec

ALIGNMENT = 16
"""Bytes: what TMA asks of addresses and strides, and what a 16-byte store needs."""

WORKSPACE_ALIGNMENT = 128
MAX_STRIDE_BYTES = 1 << 40


@dataclass(frozen=True, kw_only=True)
class TokenBuffer:
    """A checked (tokens, heads, head_dim) operand; strides count elements."""

    address: int
    tokens: int
    token_stride: int
    head_stride: int


def _dtype_name(tensor: DeviceTensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _require_dtype(name: str, tensor: DeviceTensor, expected: str) -> None:
    actual = _dtype_name(tensor)
    if actual != expected:
        raise ContractError(f"{name} has dtype {actual}; the plan declares {expected}")


def _require_shape(
    name: str, tensor: DeviceTensor, expected: tuple[int | str, ...]
) -> None:
    """Compare extents; a text stands for any extent and names it in the message."""
    shape = tuple(int(extent) for extent in tensor.shape)
    matches = len(shape) == len(expected) and all(
        isinstance(want, str) or have == want
        for have, want in zip(shape, expected, strict=True)
    )
    if not matches:
        wanted = ", ".join(str(item) for item in expected)
        raise ContractError(f"{name} has shape {shape}; expected ({wanted})")


def _require_aligned(name: str, tensor: DeviceTensor, alignment: int) -> None:
    if tensor.data_ptr() % alignment:
        raise ContractError(f"{name} is not aligned to {alignment} bytes")


def check_tokens(
    name: str, tensor: DeviceTensor, *, dtype: str, heads: int, head_dim: int
) -> TokenBuffer:
    """Check one of Q, K, V, O: shape, unit stride, 16-byte strides and address.

    Raises:
        ContractError: naming the operand and the rule it breaks.
    """
    _require_dtype(name, tensor, dtype)
    _require_shape(name, tensor, ("tokens", heads, head_dim))
    tokens = int(tensor.shape[0])
    if tokens >= MAX_TOKENS:
        raise ContractError(f"{name} has {tokens} tokens; at most {MAX_TOKENS - 1}")
    token_stride, head_stride, unit = (int(step) for step in tensor.stride())
    # A stride over one element or none says nothing; use what a dense tensor has.
    if heads == 1:
        head_stride = head_dim
    row = (heads - 1) * head_stride + head_dim
    if tokens <= 1:
        token_stride = heads * head_stride
    if tokens and unit != 1:
        raise ContractError(f"{name}: the head dimension must have unit stride")
    size = tensor.element_size()
    for label, stride in (("token", token_stride), ("head", head_stride)):
        if stride * size % ALIGNMENT:
            raise ContractError(
                f"{name}: {label} stride of {stride * size} bytes is not a multiple "
                f"of {ALIGNMENT}"
            )
        if stride * size >= MAX_STRIDE_BYTES:
            raise ContractError(f"{name}: {label} stride is 2^40 bytes or more")
    if head_stride < head_dim or token_stride < row:
        raise ContractError(f"{name}: rows overlap, strides {tuple(tensor.stride())}")
    _require_aligned(name, tensor, ALIGNMENT)
    return TokenBuffer(
        address=tensor.data_ptr(),
        tokens=tokens,
        token_stride=token_stride,
        head_stride=head_stride,
    )


def check_lse(lse: DeviceTensor | None, spec: AttentionSpec, tokens: int) -> int:
    """Check the log-sum-exp against its layout; returns the head stride in elements."""
    if spec.lse == "none":
        if lse is not None:
            raise ContractError("lse is given, but the plan declares none")
        return 0
    if lse is None:
        raise ContractError(f"lse is missing; the plan declares it {spec.lse}")
    _require_dtype("lse", lse, "float32")
    _require_aligned("lse", lse, 4)
    if spec.lse == "token_major":
        _require_shape("lse", lse, (tokens, spec.heads_q))
        if tokens and tuple(lse.stride()) != (spec.heads_q, 1):
            dense = (tokens == 1 or lse.stride()[0] == spec.heads_q) and (
                spec.heads_q == 1 or lse.stride()[1] == 1
            )
            if not dense:
                raise ContractError(
                    "lse: token-major needs strides (heads_q, 1), got "
                    f"{tuple(lse.stride())}"
                )
        return 0
    _require_shape("lse", lse, (spec.heads_q, "tokens or more"))
    head_stride, unit = (int(step) for step in lse.stride())
    width = int(lse.shape[1])
    if width < tokens:
        raise ContractError(f"lse: {width} columns cannot hold {tokens} tokens")
    if width > 1 and unit != 1:
        raise ContractError("lse: head-major needs unit stride over tokens")
    if spec.heads_q > 1 and head_stride < width:
        raise ContractError(f"lse: head stride {head_stride} is below {width} columns")
    return head_stride


def check_lengths(name: str, tensor: DeviceTensor, form: str, batch: int) -> None:
    """Check one side's lengths: int32, dense, (B,) counts or (B+1,) prefix sums."""
    _require_dtype(name, tensor, "int32")
    expected = batch + (form == "prefix")
    if tuple(tensor.shape) != (expected,):
        raise ContractError(
            f"{name} has shape {tuple(tensor.shape)}; {form} of batch {batch} needs "
            f"({expected},)"
        )
    if expected > 1 and int(tensor.stride()[0]) != 1:
        raise ContractError(f"{name} must be dense")
    _require_aligned(name, tensor, 4)


def check_sinks(sinks: DeviceTensor | None, spec: AttentionSpec) -> None:
    """Check presence, dtype and shape of the sinks."""
    if not spec.sinks:
        if sinks is not None:
            raise ContractError("sinks are given, but the plan declares none")
        return
    if sinks is None:
        raise ContractError("sinks are missing; the plan declares them")
    _require_dtype("sinks", sinks, "float32")
    _require_shape("sinks", sinks, (spec.heads_q,))
    if spec.heads_q > 1 and int(sinks.stride()[0]) != 1:
        raise ContractError("sinks must be dense")
    _require_aligned("sinks", sinks, 4)


def check_factors(tensors: CallTensors, spec: AttentionSpec) -> None:
    """Check presence, dtype and shape of the scalars of one-byte operands.

    Raises:
        ContractError: naming the scalar and the rule it breaks.
    """
    inputs, output = "one-byte inputs", "a one-byte output"
    factors = "one-byte inputs with a factor each"
    for name, needed, reason in (
        ("descale_q", spec.descaled, factors),
        ("descale_k", spec.descaled, factors),
        ("descale_v", spec.descaled, factors),
        ("scale_out", spec.narrow_output, output),
        ("amax", spec.narrow, inputs),
    ):
        tensor: DeviceTensor | None = getattr(tensors, name)
        if not needed:
            if tensor is not None:
                raise ContractError(f"{name} is given, but the plan has not {reason}")
            continue
        if tensor is None:
            raise ContractError(f"{name} is missing; the plan has {reason}")
        _require_dtype(name, tensor, "float32")
        shape = tuple(int(extent) for extent in tensor.shape)
        if shape not in ((), (1,)):
            raise ContractError(f"{name} has shape {shape}; expected () or (1,)")
        _require_aligned(name, tensor, 4)


def check_scales(tensors: CallTensors, spec: AttentionSpec) -> tuple[int, int, int]:
    """Check presence, dtype and shape of the scales; how many atoms a head has.

    The atoms that lengths need are known on the device only. A token has one, so that
    there has to be one wherever there are tokens.

    Raises:
        ContractError: naming the scales and the rule they break.
    """
    found = []
    for name, of, heads in (
        ("scales_q", tensors.q, spec.heads_q),
        ("scales_k", tensors.k, spec.heads_kv),
        ("scales_v", tensors.v, spec.heads_kv),
    ):
        tensor: DeviceTensor | None = getattr(tensors, name)
        if not spec.block_scaled:
            if tensor is not None:
                raise ContractError(
                    f"{name} is given, but the plan is not block-scaled"
                )
            found.append(0)
            continue
        if tensor is None:
            raise ContractError(f"{name} is missing; the plan is block-scaled")
        _require_dtype(name, tensor, "float8_e8m0fnu")
        _require_shape(name, tensor, (heads, "atoms", ATOM_BYTES))
        atoms = int(tensor.shape[1])
        steps = tuple(int(step) for step in tensor.stride())
        dense = (
            steps[2] == 1
            and (atoms < 2 or steps[1] == ATOM_BYTES)
            and (heads < 2 or steps[0] == atoms * ATOM_BYTES)
        )
        if atoms and not dense:
            raise ContractError(f"{name} must be dense")
        if atoms >= MAX_TOKENS:
            raise ContractError(f"{name} has {atoms} atoms; at most {MAX_TOKENS - 1}")
        if int(of.shape[0]) and not atoms:
            raise ContractError(f"{name} has no atom, though there are tokens")
        _require_aligned(name, tensor, ALIGNMENT)
        found.append(atoms)
    return found[0], found[1], found[2]


def check_workspace(workspace: DeviceTensor, required: int) -> None:
    """Check the workspace's size in bytes, density and 128-byte alignment."""
    covered = footprint(workspace)
    count = 1
    for extent in workspace.shape:
        count *= int(extent)
    held = count * workspace.element_size()
    if held and covered.end - covered.begin != held:
        raise ContractError("workspace must be dense")
    if held < required:
        raise ContractError(f"workspace has {held} bytes; the plan needs {required}")
    _require_aligned("workspace", workspace, WORKSPACE_ALIGNMENT)
