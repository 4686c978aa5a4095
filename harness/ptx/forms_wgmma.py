"""Forms of PTX ISA chapter "Asynchronous Warpgroup Level Matrix Instructions"."""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_WARPGROUP = 128


def _section(name: str) -> str:
    return f"Asynchronous Multiply-and-Accumulate Instruction: {name}"


def _shapes(k: int) -> str:
    return "shape=" + "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8))


def _integer_shapes(k: int) -> str:
    sizes = (8, 24, *range(16, 257, 16))
    return "shape=" + "|".join(f"m64n{n}k{k}" for n in sizes)


def _fragments(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """D has 64 N elements over 128 threads; A in registers has four of them."""
    n = int(mods["shape"].split("n")[1].split("k")[0])
    halves = 2 if mods["dtype"] == "f16" else 1
    d, a = args["d"], args["a"]
    if isinstance(a, ir.Vector) and len(a.elements) != 4:
        return False
    return (
        isinstance(d, ir.Vector) and len(d.elements) == 64 * n // _WARPGROUP // halves
    )


def _rows(sparse: int) -> list[Form]:
    """Every type row, with A by descriptor or in registers."""
    metadata = " metadata:b32 $selector" if sparse == 2 else ""
    rows: list[tuple[str, str, str, str]] = []
    for types, results in (("f16", "f16|f32"), ("bf16", "f32")):
        words = f"{_shapes(16 * sparse)} dtype={results} atype={types} btype={types}"
        rows.append((words, "$negate_a $negate_b ", "$trans_a $trans_b", "$trans_b"))
    rows.append(
        (
            f"{_shapes(8 * sparse)} dtype=f32 atype=tf32 btype=tf32",
            "$negate_a $negate_b",
            "",
            "",
        )
    )
    rows.append(
        (
            f"{_shapes(32 * sparse)} dtype=f16|f32 atype=e4m3|e5m2 btype=e4m3|e5m2",
            "$negate_a $negate_b",
            "",
            "",
        )
    )
    integers = "dtype=s32 atype=u8|s8 btype=u8|s8"
    rows.append((f"{_integer_shapes(32 * sparse)} satfinite? {integers}", "", "", ""))
    # Examples in the ISA put the word last.
    rows.append((f"{_integer_shapes(32 * sparse)} {integers} satfinite", "", "", ""))
    if sparse == 1:
        rows.append(
            (
                f"{_integer_shapes(256)} dtype=s32 atype=b1 btype=b1 op=and !popc",
                "",
                "",
                "",
            )
        )
    found: list[Form] = []
    for words, scales, both, only_b in rows:
        for a, trans in (("a:b64", both), ("{a}:b32", only_b)):
            found.append(
                Form(
                    f"sync aligned {words}",
                    f"=*d:b32 {a} b:b64{metadata} scale_d:pred {scales} {trans}",
                    rule=_fragments,
                )
            )
    return found


FAMILIES: tuple[Family, ...] = (
    Family("wgmma.fence", _section("wgmma.fence"), (Form("sync aligned", ""),)),
    Family(
        "wgmma.commit_group",
        _section("wgmma.commit_group"),
        (Form("sync aligned", ""),),
    ),
    Family(
        "wgmma.wait_group",
        _section("wgmma.wait_group"),
        (Form("sync aligned", "$count"),),
    ),
    Family("wgmma.mma_async", _section("wgmma.mma_async"), tuple(_rows(1))),
    Family("wgmma.mma_async.sp", _section("wgmma.mma_async.sp"), tuple(_rows(2))),
)
