"""The tensors of one call, and what they must be to each other."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.errors import ContractError
from sidestream.kernels.footprint import collide, footprint
from sidestream.kernels.protocol import DeviceTensor


@dataclass(frozen=True, kw_only=True)
class CallTensors:
    """The tensors of one execute call."""

    q: DeviceTensor
    k: DeviceTensor
    v: DeviceTensor
    out: DeviceTensor
    lse: DeviceTensor | None
    lengths_q: DeviceTensor
    lengths_kv: DeviceTensor
    workspace: DeviceTensor
    sinks: DeviceTensor | None
    descale_q: DeviceTensor | None
    descale_k: DeviceTensor | None
    descale_v: DeviceTensor | None
    scale_out: DeviceTensor | None
    amax: DeviceTensor | None
    scales_q: DeviceTensor | None
    scales_k: DeviceTensor | None
    scales_v: DeviceTensor | None


def check_disjoint(tensors: CallTensors) -> None:
    """Refuse an output that may share bytes with anything else the call touches."""
    written = {
        "out": tensors.out,
        "lse": tensors.lse,
        "workspace": tensors.workspace,
        "amax": tensors.amax,
    }
    read = {
        "q": tensors.q,
        "k": tensors.k,
        "v": tensors.v,
        "lengths_q": tensors.lengths_q,
        "lengths_kv": tensors.lengths_kv,
        "sinks": tensors.sinks,
        "descale_q": tensors.descale_q,
        "descale_k": tensors.descale_k,
        "descale_v": tensors.descale_v,
        "scale_out": tensors.scale_out,
        "scales_q": tensors.scales_q,
        "scales_k": tensors.scales_k,
        "scales_v": tensors.scales_v,
    }
    outputs = [(name, footprint(t)) for name, t in written.items() if t is not None]
    inputs = [(name, footprint(t)) for name, t in read.items() if t is not None]
    for index, (name, area) in enumerate(outputs):
        for other, occupied in outputs[index + 1 :] + inputs:
            if collide(area, occupied):
                raise ContractError(f"{name} overlaps {other}")


def check_device(tensors: CallTensors) -> None:
    """All operands lie on one device."""
    home = str(tensors.q.device)
    for name, tensor in vars(tensors).items():
        if tensor is not None and str(tensor.device) != home:
            raise ContractError(f"{name} is on {tensor.device}, q is on {home}")
