"""The card's approximations: the recorded tables, the model, and how far ours are."""

import hw_approximations as model
import hw_emulator
import numpy as np
import pytest
from hw_all import all_cases
from hw_case import Case, Lanewise, f32_words, header
from hw_substitute import substitute

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.program import lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

OPS = ("ex2", "rcp", "lg2")
_BASE = 0x7000_0000_0000
_SPACING = 1 << 28
_BLOCK = 256


@pytest.fixture(scope="module")
def tables():
    return model.load()


def modelled(name, words):
    """Inputs that the model of an instruction covers."""
    if name != "lg2":
        return np.ones(len(words), bool)
    return (words >= model.LG2_FIRST) & (words < model.INFINITY)


def edges():
    """Words beside every power of two and zero, both signs, and general ones."""
    heads = np.arange(256, dtype=np.int64) << 23
    near = (heads[:, None] + np.arange(-3, 4)).reshape(-1)
    both = np.concatenate([near, near + (1 << 31)]) & 0xFFFF_FFFF
    whole = np.arange(-160, 161).astype(np.float32).view(np.uint32)
    beside = (whole.astype(np.int64)[:, None] + np.arange(-2, 3)).reshape(-1)
    lg2 = np.arange(model.LG2_FIRST - 2, model.LG2_FIRST + 3)
    words = np.concatenate([both, beside & 0xFFFF_FFFF, lg2, f32_words(77, 1 << 15)])
    return np.resize(words, -(-len(words) // _BLOCK) * _BLOCK).astype(np.uint32)


def test_the_record_names_its_card_and_what_it_asked(tables):
    assert tables.about["card"] == "NVIDIA H200"
    assert {"driver", "recorded", "cuda"} <= set(tables.about)
    assert tables.about["inputs"] == {
        "ex2": {"asked": 1 << 32, "missed": 0},
        "rcp": {"asked": 1 << 32, "missed": 0},
        "lg2": {"asked": model.INFINITY - model.LG2_FIRST, "missed": 0},
    }


def test_packing_loses_nothing():
    words = f32_words(5, 5000)
    assert (model.unpack(model.pack(words)) == words).all()


@pytest.mark.parametrize("name", OPS)
def test_the_model_gives_the_recorded_instruction_cases(tables, name):
    cases = all_cases()
    number = next(k for k, c in enumerate(cases) if c.name == f"{name}.approx.ftz.f32")
    with np.load(instruction_record()) as file:
        want = file[f"c{number}"].view(np.uint32)
    inputs = cases[number].buffers[0].view(np.uint32)
    inside = modelled(name, inputs)
    assert inside.sum() > 100
    got = getattr(model, name)(tables, inputs[inside])
    assert (got == want[inside]).all()


def instruction_record():
    return model.RECORD.parent / "record.npz"


def run_substituted(name, inputs, tables):
    """Execute one instruction, replaced, over `inputs`."""
    text = header(".param .u64 p_in, .param .u64 p_out")
    text += f"""
.reg .b32 %t<4>, %x, %y;
.reg .b64 %p<4>;
ld.param.u64 %p0, [p_in];
ld.param.u64 %p1, [p_out];
mov.u32 %t0, %tid.x;
mov.u32 %t1, %ctaid.x;
mad.lo.u32 %t2, %t1, {_BLOCK}, %t0;
mad.wide.u32 %p2, %t2, 4, %p0;
ld.global.u32 %x, [%p2];
{name}.approx.ftz.f32 %y, %x;
mad.wide.u32 %p2, %t2, 4, %p1;
st.global.u32 [%p2], %y;
ret;
}}
"""
    at = {n: _BASE + (k + 2) * _SPACING for k, n in enumerate(OPS)}
    text, count = substitute(text, at)
    assert count == 1
    made = np.zeros_like(inputs)
    buffers = [inputs.copy(), made, *(getattr(tables, n) for n in OPS)]
    table = np.zeros(len(buffers), abi.ALLOC_DTYPE)
    for k, buffer in enumerate(buffers):
        flags = abi.ALLOC_READ | (abi.ALLOC_WRITE if k == 1 else 0)
        place = _BASE + k * _SPACING
        table[k] = (place, buffer.nbytes, buffer.ctypes.data, 0, k, flags)
    program = lower(decode(parse(text)))
    launch = Launch(
        kernel="k",
        ptx=text,
        grid=(len(inputs) // _BLOCK, 1, 1),
        block=(_BLOCK, 1, 1),
        params=tuple((_BASE + k * _SPACING).to_bytes(8, "little") for k in (0, 1)),
    )
    result = execute(program, launch, table, Options())
    assert result.status == "done", result.waiting[:2]
    assert not result.faults, result.faults[:2]
    return made


@pytest.mark.parametrize("name", OPS)
def test_substituted_code_is_the_model(tables, name):
    inputs = edges()
    inputs = inputs[modelled(name, inputs)]
    inputs = np.resize(inputs, -(-len(inputs) // _BLOCK) * _BLOCK)
    want = getattr(model, name)(tables, inputs)
    got = run_substituted(name, inputs, tables)
    wrong = got != want
    if name == "rcp":  # results that may be subnormal keep the instruction
        wrong &= (inputs >> 23 & 0xFF) < 251
    assert not wrong.any(), [hex(w) for w in inputs[wrong][:5]]


@pytest.mark.parametrize(
    ("name", "start", "ulp"),
    [
        ("ex2", 0xBF80_0000, 2),
        ("ex2", 0x3F80_0000, 2),
        ("rcp", 0x3F80_0000, 1),
        ("lg2", 0x4000_0000, 2),
        ("lg2", 0x4400_0000, 1),
    ],
)
def test_ours_stay_near_the_card_over_a_whole_binade(tables, name, start, ulp):
    """Every mantissa; the greatest distance is reached, so the bound is the figure."""
    inputs = np.arange(start, start + model.SIZE, dtype=np.int64).astype(np.uint32)
    case: Case = Lanewise(
        name=name, body=f"{name}.approx.ftz.f32 %o0, %i0;", inputs=(inputs,)
    ).case()
    (made,) = hw_emulator.run(case)
    want = getattr(model, name)(tables, inputs).astype(np.int64)
    apart = np.abs(made.view(np.uint32).astype(np.int64) - want)
    assert apart.max() == ulp
