"""One call: arguments that are checked, made into operands, and launched.

Nothing here reads the device, allocates or waits: what a call asks for is known from
its declaration and from the metadata of its tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cuda
from cutlass import Float32, Int32, Int64

from sidestream.kernels import buffers
from sidestream.kernels.call import CallTensors, check_device, check_disjoint
from sidestream.kernels.common.config import Each
from sidestream.kernels.common.operands import Factors, Packed, Problem, Scales
from sidestream.kernels.common.tokens import pointers
from sidestream.kernels.common.worklist import workspace_words
from sidestream.kernels.errors import ContractError
from sidestream.kernels.protocol import DeviceTensor
from sidestream.kernels.sm100.config import KernelConfig as Sm100Config
from sidestream.kernels.sm120.config import KernelConfig as Sm120Config
from sidestream.kernels.spec import MAX_TOKENS, AttentionSpec

KernelConfig = Sm100Config | Sm120Config

MAX_UNITS = 1 << 30


def workspace_bytes(spec: AttentionSpec) -> int:
    """Scratch bytes for `spec`, a multiple of the workspace alignment."""
    align = buffers.WORKSPACE_ALIGNMENT
    words = workspace_words(spec.batch, block_scaled=spec.block_scaled)
    return -(-4 * words // align) * align


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A compiled forward bound to its declaration."""

    spec: AttentionSpec
    config: KernelConfig
    function: Any

    def execute(
        self,
        q: DeviceTensor,
        k: DeviceTensor,
        v: DeviceTensor,
        out: DeviceTensor,
        lse: DeviceTensor | None,
        lengths_q: DeviceTensor,
        lengths_kv: DeviceTensor,
        workspace: DeviceTensor,
        stream: int,
        sinks: DeviceTensor | None = None,
        descale_q: DeviceTensor | None = None,
        descale_k: DeviceTensor | None = None,
        descale_v: DeviceTensor | None = None,
        scale_out: DeviceTensor | None = None,
        amax: DeviceTensor | None = None,
        scales_q: DeviceTensor | None = None,
        scales_k: DeviceTensor | None = None,
        scales_v: DeviceTensor | None = None,
    ) -> None:
        """Enqueue the work-list kernel and the forward kernel on `stream`.

        One-byte inputs stand for their numbers times `descale_q`, `descale_k` and
        `descale_v`, or, of a block-scaled plan, times their scales; a one-byte output
        is the result times `scale_out`, rounded to the nearest and held to the largest
        finite number. `amax` becomes the largest magnitude of the result in live rows,
        before that factor and the rounding, NaN passed over: 0 where there is none,
        whatever it held.

        Args:
            q: (T_q, heads_q, head_dim); T_q is a capacity, rows past the live total
                are neither used nor, in `out` and `lse`, written.
            k: (T_kv, heads_kv, head_dim).
            v: (T_kv, heads_kv, head_dim_v).
            out: (T_q, heads_q, head_dim_v).
            lse: float32 (T_q, heads_q) or (heads_q, >= T_q), as declared.
            lengths_q: int32 counts or prefix sums of the query side.
            lengths_kv: likewise for the key side.
            workspace: at least `Plan.workspace_bytes()`, 128-byte aligned.
            stream: stream handle.
            sinks: float32 (heads_q,), if declared.
            descale_q: float32 scalar, () or (1,), with one-byte inputs only, and not
                with block-scaled ones.
            descale_k: likewise.
            descale_v: likewise.
            scale_out: likewise, with a one-byte output only.
            amax: float32 scalar, with one-byte inputs only; written.
            scales_q: float8_e8m0fnu (heads_q, atoms, 512), dense, with block-scaled
                inputs only: an atom for every 128 tokens of a sequence, or part of
                them, sequences one behind the other. In an atom the scale of token
                128*a + r and columns 32*b to 32*b + 31 is byte
                16*(r % 32) + 4*(r // 32) + b. None may be NaN where there are tokens
                and columns; what else an atom holds does not matter. Atoms that
                lengths ask for past the end are taken as the last one.
            scales_k: likewise, (heads_kv, atoms, 512).
            scales_v: (heads_kv, atoms, 512), as many atoms as `scales_k`, each of 128
                tokens and all columns: that of column r and tokens 128*a + 32*b to
                128*a + 32*b + 31 is byte 16*(r % 32) + 4*(r // 32) + b.

        Raises:
            ContractError: metadata that break the plan; nothing was launched.
        """
        tensors = CallTensors(
            q=q,
            k=k,
            v=v,
            out=out,
            lse=lse,
            lengths_q=lengths_q,
            lengths_kv=lengths_kv,
            workspace=workspace,
            sinks=sinks,
            descale_q=descale_q,
            descale_k=descale_k,
            descale_v=descale_v,
            scale_out=scale_out,
            amax=amax,
            scales_q=scales_q,
            scales_k=scales_k,
            scales_v=scales_v,
        )
        spec = self.spec
        view_q = buffers.check_tokens(
            "q", q, dtype=spec.dtype, heads=spec.heads_q, head_dim=spec.head_dim
        )
        view_k = buffers.check_tokens(
            "k", k, dtype=spec.dtype, heads=spec.heads_kv, head_dim=spec.head_dim
        )
        view_v = buffers.check_tokens(
            "v", v, dtype=spec.dtype, heads=spec.heads_kv, head_dim=spec.width_v
        )
        view_out = buffers.check_tokens(
            "out",
            out,
            dtype=spec.output_dtype,
            heads=spec.heads_q,
            head_dim=spec.width_v,
        )
        if view_out.tokens != view_q.tokens:
            raise ContractError(
                f"out has {view_out.tokens} tokens, q has {view_q.tokens}"
            )
        if view_v.tokens != view_k.tokens:
            raise ContractError(f"v has {view_v.tokens} tokens, k has {view_k.tokens}")
        lse_stride = buffers.check_lse(lse, spec, view_q.tokens)
        buffers.check_lengths("lengths_q", lengths_q, spec.lengths_q, spec.batch)
        buffers.check_lengths("lengths_kv", lengths_kv, spec.lengths_kv, spec.batch)
        buffers.check_sinks(sinks, spec)
        buffers.check_factors(tensors, spec)
        atoms = buffers.check_scales(tensors, spec)
        if atoms[2] != atoms[1]:
            raise ContractError(
                f"scales_v has {atoms[2]} atoms, scales_k has {atoms[1]}"
            )
        buffers.check_workspace(workspace, workspace_bytes(spec))
        check_device(tensors)
        check_disjoint(tensors)
        rows, heads = self.config.unit_shape(spec.heads_q, spec.heads_kv)
        units = (view_q.tokens // rows + spec.batch) * heads
        if units >= MAX_UNITS:
            raise ContractError(
                f"{view_q.tokens} tokens of {spec.heads_q} heads make {units} tiles; "
                f"at most {MAX_UNITS - 1}"
            )
        if view_q.tokens == 0 and amax is None:
            return
        declared = spec.batch * -(-spec.max_len_q // rows) * heads
        cluster = self.config.cluster
        clusters = min(
            max(spec.sms * self.config.ctas_per_sm // cluster, 1),
            declared,
            units if view_q.tokens else 1,
        )
        # An empty side may have no address at all, and its map is never used. A call
        # without query tokens is launched where its largest output has to become 0.
        borrowed = workspace.data_ptr()
        places = (view_q, view_k, view_v, view_out)
        optional = (lse, sinks)
        factors = (descale_q, descale_k, descale_v, scale_out, amax)
        scales = (scales_q, scales_k, scales_v)
        addresses = (
            *(view.address if view.tokens else borrowed for view in places),
            *(tensor.data_ptr() if tensor is not None else 0 for tensor in optional),
            lengths_q.data_ptr(),
            lengths_kv.data_ptr(),
            workspace.data_ptr(),
            *(
                tensor.data_ptr() if tensor is not None else 0
                for tensor in factors + scales
            ),
        )
        at = pointers(self.config, addresses)
        q_at, k_at, v_at, out_at = (
            Packed(place, Int64(view.token_stride), Int64(view.head_stride))
            for place, view in zip(at[:4], places, strict=True)
        )
        lse_at, sinks_at, lengths_q_at, lengths_kv_at, workspace_at = at[4:9]
        scaled = None
        if spec.block_scaled:
            pairs = zip(at[14:], atoms, strict=True)
            scaled = Each(*(Scales(place, Int32(count)) for place, count in pairs))
        problem = Problem(
            out=out_at,
            lse=lse_at,
            lse_head_stride=Int64(lse_stride),
            sinks=sinks_at,
            workspace=workspace_at,
            batch=Int32(spec.batch),
            unit_rows=Int32(rows),
            unit_heads=Int32(heads),
            heads_q=Int32(spec.heads_q),
            group=Int32(spec.heads_q // spec.heads_kv),
            left=Int32(min(spec.window_left or 0, MAX_TOKENS)),
            right=Int32(min(spec.right or 0, MAX_TOKENS)),
            scale_log2=Float32(abs(spec.softmax_scale) * math.log2(math.e)),
            factors=Factors(*at[9:14])._replace(scales=scaled),
        )
        self.function(
            Each(q_at, k_at, v_at),
            lengths_q_at,
            lengths_kv_at,
            Int32(view_q.tokens),
            Int32(view_k.tokens),
            Int32(spec.heads_kv),
            problem,
            Int32(clusters * cluster),
            cuda.CUstream(stream),
        )
