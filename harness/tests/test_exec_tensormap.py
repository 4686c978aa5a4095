"""`tensormap.replace` and `tensormap.cp_fenceproxy`: which bits of a map change."""

import numpy as np
import pytest
from tensor_case import GLOBAL, SPACING, Kernel, Tensor, random_bytes

OLD = Tensor(dtype="f16", dims=(64, 9), strides=(128,), box=(16, 4))
# Field, ordinal, value, and the tensor that the map then is of.
FIELDS = [
    ("box_dim", 0, 32, {"box": (32, 4)}),
    ("box_dim", 1, 7, {"box": (16, 7)}),
    ("global_dim", 0, 40, {"dims": (40, 9)}),
    ("global_dim", 1, 2**31, {"dims": (64, 2**31)}),
    ("global_stride", 0, 2**39 + 16, {"strides": (2**39 + 16,)}),
    ("element_stride", 1, 3, {"steps": (1, 3)}),
    ("element_stride", 0, 2, {"steps": (2, 1)}),
    ("elemtype", None, 10, {"dtype": "bf16"}),
    ("elemtype", None, 0, {"dtype": "u8"}),
    ("swizzle_mode", None, 1, {"swizzle": 1}),
    ("fill_mode", None, 1, {"nan_fill": True}),
]


def _changed(changes):
    fields = {f: getattr(OLD, f) for f in OLD.__dataclass_fields__}
    return Tensor(**{**fields, **changes})


def _replace(field, ordinal, value, space):
    kind = "b64" if field in ("global_stride", "global_address") else "b32"
    at = "[%g0]" if space == "global" else "[%s]"
    literal = field in ("elemtype", "swizzle_mode", "fill_mode", "interleave_layout")
    given = str(value) if literal else "%x1" if kind == "b64" else "%r1"
    move = "" if literal else f"mov.{kind} {given}, {value};\n"
    order = "" if ordinal is None else f"{ordinal}, "
    name = f"tensormap.replace.tile.{field}.{space}.b1024.{kind}"
    return f"{move}{name} {at}, {order}{given};"


def _run(body, start, **more):
    return Kernel(
        body=body, buffers=[np.frombuffer(start, np.uint8).copy()], threads=1, **more
    ).run()


@pytest.mark.parametrize(("field", "ordinal", "value", "changes"), FIELDS)
def test_a_replaced_field_gives_the_map_of_the_other_tensor(
    field, ordinal, value, changes
):
    body = _replace(field, ordinal, value, "global")
    ran = _run(body, OLD.map(GLOBAL))
    assert not ran.result.faults
    assert ran.buffers[0].tobytes() == _changed(changes).map(GLOBAL)


@pytest.mark.parametrize("start", [bytes(128), b"\xff" * 128])
def test_the_address_and_the_rank(start):
    body = _replace("global_address", None, 0x1234_5678_9ABC_DEF0, "global")
    body += _replace("rank", None, 2, "global")
    ran = _run(body, start)
    words = ran.buffers[0].view(np.uint32)
    assert words[0] == 0x9ABCDEF0
    assert words[1] == 0x12345678
    assert words[2] >> 4 & 7 == 2
    other = np.frombuffer(start, np.uint32)
    assert (words[3:] == other[3:]).all()
    assert words[2] & ~np.uint32(0x70) == other[2] & ~np.uint32(0x70)


def test_tf32_is_a_flag_beside_f32():
    ran = _run(_replace("elemtype", None, 12, "global"), bytes(128))
    assert ran.buffers[0].view(np.uint32)[2] == 8 << 7 | 1 << 16


def test_a_map_edited_in_shared_memory_is_copied_by_the_warp():
    new = _changed({"box": (16, 7)})
    body = (
        "shl.b32 %r0, %lane, 2;\nadd.u32 %r1, %s, %r0;\ncvt.u64.u32 %x0, %r0;\n"
        "add.u64 %x0, %x0, %g0;\nld.global.b32 %r2, [%x0];\nst.shared.b32 [%r1], %r2;\n"
        "bar.warp.sync -1;\nsetp.ne.u32 %p0, %t, 0;\n@%p0 bra EDITED;\n"
        + _replace("box_dim", 1, 7, "shared::cta")
        + "EDITED: bar.warp.sync -1;\ncvt.u64.u32 %x2, %s;\n"
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
        ".sync.aligned [%g1], [%x2], 128;"
    )
    old = np.frombuffer(OLD.map(GLOBAL + 2 * SPACING), np.uint8).copy()
    ran = Kernel(body=body, buffers=[old, random_bytes(128)]).run()
    assert ran.result.status == "done", ran.program.unsupported
    assert not ran.result.faults
    assert ran.buffers[1].tobytes() == new.map(GLOBAL + 2 * SPACING)


def test_an_edited_map_is_what_the_next_copy_reads():
    body = (
        _replace("box_dim", 0, 8, "global")
        + "st.shared.v4.b32 [%s], {1, 2, 3, 4};\nfence.proxy.async.shared::cta;\n"
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%g0, {8, 1}], [%s];\ncp.async.bulk.commit_group;\n"
        "cp.async.bulk.wait_group 0;"
    )
    tensor = Tensor(dtype="f16", dims=(64, 9), strides=(128,), box=(16, 1))
    start = np.frombuffer(tensor.map(GLOBAL + SPACING), np.uint8).copy()
    target = np.full(2048, 9, np.uint8)
    ran = Kernel(body=body, buffers=[start, target], threads=1).run()
    assert not ran.result.faults
    want = target.copy()
    want[128 + 16 : 128 + 32] = np.array([1, 2, 3, 4], np.uint32).view(np.uint8)
    assert (ran.buffers[1] == want).all()


@pytest.mark.parametrize(
    ("at", "kind"), [(16, "misaligned"), (64, "oob-write"), (1 << 20, "oob-write")]
)
def test_a_map_that_is_not_there(at, kind):
    body = f"add.u64 %g0, %g0, {at};\n" + _replace("rank", None, 1, "global")
    ran = _run(body, OLD.map(GLOBAL))
    assert [f.kind for f in ran.result.faults] == [kind]
    assert ran.buffers[0].tobytes() == OLD.map(GLOBAL)


def test_fields_without_a_model_are_named():
    text = "tensormap.replace.tile.elemtype.global.b1024.b32 [%g0], 14;"
    ran = _run(text, OLD.map(GLOBAL))
    assert ran.result.status == "unsupported"
    assert "elemtype" in ran.program.unsupported[0][1]
