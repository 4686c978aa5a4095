"""Forms of the tensor-map copies and of edits to tensor maps.

PTX ISA chapter "Data Movement and Conversion Instructions: Tensor copy", and
"Tensormap instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_DIM = "dim=1d|2d|3d|4d|5d"
_HINT = "cache_hint=L2::cache_hint?"
_POLICY = " policy:b64?cache_hint"
_LOAD_MODE = "mode=tile|tile::gather4|im2col|im2col::w|im2col::w::128?"
_CTA_GROUP = "cta_group=cta_group::1|cta_group::2?"
_MULTICAST = "multicast=multicast::cluster?"
_MBARRIER = "completion=mbarrier::complete_tx::bytes"
_FOUR_ROWS = ("tile::gather4", "tile::scatter4")


def _section(name: str) -> str:
    return f"Data Movement and Conversion Instructions: {name}"


def _coordinates(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """One coordinate a dimension; gather4 and scatter4 name a column and four rows.

    Offsets go with im2col loads only, one per spatial dimension (two for the `w`
    modes).
    """
    where = args["map"]
    if not isinstance(where, ir.TensorAddress):
        return False
    mode, dim = mods.get("mode", "tile"), int(mods["dim"][0])
    wanted = dim
    if mode in _FOUR_ROWS:
        if dim != 2:
            return False
        wanted = 5
    offsets = args.get("im2col")
    if mode.startswith("im2col") and mode != "im2col_no_offs":
        if not isinstance(offsets, ir.Vector) or dim < 3:
            return False
        count = 2 if mode.startswith("im2col::w") else dim - 2
        if len(offsets.elements) != count:
            return False
    elif offsets is not None or (mode == "im2col_no_offs" and dim < 3):
        return False
    return len(where.coords) == wanted


def _load(words: str, destination: str) -> Form:
    multicast = " cta_mask:b16?multicast" if destination == "shared::cluster" else ""
    return Form(
        words.format(destination=destination),
        f"[dst] <map> [mbar] {{im2col}}:b16?{multicast}{_POLICY}",
        rule=_coordinates,
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        "cp.async.bulk.tensor",
        _section("cp.async.bulk.tensor"),
        (
            _load(
                f"{_DIM} dst={{destination}} src=global {_LOAD_MODE} {_MBARRIER}"
                f" {_CTA_GROUP} {_HINT}",
                "shared::cta",
            ),
            _load(
                f"{_DIM} dst={{destination}} src=global {_LOAD_MODE} {_MBARRIER}"
                f" {_MULTICAST} {_CTA_GROUP} {_HINT}",
                "shared::cluster",
            ),
            # Compilers put the group last, or right after the dimension.
            _load(
                f"{_DIM} dst={{destination}} src=global {_LOAD_MODE} {_MBARRIER}"
                f" {_MULTICAST} {_HINT} cta_group=cta_group::1|cta_group::2",
                "shared::cluster",
            ),
            _load(
                f"{_DIM} cta_group=cta_group::1|cta_group::2 dst={{destination}}"
                f" src=global {_LOAD_MODE} {_MBARRIER} {_MULTICAST} {_HINT}",
                "shared::cluster",
            ),
            Form(
                f"{_DIM} dst=global src=shared::cta"
                " mode=tile|tile::scatter4|im2col_no_offs?"
                f" completion=bulk_group {_HINT}",
                "<map> [src]" + _POLICY,
                rule=_coordinates,
            ),
        ),
    ),
    Family(
        "cp.reduce.async.bulk.tensor",
        _section("cp.reduce.async.bulk.tensor"),
        (
            Form(
                f"{_DIM} dst=global src=shared::cta op=add|min|max|inc|dec|and|or|xor"
                f" mode=tile|im2col_no_offs? completion=bulk_group {_HINT}",
                "<map> [src]" + _POLICY,
                rule=_coordinates,
            ),
        ),
    ),
    Family(
        "cp.async.bulk.prefetch.tensor",
        _section("cp.async.bulk.prefetch.tensor"),
        (
            Form(
                f"{_DIM} level=L2 src=global {_LOAD_MODE} {_HINT}",
                "<map> {im2col}:b16?" + _POLICY,
                rule=_coordinates,
            ),
        ),
    ),
    Family(
        "tensormap.replace",
        _section("tensormap.replace"),
        (
            Form(
                "mode=tile field=global_address space=global|shared::cta? !b1024"
                " type=b64",
                "[addr] value:type",
            ),
            Form(
                "mode=tile field=rank space=global|shared::cta? !b1024 type=b32",
                "[addr] value:type",
            ),
            Form(
                "mode=tile field=box_dim|global_dim|element_stride"
                " space=global|shared::cta? !b1024 type=b32",
                "[addr] $ord value:type",
            ),
            Form(
                "mode=tile field=global_stride space=global|shared::cta? !b1024"
                " type=b64",
                "[addr] $ord value:type",
            ),
            Form(
                "mode=tile field=elemtype|interleave_layout|swizzle_mode"
                "|swizzle_atomicity|fill_mode space=global|shared::cta? !b1024"
                " type=b32",
                "[addr] $value",
            ),
        ),
    ),
    Family(
        "tensormap.cp_fenceproxy",
        "Parallel Synchronization and Communication Instructions:"
        " tensormap.cp_fenceproxy",
        (
            Form(
                "dst=global src=shared::cta proxy=tensormap::generic sem=release"
                " scope=cta|cluster|gpu|sys sync aligned",
                "[dst] [src] $size",
            ),
        ),
    ),
)
