"""From a declaration to a compiled forward: plan, then compile once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from sidestream.kernels.common.launch import compile_launch
from sidestream.kernels.execute import Compiled, KernelConfig, workspace_bytes
from sidestream.kernels.protocol import CacheInfo
from sidestream.kernels.sm100 import forward as sm100
from sidestream.kernels.sm100.config import KernelConfig as Sm100Config
from sidestream.kernels.sm120 import forward as sm120
from sidestream.kernels.sm120.config import KernelConfig as Sm120Config
from sidestream.kernels.spec import AttentionSpec, check_spec


@dataclass(frozen=True, kw_only=True)
class CompileKey:
    """Everything the generated code depends on.

    Batch, head counts, maximum lengths, window widths and the scale's magnitude are
    declared facts too, but they travel as launch arguments; strides and token extents
    are known only at execute and cannot appear.
    """

    config: KernelConfig
    arch: str


def tile_rows(max_len_q: int) -> int:
    """Query rows of an SM120 tile: 16 for decoding, 64 for short prompts, else 128."""
    for rows in (16, 64):
        if max_len_q <= rows:
            return rows
    return 128


def config_of(spec: AttentionSpec) -> KernelConfig:
    """The code-determining part of a declaration."""
    has_right = spec.right is not None
    has_left = spec.window_left is not None
    facts: dict[str, Any] = {
        "dtype": spec.dtype,
        "out_dtype": spec.output_dtype,
        "head_dim": spec.head_dim,
        "head_dim_v": spec.width_v,
        "anchor": spec.diagonal if has_left or has_right else "top_left",
        "has_left": has_left,
        "has_right": has_right,
        "has_sinks": spec.sinks,
        "lse": spec.lse,
        "prefix_q": spec.lengths_q == "prefix",
        "prefix_kv": spec.lengths_kv == "prefix",
        "negative_scale": spec.softmax_scale < 0.0,
        "block_scaled": spec.block_scaled,
    }
    if spec.arch == "sm_100a":
        return Sm100Config(**facts)
    return Sm120Config(**facts, tile_m=tile_rows(spec.max_len_q))


def compile_forward(config: KernelConfig, arch: str, *options: Any) -> Any:
    """Compile the kernels that a configuration belongs to.

    `options` are further options of `cute.compile`.
    """
    kernel = sm100.forward if isinstance(config, Sm100Config) else sm120.forward
    return compile_launch(config, kernel, arch, *options)


class CompileCache:
    """Process-wide map from key to compiled host function."""

    def __init__(self) -> None:
        self._entries: dict[CompileKey, Any] = {}
        self._lock = threading.Lock()
        self._hits = 0
        self._misses = 0

    def get(self, key: CompileKey) -> Any:
        """The function for `key`, compiled on its first request."""
        with self._lock:
            if key in self._entries:
                self._hits += 1
                return self._entries[key]
            function = compile_forward(key.config, key.arch)
            self._misses += 1
            self._entries[key] = function
            return function

    def info(self) -> CacheInfo:
        """Hits and misses so far."""
        with self._lock:
            return CacheInfo(hits=self._hits, misses=self._misses)


CACHE = CompileCache()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An accepted declaration."""

    spec: AttentionSpec

    @property
    def key(self) -> CompileKey:
        """What the compiled code depends on."""
        return CompileKey(config=config_of(self.spec), arch=self.spec.arch)

    def workspace_bytes(self) -> int:
        """Scratch the caller provides; it may hold anything."""
        return workspace_bytes(self.spec)

    def compile(self) -> Compiled:
        """Compile now, or reuse what an equal key compiled before."""
        key = self.key
        return Compiled(spec=self.spec, config=key.config, function=CACHE.get(key))


def plan(spec: AttentionSpec) -> Plan:
    """Accept a declaration.

    Raises:
        PlanError: the kernels do not serve it; the message says why.
    """
    check_spec(spec)
    return Plan(spec=spec)


def cache_info() -> CacheInfo:
    """Hits and misses of the process-wide compile cache."""
    return CACHE.info()
