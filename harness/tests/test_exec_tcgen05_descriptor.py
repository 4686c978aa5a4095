"""Instruction and shared memory descriptors against tables written from the PTX ISA.

The core's decoder is called as it is; the reference lists what each field may hold.
"""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestream.harness.exec.build import load

KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "u8", "s8")
TYPES += ("f32", "s32")
RESERVED, SPARSITY, SATURATE, TYPE, NEGATE, MAJOR, M, N, SCALE = range(6, 15)
FIXED, SWIZZLE, BASE, ABSOLUTE = range(15, 19)


class Form(ctypes.Structure):
    """`MmaForm`."""

    _fields_ = [(n, ctypes.c_uint32) for n in ("kind", "group", "ws", "scales")]


class Idesc(ctypes.Structure):
    """`Idesc`."""

    _fields_ = [
        (n, ctypes.c_uint32)
        for n in (
            *("m", "n", "k", "a", "b", "d", "negate_a", "negate_b", "mn_a", "mn_b"),
            *("saturate", "max_shift", "sfa", "sfb", "ue4m3"),
        )
    ]


class Sdesc(ctypes.Structure):
    """`Sdesc`."""

    _fields_ = [
        (n, ctypes.c_uint32) for n in ("start", "lbo", "sbo", "base", "swizzle")
    ]


def decode(kind, bits, *, group=1, ws=False, scales=0):
    """The error code, and the decoded fields by name."""
    form = Form(KINDS.index(kind), group, int(ws), scales)
    out = Idesc()
    code = load().lib.tcgen05_idesc(ctypes.byref(form), bits, ctypes.byref(out))
    fields = {name: getattr(out, name) for name, _ in Idesc._fields_}
    for name in "abd":
        fields[name] = TYPES[fields[name]]
    return code, fields


def decode_smem(desc, bits=16, mn=False):
    out = Sdesc()
    function = load().lib.tcgen05_sdesc
    function.argtypes = [
        *(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
    ]
    code = function(desc, bits, int(mn), ctypes.addressof(out))
    return code, {name: getattr(out, name) for name, _ in Sdesc._fields_}


# Instruction descriptor, Tables 42 to 44: position, width, and what each kind allows.

NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
INPUTS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": NARROW,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
RESULTS = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
K = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}
SUB_BYTE = ("e2m3", "e3m2", "e2m1")


def shapes(kind, group, ws, eight_bit_transposed):
    """Legal M and N, Table 39 and the table of 8-bit transposed B."""
    if ws:
        return {32, 64, 128}, {64, 128, 256}
    if kind.startswith("mx"):
        m = {128} if group == 1 else {128, 256}
    else:
        m = {64, 128} if group == 1 else {128, 256}
    if eight_bit_transposed:
        return m, set(range(16 * group, 257, 16 * group))
    if kind == "i8":
        n = {8, 16, 24, *range(32, 257, 16)} if group == 1 else set(range(32, 257, 32))
        return m, n
    return m, set(range(8 * group, 257, 8 * group))


def at(bits, low, width):
    return bits >> low & (2**width - 1)


def reference(kind, bits, group, ws, scales):
    """The decoded fields, or None if any is not allowed."""
    mx, fp4 = kind.startswith("mx"), kind.startswith("mxf4")
    a = INPUTS[kind].get(at(bits, 7, 3))
    b = INPUTS[kind].get(at(bits, 10, 2 if fp4 else 3))
    d = "f32" if mx else RESULTS[kind].get(at(bits, 4, 2))
    if None in (a, b, d) or at(bits, 2, 1) or at(bits, 6, 1):
        return None
    if kind == "f16" and d == "f16" and "bf16" in (a, b):
        return None
    fields = {
        "a": a,
        "b": b,
        "d": d,
        "k": K.get(kind, 32),
        "n": at(bits, 17, 6) * 8,
        "m": at(bits, 27, 2) * 128 if mx else at(bits, 24, 5) * 16,
        "negate_a": at(bits, 13, 1),
        "negate_b": at(bits, 14, 1),
        "mn_a": at(bits, 15, 1),
        "mn_b": at(bits, 16, 1),
        "saturate": at(bits, 3, 1),
        "max_shift": 0 if mx else (0, 8, 16, 32)[at(bits, 30, 2)],
        "sfa": at(bits, 29, 2) if mx else 0,
        "sfb": at(bits, 4, 2) if mx else 0,
        "ue4m3": 1 - at(bits, 23, 1) if mx else 0,
    }
    zero = []
    if mx:
        zero += [at(bits, 0, 2), at(bits, 3, 1), at(bits, 24, 3), at(bits, 31, 1)]
        zero += [at(bits, 12, 1)] if fp4 else []
        unit = {1: 1, 2: 2, 4: 4}[scales]
        zero += [fields["sfa"] % unit, fields["sfb"] % unit]
        if fields["ue4m3"]:
            zero.append(not (kind == "mxf4nvf4" and scales == 4))
    else:
        zero.append(at(bits, 23, 1))
        if kind != "f16":  # cuDNN sets it there, to no effect
            zero.append(at(bits, 29, 1))
    if kind == "i8":
        zero += [fields["negate_a"], fields["negate_b"]]
    else:
        zero.append(fields["saturate"])
    zero += [fields["mn_a"] and a in SUB_BYTE, fields["mn_b"] and b in SUB_BYTE]
    eight = b in ("e4m3", "e5m2", "u8", "s8") and fields["mn_b"]
    m, n = shapes(kind, group, ws, eight)
    if any(zero) or fields["m"] not in m or fields["n"] not in n:
        return None
    return fields


FORMS = [(k, g, False, 0) for k in KINDS[:4] for g in (1, 2)]
FORMS += [(k, 1, True, 0) for k in KINDS[:4]]
FORMS += [
    (k, g, False, s)
    for k, s in (("mxf8f6f4", 1), ("mxf4", 2), ("mxf4nvf4", 2), ("mxf4nvf4", 4))
    for g in (1, 2)
]


def legal(kind, group, ws, scales, rng):
    """A descriptor that the reference accepts."""

    def one(values):
        return int(rng.choice(sorted(values)))

    m, n = shapes(kind, group, ws, False)
    bits = one(INPUTS[kind]) << 7 | one(INPUTS[kind]) << 10 | one(n) >> 3 << 17
    bits |= one({0, 1}) << 13 | one({0, 1}) << 14 if kind != "i8" else 0
    if kind.startswith("mx"):
        ids = range(0, 4, scales)
        bits |= one(ids) << 29 | one(ids) << 4 | one(m) >> 7 << 27 | 1 << 23
    else:
        bits |= one(RESULTS[kind]) << 4 | one(m) >> 4 << 24 | one(range(4)) << 30
    majors = 0 if kind.startswith("mxf4") else one(range(4)) << 15
    for extra in (majors, 0):
        if reference(kind, bits | extra, group, ws, scales):
            return bits | extra
    return legal(kind, group, ws, scales, rng)


@pytest.mark.parametrize(("kind", "group", "ws", "scales"), FORMS)
def test_legal_descriptors_decode_and_every_flip_agrees(kind, group, ws, scales):
    rng = np.random.default_rng(3)
    how = {"group": group, "ws": ws, "scales": scales}
    refused = 0
    for _ in range(30):
        bits = legal(kind, group, ws, scales, rng)
        assert decode(kind, bits, **how) == (
            0,
            reference(kind, bits, group, ws, scales),
        )
        for flip in range(32):
            code, fields = decode(kind, bits ^ 1 << flip, **how)
            expected = reference(kind, bits ^ 1 << flip, group, ws, scales)
            assert (code == 0) == (expected is not None), (bin(bits), flip, code)
            if expected is None:
                refused += 1
            else:
                assert fields == expected
    assert refused > 100


@given(st.integers(0, 2**32 - 1), st.sampled_from(FORMS))
def test_any_bits_are_decoded_or_refused(bits, form):
    kind, group, ws, scales = form
    code, fields = decode(kind, bits, group=group, ws=ws, scales=scales)
    expected = reference(kind, bits, group, ws, scales)
    assert (code == 0) == (expected is not None)
    if expected is not None:
        assert fields == expected


def base(kind, m=128, n=64, **fields):
    """A plain legal descriptor."""
    code = {"f16": 0, "tf32": 2, "f8f6f4": 0, "i8": 0}.get(kind, 1)
    bits = (n >> 3) << 17 | fields.get("a", code) << 7 | fields.get("b", code) << 10
    if kind.startswith("mx"):
        return bits | (m >> 7) << 27 | 1 << 23
    return bits | (m >> 4) << 24 | (2 if kind == "i8" else 1) << 4


@pytest.mark.parametrize(
    ("kind", "flip", "how", "code"),
    [
        ("f16", 1 << 2, {}, SPARSITY),
        ("f16", 1 << 3, {}, SATURATE),
        ("f16", 1 << 6, {}, RESERVED),
        ("f16", 1 << 23, {}, RESERVED),
        ("tf32", 1 << 29, {}, RESERVED),
        ("f8f6f4", 1 << 29, {}, RESERVED),
        ("f16", 2 << 4, {}, TYPE),
        ("f16", 2 << 7, {}, TYPE),
        ("f16", 1 << 4 | 1 << 10, {}, TYPE),  # bf16 into f16
        ("f8f6f4", 2 << 7, {}, TYPE),
        ("f8f6f4", 7 << 10, {}, TYPE),
        ("i8", 3 << 4, {}, TYPE),
        ("i8", 1 << 13, {}, NEGATE),
        ("i8", 1 << 14, {}, NEGATE),
        ("f8f6f4", 3 << 7 | 1 << 15, {}, MAJOR),
        ("f8f6f4", 5 << 10 | 1 << 16, {}, MAJOR),
        ("f16", 1 << 24, {}, M),
        ("f16", 16 << 24, {}, M),
        ("f16", 12 << 24, {"ws": True}, 0),  # 128 -> 64
        ("f16", 12 << 24, {"group": 2}, M),  # 64
        ("f16", 63 << 17, {}, N),
        ("f16", 32 << 17, {}, N),  # 320
        ("f16", 1 << 17, {}, 0),
        ("f16", 1 << 17, {"group": 2}, N),
        ("f16", 1 << 17, {"ws": True}, N),
        ("i8", 1 << 17, {}, N),  # 72
        ("f8f6f4", 1 << 17 | 1 << 16, {}, N),  # 72, 8-bit transposed
    ],
)
def test_each_wrong_field_has_its_code(kind, flip, how, code):
    assert decode(kind, base(kind) ^ flip, **how)[0] == code


# Shared memory descriptor, Table 40.


def smem(start=0x2000, lbo=0x80, sbo=0x400, mode=2, base_offset=0, absolute=0):
    value = start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | 1 << 46
    return value | base_offset << 49 | absolute << 52 | mode << 61


def test_fields_of_a_shared_memory_descriptor():
    rng = np.random.default_rng(5)
    for _ in range(200):
        start, lbo, sbo = (int(v) * 16 for v in rng.integers(0, 2**14, 3))
        mode = int(rng.choice([2, 4, 6]))
        offset = int(rng.integers(0, 8))
        value = smem(start, lbo, sbo, mode, offset)
        assert decode_smem(value) == (
            0,
            {"start": start, "lbo": lbo, "sbo": sbo, "base": offset, "swizzle": mode},
        )


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 47, 48, *range(53, 61)])
def test_fixed_bits_of_a_shared_memory_descriptor(bit):
    assert decode_smem(smem() ^ 1 << bit)[0] == FIXED


def test_swizzling_modes_by_type_and_majorness():
    for bits in (8, 16, 32):
        for mn in (False, True):
            for mode in range(8):
                transposed_words = mn and bits == 32
                good = {1} if transposed_words else {0, 2, 4, 6}
                code = decode_smem(smem(mode=mode), bits, mn)[0]
                assert code == (0 if mode in good else SWIZZLE), (bits, mn, mode)


def test_absolute_strides_and_base_offsets_without_a_pattern():
    assert decode_smem(smem(absolute=1))[0] == ABSOLUTE
    assert decode_smem(smem(mode=0, base_offset=3))[0] == BASE
    assert decode_smem(smem(mode=0))[0] == 0
