"""Mutants of what one-byte inputs add: factors, the factor on weights, largest output.

    for mutant in ONE_BYTE_MUTANTS:
        ...                      # `mutant.check` fails on `mutant.scenario`

None is of a public report; each is a mistake that a kernel of such inputs invites.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.scenarios.bugs.bug import Edit

_ARCHS = ("sm_120a", "sm_100a")
_EDGES = "fp8-e4m3-edges"
_CALL = "        declared = spec.batch"


@dataclass(frozen=True, kw_only=True)
class OneByteMutant:
    """Our kernel with one such mistake, and where that must show.

    Attributes:
        name: Of the mistake; the same on every target that has it.
        arch: PTX target that it is compiled for.
        scenario: A scenario of the catalogue that shows it.
        edits: Changes that put it in.
        check: The check that must fail.
        said: Words of a finding's message.
    """

    name: str
    arch: str
    scenario: str
    edits: tuple[Edit, ...]
    check: str = "parity"
    said: str = "O at"


def _both(
    name: str, scenario: str, *edits: tuple[str, str, str], **facts: str
) -> tuple[OneByteMutant, ...]:
    """Return a mistake in what both kernels share."""
    return tuple(_one(arch, name, scenario, *edits, **facts) for arch in _ARCHS)


def _one(
    arch: str, name: str, scenario: str, *edits: tuple[str, str, str], **facts: str
) -> OneByteMutant:
    """Return a mistake in one kernel; an edit is a file, its text and the new one."""
    return OneByteMutant(
        name=name,
        arch=arch,
        scenario=scenario,
        edits=tuple(Edit(file=f, old=old, new=new) for f, old, new in edits),
        **facts,
    )


_FACTORS = "common/factors.py"
_NO_NAN = (_FACTORS, "cute.arch.fmax(value, Float32(0.0))", "value")

ONE_BYTE_MUTANTS: tuple[OneByteMutant, ...] = (
    *_both(
        "factor of V left out",
        _EDGES,
        (_FACTORS, "of_values = read_factor(factors.descale_v)", "pass"),
    ),
    *_both(
        "factor of O left out",
        "fp8-e4m3-to-same",
        (_FACTORS, "of_output = read_factor(factors.scale_out)", "pass"),
    ),
    *_both(
        "factor of K left out",
        _EDGES,
        (
            _FACTORS,
            "read_factor(factors.descale_q) * read_factor(factors.descale_k)",
            "read_factor(factors.descale_q)",
        ),
    ),
    *_both(
        "largest output not reset",
        _EDGES,
        (
            "common/worklist.py",
            "cute.make_tensor(amax, cute.make_layout(1))[0] = Float32(0.0)",
            "pass",
        ),
        said="amax is",
    ),
    *_both(
        "largest output not reset where nobody asks",
        "fp8-e4m3-no-capacity",
        (
            "execute.py",
            "if view_q.tokens == 0 and amax is None:",
            "if view_q.tokens == 0:",
        ),
        said="amax is",
    ),
    *_both(
        "largest output of one lane",
        "fp8-e4m3-plain",
        (
            _FACTORS,
            "cute.arch.warp_reduction_max(cute.arch.fmax(value, Float32(0.0)))",
            "cute.arch.fmax(value, Float32(0.0))",
        ),
        said="amax is",
    ),
    _one(
        "sm_120a",
        "largest output of NaN",
        "fp8-e4m3-neighbour-half-nan",
        (
            "sm120/consumer.py",
            "cute.arch.fmax(largest, magnitude)",
            "cutlass.select_(largest > magnitude, largest, magnitude)",
        ),
        _NO_NAN,
        said="amax is",
    ),
    _one(
        "sm_100a",
        "largest output of NaN",
        "fp8-e4m3-neighbour-half-nan",
        _NO_NAN,
        said="amax is",
    ),
    *_both(
        "largest output of dead rows",
        "fp8-e4m3-huge-tail",
        (
            _FACTORS,
            "cutlass.select_(live, peak * cute.math.absf(factor), Float32(0.0))",
            "peak * cute.math.absf(factor)",
        ),
        said="amax is",
    ),
    *(
        _one(
            arch,
            "largest output of one row too many",
            "fp8-e4m3-huge-tail",
            (file, f"factor, {row} < len_q)", f"factor, {row} <= len_q)"),
            said="amax is",
        )
        for arch, file, row in (
            ("sm_120a", "sm120/consumer.py", "local"),
            ("sm_100a", "sm100/correction.py", "row"),
        )
    ),
    *_both(
        "largest output after the factor of O",
        "fp8-e4m3-to-same",
        (_FACTORS, "    return factor, stored\n", "    return stored, stored\n"),
        said="amax is",
    ),
    *_both(
        "factor on weights left in LSE",
        _EDGES,
        ("common/normalise.py", "top = top - config.bias", "pass"),
        said="LSE at",
    ),
    *_both(
        "weights without their factor",
        "fp8-e4m3-faint",
        ("common/softmax.py", "base = base - config.bias", "pass"),
        ("common/normalise.py", "top = top - config.bias", "pass"),
    ),
    *_both(
        "factor read on the host",
        _EDGES,
        ("execute.py", _CALL, f"        float(descale_v)\n{_CALL}"),
        check="host-sync",
        said="float",
    ),
    *_both(
        "largest output cleared by the host",
        _EDGES,
        (
            "execute.py",
            _CALL,
            f"        if amax is not None:\n            amax.zero_()\n{_CALL}",
        ),
        check="host-sync",
        said="zero_",
    ),
)
