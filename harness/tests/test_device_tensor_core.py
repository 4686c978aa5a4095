"""What the tensor core refuses, as findings that name the descriptor."""

import pytest
from device_case import line_of, run, text_of

from sidestream.harness.cuda.memory import AllocationTable

DECLARE = ".shared .align 8 .b32 slot[2];\n.shared .align 128 .b8 tile[8192];"
GROUP = "cta_group::1"
START = f"""mov.u32 %r1, slot;
tcgen05.alloc.{GROUP}.sync.aligned.shared::cta.b32 [%r1], 64;
ld.shared.b32 %r2, [%r1];
mov.u64 %rd1, {{a}};
mov.u32 %r3, {{idesc}};
setp.ne.u32 %p1, %r0, 0;
@%p1 bra END;
tcgen05.mma.{GROUP}.kind::f16 [%r2+{{d}}], %rd1, %rd1, %r3, 0;
END:
bar.warp.sync 0xffffffff;
tcgen05.dealloc.{GROUP}.sync.aligned.b32 %r2, 64;
"""
IDESC = 1 << 4 | 4 << 17 | 8 << 24
"""128 x 32, f16 into f32."""
SDESC = 0x480 >> 4 | 8 << 16 | 16 << 32 | 1 << 46


def findings(a=SDESC, idesc=IDESC, d=0):
    table = AllocationTable()
    body = START.format(a=a, idesc=idesc, d=d)
    text = text_of(body, declare=DECLARE, target="sm_100a")
    outcome = run(text, table, table.allocate(64, "v"), budget=100_000, threads=32)
    assert outcome.incomplete == ()
    return text, outcome.findings


def test_legal_operands_have_no_findings():
    assert findings()[1] == ()


@pytest.mark.parametrize(
    ("how", "words", "need"),
    [
        (
            {"idesc": IDESC | 1 << 6},
            "with a reserved bit set: instruction descriptor 0x08080050",
            "zeros in the reserved bits",
        ),
        (
            {"idesc": IDESC | 2 << 7},
            "a type that its .kind does not have: instruction descriptor 0x08080110",
            "type codes of the .kind",
        ),
        (
            {"a": SDESC | 3 << 61},
            "swizzling mode that does not exist",
            "mode 0, 2, 4 or 6",
        ),
        (
            {"a": SDESC & ~(1 << 46)},
            "reserved bits are wrong: shared memory descriptor 0x0000001000080048",
            "0b001 in bits 46 to 48",
        ),
        ({"d": 48}, "columns from 48 of the lanes from 0", "one allocation"),
    ],
)
def test_a_refusal_names_the_value_and_the_rule(how, words, need):
    text, found = findings(**how)
    first = found[0]
    assert len(found) == 1
    assert words in first.message
    assert need in first.need
    assert first.sites[0].ptx_line == line_of(text, "tcgen05.mma")
    agent = "cta 0, asynchronous operation of warp 0 lane 0"
    assert first.sites[0].agent == agent
