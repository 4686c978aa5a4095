"""Forms of PTX ISA chapter "TensorCore 5th Generation Family Instructions"."""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_GROUP = "cta_group=cta_group::1|cta_group::2"
_NUM = "num=x1|x2|x4|x8|x16|x32|x64|x128"
_SHAPE = "shape=32x32b|16x64b|16x128b|16x256b"
_SPLIT = "shape=16x32bx2"
_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_FLOAT_KIND = "kind=kind::f16|kind::tf32|kind::f8f6f4"
_COLLECTOR_A = (
    "collector=collector::a::fill|collector::a::use|collector::a::lastuse"
    "|collector::a::discard?"
)
_COLLECTOR_B = "collector=" + "|".join(
    f"collector::{buffer}::{use}"
    for buffer in ("b0", "b1", "b2", "b3")
    for use in ("fill", "use", "lastuse", "discard")
)
_SCALED: tuple[tuple[str, str], ...] = (
    ("kind::mxf8f6f4", "scale_vec::1X|block32?"),
    ("kind::mxf4", "scale_vec::2X|block32?"),
    ("kind::mxf4nvf4", "scale_vec::2X|scale_vec::4X|block16|block32"),
)
_A_PLACES = ("a:b64", "[a]")


def _section(name: str) -> str:
    return f"TensorCore 5th Generation Instructions: {name}"


def _register_count(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """The vector has the registers that shape and repetition ask for, 128 at most."""
    value = args["d"] if "d" in args else args["a"]
    wanted = _REGISTERS[mods["shape"]] * int(mods["num"][1:])
    return (
        isinstance(value, ir.Vector) and len(value.elements) == wanted and wanted <= 128
    )


_DENSE = (
    "its lane mask needs 4 registers with cta_group::1 and 8 with cta_group::2; "
    "ashift does not go with collector fill or use"
)


def _dense(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """The lane mask has 128 bits a CTA; shifted rows are not kept for later."""
    if "ashift" in mods and mods.get("collector", "").endswith(("::fill", "::use")):
        return False
    mask = args.get("mask")
    wanted = 4 if mods["cta_group"] == "cta_group::1" else 8
    return mask is None or (
        isinstance(mask, ir.Vector) and len(mask.elements) == wanted
    )


def _copied(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """Copies of 64 or 32 rows say to which warps they go, the others do not."""
    multicast = mods.get("multicast", "")
    match mods["shape"]:
        case "64x128b":
            return multicast.startswith("warpx2")
        case "32x128b":
            return multicast == "warpx4"
    return multicast == ""


def _transfer(spelling: str, value: str, pack: str) -> Family:
    """`ld` and `st`: registers on one side, tensor memory on the other."""
    operands = ("=*d:b32 [addr]", "[addr] *a:b32")[spelling == "tcgen05.st"]
    split = ("=*d:b32 [addr] $split", "[addr] $split *a:b32")[spelling == "tcgen05.st"]
    return Family(
        spelling,
        _section(spelling),
        (
            Form(
                f"sync aligned {_SHAPE} {_NUM} {value}={pack}? type=b32",
                operands,
                rule=_register_count,
            ),
            Form(
                f"sync aligned {_SPLIT} {_NUM} {value}={pack}? type=b32",
                split,
                rule=_register_count,
            ),
        ),
    )


def _mma(spelling: str) -> Family:
    """Dense or sparse; A in shared memory (a descriptor) or in tensor memory."""
    metadata = " [metadata]" if spelling.endswith(".sp") else ""
    forms: list[Form] = []
    for a in _A_PLACES:
        start = f"[d] {a} b:b64{metadata} idesc:b32"
        shift = " ashift?" if a == "[a]" else ""
        forms.append(
            Form(
                f"{_GROUP} kind=kind::f16|kind::tf32{shift} {_COLLECTOR_A}",
                f"{start} {{mask}}:b32? enable:pred $scale_input?",
                rule=_dense,
                ruled=_DENSE,
            )
        )
        forms.append(
            Form(
                f"{_GROUP} kind=kind::f8f6f4|kind::i8{shift} {_COLLECTOR_A}",
                f"{start} {{mask}}:b32? enable:pred",
                rule=_dense,
                ruled=_DENSE,
            )
        )
        forms += [
            Form(
                f"{_GROUP} kind={kind} block_scale scale_vec={scales} {_COLLECTOR_A}",
                f"{start} [scale_a] [scale_b] enable:pred",
            )
            for kind, scales in _SCALED
        ]
    return Family(spelling, _section(spelling), tuple(forms))


def _mma_ws(spelling: str) -> Family:
    metadata = " [metadata]" if spelling.endswith(".sp") else ""
    return Family(
        spelling,
        _section(spelling),
        tuple(
            Form(
                f"cta_group=cta_group::1 {_FLOAT_KIND}|kind::i8 {_COLLECTOR_B}?",
                f"[d] {a} b:b64{metadata} idesc:b32 enable:pred zero_columns:b64?",
            )
            for a in _A_PLACES
        ),
    )


def _red_count(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    return mods["num"] != "x1" and _register_count(mods, args)


FAMILIES: tuple[Family, ...] = (
    Family(
        "tcgen05.alloc",
        _section("tcgen05.alloc, dealloc, relinquish_alloc_permit"),
        (
            Form(
                f"{_GROUP} sync aligned space=shared::cta? type=b32", "[addr] count:b32"
            ),
        ),
    ),
    Family(
        "tcgen05.dealloc",
        _section("tcgen05.alloc, dealloc, relinquish_alloc_permit"),
        (Form(f"{_GROUP} sync aligned type=b32", "a:b32 count:b32"),),
    ),
    Family(
        "tcgen05.relinquish_alloc_permit",
        _section("tcgen05.alloc, dealloc, relinquish_alloc_permit"),
        (Form(f"{_GROUP} sync aligned", ""),),
    ),
    _transfer("tcgen05.ld", "pack", "pack::16b"),
    _transfer("tcgen05.st", "unpack", "unpack::16b"),
    Family(
        "tcgen05.ld.red",
        _section("tcgen05.ld"),
        (
            Form(
                f"sync aligned shape=32x32b {_NUM} op=min|max abs? nan=NaN? type=f32",
                "=*d:b32 =t:b32 [addr]",
                rule=_red_count,
            ),
            Form(
                f"sync aligned {_SPLIT} {_NUM} op=min|max abs? nan=NaN? type=f32",
                "=*d:b32 =t:b32 [addr] $split",
                rule=_red_count,
            ),
            # The type stands before or after the operation.
            Form(
                f"sync aligned shape=32x32b {_NUM} type=u32|s32|f32 op=min|max",
                "=*d:b32 =t:b32 [addr]",
                rule=_red_count,
            ),
            Form(
                f"sync aligned shape=32x32b {_NUM} op=min|max type=u32|s32",
                "=*d:b32 =t:b32 [addr]",
                rule=_red_count,
            ),
        ),
    ),
    Family("tcgen05.wait::ld", _section("tcgen05.wait"), (Form("sync aligned", ""),)),
    Family("tcgen05.wait::st", _section("tcgen05.wait"), (Form("sync aligned", ""),)),
    Family(
        "tcgen05.cp",
        _section("tcgen05.cp"),
        tuple(
            Form(
                f"{_GROUP} shape=128x256b|4x256b|128x128b|64x128b|32x128b"
                " multicast=warpx2::02_13|warpx2::01_23|warpx4?" + formats,
                "[addr] a:b64",
                rule=_copied,
            )
            for formats in ("", " dst_fmt=b8x16 src_fmt=b6x16_p32|b4x16_p64")
        ),
    ),
    Family(
        "tcgen05.shift", _section("tcgen05.shift"), (Form(f"{_GROUP} down", "[addr]"),)
    ),
    _mma("tcgen05.mma"),
    _mma("tcgen05.mma.sp"),
    _mma_ws("tcgen05.mma.ws"),
    _mma_ws("tcgen05.mma.ws.sp"),
    Family(
        "tcgen05.commit",
        _section("tcgen05.commit"),
        (
            Form(
                f"{_GROUP} completion=mbarrier::arrive::one space=shared::cluster?"
                " multicast=multicast::cluster? type=b64",
                "[mbar] cta_mask:b16?multicast",
            ),
        ),
    ),
    Family(
        "tcgen05.fence::before_thread_sync", _section("tcgen05.fence"), (Form("", ""),)
    ),
    Family(
        "tcgen05.fence::after_thread_sync", _section("tcgen05.fence"), (Form("", ""),)
    ),
)
