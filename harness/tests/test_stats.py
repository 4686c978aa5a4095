"""What the counts are summed up to: roles, areas, bytes, resources, and the report."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cluster_case import RANK, SYNC, barriers, expect, only_rank, wait
from kernel_case import run_kernel
from tensor_case import Kernel, Tensor, only_thread, random_bytes

from sidestream.harness.errors import UsageError
from sidestream.harness.exec.cost import CostTable, mma_flops, registers_moved
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Verdict
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse
from sidestream.harness.run.settings import Settings
from sidestream.harness.stats.area import live_area
from sidestream.harness.stats.classes import class_of
from sidestream.harness.stats.measure import access_bytes, measure
from sidestream.harness.stats.roles import jobs
from sidestream.reports import cost_text, html, json
from sidestream.reports.cost import LaunchCost, document
from sidestream.reports.cost import parse as parse_cost
from sidestream.reports.model import Case, Check, Report
from sidestream.scenarios.scenario import Scenario

TABLE = CostTable()

# --- classes --------------------------------------------------------------------
CLASSES = {
    "mov.b32 %r0, %r1;": "move",
    "mov.b64 %x0, {%r0, %r1};": "move",
    "ex2.approx.ftz.f32 %f0, %f1;": "special",
    "lg2.approx.f32 %f0, %f1;": "special",
    "fma.rn.f32 %f0, %f1, %f1, %f0;": "float",
    "add.rn.f32x2 %x0, %x1, %x1;": "float",
    "add.s32 %r0, %r1, %r1;": "integer",
    "mad.lo.s32 %r0, %r1, %r1, %r1;": "integer",
    "max.f32 %f0, %f1, %f1;": "float",
    "max.s32 %r0, %r1, %r1;": "integer",
    "setp.lt.f32 %p0, %f0, %f1;": "compare",
    "selp.f32 %f0, %f1, %f1, %p0;": "select",
    "cvt.rn.bf16x2.f32 %r0, %f0, %f1;": "convert",
    "shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;": "warp",
    "bar.sync 0;": "barrier",
    "bar.warp.sync -1;": "warp",
    "barrier.cluster.arrive;": "cluster barrier",
    "mbarrier.try_wait.parity.shared.b64 %p0, [%r0], 0;": "mbarrier wait",
    "mbarrier.arrive.shared.b64 _, [%r0];": "mbarrier",
    "ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%r0];": "shared load",
    "st.shared::cta.b32 [%r0], %r1;": "shared store",
    "ld.global.b32 %r0, [%x0];": "global load",
    "st.global.b64 [%x0], %x1;": "global store",
    "ld.param.u64 %x0, [p];": "parameter",
    "red.global.add.u32 [%x0], %r0;": "global store",
    "cp.async.cg.shared.global [%r0], [%x0], 16;": "cp.async",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
    "[%r0], [%x0], 16, [%r1];": "bulk load",
    "cp.async.bulk.global.shared::cta.bulk_group [%x0], [%r0], 16;": "bulk store",
    "cp.async.bulk.commit_group;": "bulk group",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%r2];": "tmem load",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r0};": "tmem store",
    "tcgen05.wait::ld.sync.aligned;": "tmem sync",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
    "[%r0];": "commit",
    "tcgen05.mma.cta_group::1.kind::f16 [%r0], %x0, %x1, %r1, %p0;": "mma",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, "
    "{%r0, %r1, %r2, %r3}, {%r0, %r1}, {%f0, %f1, %f2, %f3};": "mma",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r1}, [%r2];": "shared load",
    "bra END;": "control",
    "exit;": "control",
}


def instruction(text: str):
    return decode(
        parse(
            ".version 9.0\n.target sm_100a\n.address_size 64\n"
            ".visible .entry k(.param .u64 p)\n{.reg .pred %p<4>; .reg .b32 %r<8>; "
            ".reg .f32 %f<8>; .reg .b64 %x<8>;\n" + text + "\nEND: ret;\n}\n"
        )
    ).instructions[0]


@pytest.mark.parametrize("text", CLASSES)
def test_every_instruction_has_its_class(text: str):
    assert class_of(instruction(text)) == CLASSES[text]


def test_sizes_are_read_off_instructions():
    texts = {name.split(" ")[0]: name for name in CLASSES}
    mma = instruction(next(t for n, t in texts.items() if n.startswith("mma.sync")))
    assert mma_flops(mma) == 2 * 16 * 8 * 16
    assert registers_moved(instruction(texts["tcgen05.ld.sync.aligned.32x32b.x2.b32"]))
    load = instruction(texts["ld.shared.v4.b32"])
    assert access_bytes(load) == 16
    assert access_bytes(instruction(texts["st.global.b64"])) == 8


# --- roles ----------------------------------------------------------------------
def names(counts, loaded=None) -> dict[str, tuple[int, ...]]:
    found = jobs(counts, loaded or [0] * len(counts))
    return {job.name: job.warps for job in found}


def test_roles_of_a_kernel_with_tensor_memory():
    soft = {"tmem load": 8, "special": 256, "tmem store": 8, "global store": 2}
    correct = {"tmem load": 8, "special": 4, "tmem store": 8, "global store": 16}
    counts = [soft, soft, correct, {"mma": 64}, {"bulk load": 9}, {"barrier": 2}]
    counts += [{"bulk store": 4}, {"launch control": 3}, {}]
    assert names(counts, [256, 256, 512, 0, 0, 0, 0, 0, 0]) == {
        "softmax": (0, 1),
        "correction": (2,),
        "mma": (3,),
        "load": (4,),
        "idle": (5, 8),
        "epilogue": (6,),
        "scheduler": (7,),
    }


def test_exponentials_as_polynomials_leave_a_softmax_one():
    assert names([{"mma": 1}, {"tmem load": 1, "special": 70}], [0, 256]) == {
        "mma": (0,),
        "softmax": (1,),
    }


def test_roles_of_a_kernel_with_mma_sync():
    worker = {"mma": 64, "special": 9, "global store": 4}
    assert names([worker, worker, {"bulk load": 3, "mbarrier": 1}]) == {
        "consumer": (0, 1),
        "load": (2,),
    }
    assert names([worker | {"cp.async": 5}] * 2) == {"whole": (0, 1)}


def test_a_kernel_that_multiplies_nothing_has_one_role():
    assert names([{"global store": 1}, {}]) == {"all": (0, 1)}


# --- area -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("causal", "left", "right", "anchor"),
    [
        ("none", None, None, None),
        ("top_left", None, None, None),
        ("bottom_right", None, None, None),
        ("bottom_right", 3, None, None),
        ("none", 2, 4, "top_left"),
        ("none", 0, 2, "bottom_right"),
        ("none", None, 1, "bottom_right"),
    ],
)
def test_the_live_area_is_what_the_mask_leaves(causal, left, right, anchor):
    lengths_q, lengths_kv = (5, 0, 9, 3, 1), (7, 4, 9, 2, 0)
    scenario = Scenario(
        name="area",
        description="",
        heads_q=6,
        heads_kv=2,
        causal=causal,
        window_left=left,
        window_right=right,
        anchor=anchor,
        lengths_q=lengths_q,
        lengths_kv=lengths_kv,
    )
    where = causal if causal != "none" else anchor or "top_left"
    expected = 0
    for n_q, n_kv in zip(lengths_q, lengths_kv, strict=True):
        shift = n_kv - n_q if where == "bottom_right" else 0
        for i, j in product(range(n_q), range(n_kv)):
            end = 0 if causal != "none" else right
            kept = end is None or j <= i + shift + end
            kept &= left is None or j >= i + shift - left
            expected += kept
    assert live_area(scenario) == 6 * expected


# --- a launch -------------------------------------------------------------------
MMA = (
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, "
    "{%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f0, %f1, %f2, %f3};\n"
)


MMA_ONCE = ".reg .f32 %f<4>;\n" + MMA


def launch_cost() -> LaunchCost:
    """Warps 0 and 1 multiply what warp 2 loads; warp 3 does nothing."""
    tensor = Tensor(dtype="bf16", dims=(64, 16), strides=(128,), box=(64, 8))
    body = ".reg .f32 %f<4>;\n.reg .b32 %w, %n;\nshr.u32 %w, %t, 5;\n"
    body += "setp.eq.u32 %p0, %t, 64;\n@%p0 mbarrier.init.shared.b64 [%bar], 1;\n"
    body += "bar.sync 0;\nsetp.eq.u32 %p1, %w, 3;\n@%p1 bra OVER;\n"
    body += "setp.eq.u32 %p1, %w, 2;\n@%p1 bra LOAD;\nWAIT:\n"
    body += "mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;\n@!%p2 bra WAIT;\n"
    body += "mov.b32 %r0, 0;\n" + MMA * 6 + "ex2.approx.ftz.f32 %f0, %f0;\n" * 4
    body += "cvt.u64.u32 %x0, %t;\nshl.b64 %x0, %x0, 3;\nadd.u64 %x0, %x0, %g1;\n"
    body += "setp.lt.u32 %p2, %t, 48;\n@%p2 st.global.v2.b32 [%x0], {%r0, %r0};\n"
    body += "bra OVER;\nLOAD:\n"
    body += "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 1024;\n"
    body += (
        "@%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile"
        ".mbarrier::complete_tx::bytes [%s], [%m0, {0, 0}], [%bar];\nOVER:\n"
    )
    ran = Kernel(
        body=body,
        buffers=[random_bytes(2048), np.zeros(512, np.uint8)],
        maps=[(tensor, 0)],
        threads=128,
        options=Options(cost=TABLE),
    ).run()
    assert ran.result.status == "done", (ran.result, ran.program.unsupported)
    assert not ran.result.faults
    return measure(ran.program, ran.result, TABLE, head_dims=(16, 32), live_area=128)


def test_a_launch_is_summed_up_by_role_and_resource():
    cost = launch_cost()
    roles = {role.name: role for role in cost.roles}
    assert {n: r.warps for n, r in roles.items()} == {
        "consumer": (0, 1),
        "load": (2,),
        "idle": (3,),
    }
    assert cost.flops == 2 * 6 * 4096
    assert cost.area == cost.flops / (2 * 48)
    assert cost.tiles == cost.area / 16384
    assert cost.bytes == {
        "tma load": 1024,
        "tma delivered": 1024,
        "global store": 48 * 8,
    }
    consumer = roles["consumer"]
    # 2 ld.param, cvta, shr, setp, init, bar, 2 x (setp, bra), wait, bra,
    # 6 mma, 4 ex2, cvt, shl, add, setp, st, bra, ret
    assert consumer.instructions == 2 * (2 + 1 + 4 + 4 + 2 + 6 + 4 + 5 + 1 + 1)
    assert consumer.classes["mma"] == 12
    assert consumer.classes["special"] == 8
    assert consumer.waits["mbarrier"].passed == 2
    assert consumer.waits["mbarrier"].late == 2
    assert set(consumer.causes) == {"tma load"}
    assert consumer.causes["tma load"] == consumer.waits["mbarrier"].units
    assert roles["idle"].waits["barrier"].passed == 1
    assert cost.chain_units == {"mma.sync": 6 * 16, "tma load": 16 + 512}
    assert sum(r.chain for r in cost.roles) + sum(cost.chain_units.values()) == (
        cost.chain
    )
    assert cost.busy["special"] == 8 * 4
    assert cost.busy["tensor"] == cost.flops / 1024
    assert cost.busy["load"] == 1024 / 64
    assert cost.busy["store"] == 384 / 64
    assert cost.busy["issue"] == consumer.instructions / 2


def test_a_multicast_asks_once_and_delivers_to_both():
    tensor = Tensor(dtype="bf16", dims=(64, 16), strides=(128,), box=(64, 8))
    body = RANK + ".reg .b16 %both;\nmov.b16 %both, 3;\n" + barriers(1)
    body += only_thread(0, expect(0, 1024), "EXPECTED") + SYNC
    issue = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes.multicast::cluster "
        "[%s], [%m0, {0, 0}], [%bar], %both;"
    )
    body += only_rank(0, issue, "ISSUED") + wait(0, 0, "WAIT") + MMA_ONCE
    ran = Kernel(
        body=body,
        buffers=[random_bytes(2048)],
        maps=[(tensor, 0)],
        grid=2,
        cluster=2,
        options=Options(cost=TABLE),
    ).run()
    assert ran.result.status == "done", (ran.result, ran.program.unsupported)
    assert not ran.result.faults
    cost = measure(ran.program, ran.result, TABLE, head_dims=(64, 64), live_area=0)
    assert cost.bytes == {"tma load": 1024, "tma delivered": 2048}
    assert cost.busy["load"] == 2048 / 64
    assert cost.ctas == 2


def test_warps_of_one_scheduler_share_its_slots():
    add = "add.u32 %a, %a, 1;\n"
    body = ".reg .b32 %a;\n.reg .pred %p;\nand.b32 %a, %thread, 96;\n"
    body += "setp.ne.u32 %p, %a, 32;\n@%p bra OVER;\n" + add * 50 + "OVER:\n"
    ran = run_kernel(body, threads=256, block=256, options=Options(cost=TABLE))
    cost = measure(ran.program, ran.result, TABLE, head_dims=(64, 64), live_area=0)
    # warps 1 and 5 work: mad, and, setp, bra, 50, exit each
    assert cost.busy["issue"] == 2 * 55


def test_a_launch_without_counters_is_refused():
    ran = run_kernel("", threads=32, block=32)
    with pytest.raises(ValueError, match="without the cost model"):
        measure(ran.program, ran.result, TABLE, head_dims=(64, 64), live_area=0)


# --- the report -----------------------------------------------------------------
def report(cost: LaunchCost) -> Report:
    case = Case(
        impl="fa4",
        kernel="sm100",
        scenario="one",
        verdict=Verdict.CLEAN,
        checks={"parity": Check(status="passed")},
        cost=(cost,),
    )
    plain = replace(case, scenario="two", cost=())
    return Report(
        command="x", version="0", device="vgpu", arch="sm_100a", cases=(plain, case)
    )


def test_a_report_keeps_costs():
    cost = launch_cost()
    made = report(cost)
    read = json.parse(json.document(made))
    assert read.cases[0].cost == ()
    assert read.cases[1].cost == (cost,)
    (row,) = json.document(made)["stats"]["cost"]
    assert (row["impl"], row["scenario"], row["case"]) == ("fa4", "one", 1)
    each = row["launches"][0]["per_tile"]
    assert each["bytes"]["tma load"] == round(1024 / cost.tiles, 4)
    assert parse_cost(document(cost)) == cost


def test_a_report_without_costs_has_none():
    made = replace(report(launch_cost()), cases=report(launch_cost()).cases[:1])
    assert "cost" not in json.document(made)["stats"]


def test_costs_are_spelled_per_tile():
    cost = launch_cost()
    text = "\n".join(cost_text.lines([cost]))
    consumer = next(r for r in cost.roles if r.name == "consumer")
    row = next(line for line in text.splitlines() if "consumer  0-1" in line)
    assert row.split()[2] == f"{consumer.instructions / cost.tiles:.0f}"
    assert f"tma load {1024 / cost.tiles:.0f}" in text
    page = html.render(report(cost))
    assert "Cost of the executed code" in page
    assert f"{consumer.instructions / cost.tiles:.0f}" in page
    assert "Cost of the executed code" not in html.render(
        replace(report(cost), cases=report(cost).cases[:1])
    )


def test_ranges_of_warps():
    assert cost_text.ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_only_the_virtual_gpu_counts():
    with pytest.raises(UsageError, match="vgpu"):
        Settings(stats=True, device="cuda")
