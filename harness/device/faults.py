"""Faults of the execution core as findings that name the tensor and the byte."""

from __future__ import annotations

from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.device import misuse
from sidestream.harness.device.rules import FAULTS
from sidestream.harness.device.sites import agent_text, cta_text, site_at
from sidestream.harness.exec.program import SMEM_BASE, Program
from sidestream.harness.exec.result import Fault
from sidestream.harness.finding import Finding, Site

_GLOBAL = {"oob-read", "oob-write", "misaligned", "freed", "readonly", "uninit"}
_MISUSE = {
    "mbarrier": ("uses an mbarrier that ", misuse.MBARRIER),
    "named-barrier": ("uses a barrier that ", misuse.BARRIER),
    "tensormap": ("uses a tensor map that ", misuse.TENSORMAP),
    "bulk": ("", misuse.BULK),
    "setmaxnreg": ("", misuse.SETMAXNREG),
    "cluster": ("", misuse.CLUSTER),
    "clc": ("", misuse.CLC),
    "tmem-alloc": ("", misuse.TENSOR_MEMORY),
    "tmem": ("", misuse.TENSOR_MEMORY),
    "tmem-uninit": ("", misuse.TENSOR_MEMORY),
    "tcgen05": ("", misuse.TCGEN05),
}
"""By kind of fault, how its exact wrong begins, and what each code means."""
_SHARED = {"smem-oob", "smem-misaligned", "smem-uninit", "mbarrier", "cluster"}


def finding_of(fault: Fault, program: Program, table: AllocationTable) -> Finding:
    """Tell a fault: who did what to which byte of which tensor, by which rule."""
    told = FAULTS[fault.kind]
    lane = "" if fault.lane is None else f"lane {fault.lane}"
    agent = agent_text(cta_text(fault.cta), fault.warp, lane, engine=fault.engine)
    what, need = told.what, told.need
    extra = {"fault": fault.kind, "address": fault.address, "size": fault.size}
    if fault.kind in _MISUSE:
        start, table_of = _MISUSE[fault.kind]
        wrong, exact = table_of.get(fault.info, ("", ""))
        if wrong:
            what, need = f"{start}{wrong}", exact
            extra["wrong"] = fault.info
    where = _where(fault, program, table)
    site = site_at(program, fault.pc, agent, where)
    message = f"{site.operation} {what}"
    if where:
        message += f": {where}"
    sites = [site]
    nearest = _allocation(fault, table)
    if nearest is not None:
        extra["address"] = fault.address - nearest.va
        sites.append(
            Site(
                agent="host",
                operation=f"allocation {nearest.name}",
                # No address: it is another one in every process, and what is found
                # is to read the same when it is replayed.
                detail=f"{nearest.size} bytes" + (", freed" if nearest.freed else ""),
            )
        )
    return Finding(
        kind=told.kind,
        rule=told.rule,
        message=message,
        kernel=program.function.name,
        sites=tuple(sites),
        need=need,
        count=fault.count,
        extra=extra,
    )


def _allocation(fault: Fault, table: AllocationTable) -> Allocation | None:
    if fault.kind not in _GLOBAL or fault.allocation is None:
        return None
    try:
        return table.by_id(fault.allocation)
    except KeyError:
        return None


def _where(fault: Fault, program: Program, table: AllocationTable) -> str:
    if fault.kind in _GLOBAL:
        return _global(fault, _allocation(fault, table), table)
    if fault.kind in _SHARED:
        return shared_place(program, fault.address)
    if fault.kind in ("local-oob", "param-oob"):
        limit = program.local_bytes if fault.kind == "local-oob" else fault.info
        return f"{fault.size} bytes at {fault.address} of {limit}"
    if fault.kind == "register-uninit":
        return next(r.name for r in program.function.registers if r.id == fault.address)
    if fault.kind == "bulk":
        return f"{fault.size} bytes at {fault.address:#x}"
    if fault.kind == "named-barrier":
        return f"barrier {fault.address}" if fault.info < 16 else ""
    if fault.kind == "tensormap":
        return f"the map at {fault.address:#x}"
    if fault.kind == "tmem-alloc":
        column, lane = fault.address & 0xFFFF, fault.address >> 16
        at = f" at column {column}" + (f" of lane {lane}" if lane else "")
        return f"{fault.size} columns{at}"
    if fault.kind in ("tmem", "tmem-uninit"):
        lane, column = fault.address >> 16, fault.address & 0xFFFF
        lanes = f"{fault.size >> 16} lanes" if fault.size >> 16 else "the lanes"
        return f"{fault.size & 0xFFFF} columns from {column} of {lanes} from {lane}"
    if fault.kind == "tcgen05":
        return _descriptor(fault)
    if fault.kind == "setmaxnreg":
        return f"{fault.address} registers, the thread has {fault.size}"
    if fault.kind == "illegal":
        return f"value {fault.info}" if not fault.address else f"{fault.address:#x}"
    return ""


def _descriptor(fault: Fault) -> str:
    """Say which value an instruction of the tensor core refuses."""
    if fault.info in misuse.INSTRUCTION_DESCRIPTOR:
        return f"instruction descriptor {fault.address:#010x}"
    if fault.info in misuse.SHARED_DESCRIPTOR:
        return f"shared memory descriptor {fault.address:#018x}"
    return f"mask {fault.address:#x}" if fault.info in misuse.MASK else ""


def _global(fault: Fault, near: Allocation | None, table: AllocationTable) -> str:
    """Say how the access lies to the nearest allocation."""
    if near is None:
        return f"{fault.size} bytes at {fault.address:#x}, where nothing is allocated"
    start, stop = fault.address, fault.address + fault.size
    if near.va <= start and stop <= near.end:
        return f"bytes {start - near.va} to {stop - near.va - 1} of {near.name}"
    if start < near.va:
        return (
            f"{fault.size} bytes, from {near.va - start} bytes before {near.name} "
            f"({near.size} bytes)"
        )
    if start < near.end:
        return (
            f"the last {stop - near.end} of {fault.size} bytes lie past the end of "
            f"{near.name} ({near.size} bytes)"
        )
    return (
        f"{fault.size} bytes, {start - near.end} bytes past the end of {near.name} "
        f"({near.size} bytes)"
    )


def shared_place(program: Program, address: int) -> str:
    """Say where a shared address lies: variable and offset, CTA rank if remote."""
    rank, offset = address >> 24, address & 0xFFFFFF
    place = f"shared address {offset:#x}"
    at = SMEM_BASE
    for var in program.function.variables:
        if var.space != "shared" or not var.size:
            continue
        at = -(-at // max(var.align, 1)) * max(var.align, 1)
        if at <= offset < at + var.size:
            place += f", byte {offset - at} of {var.name}"
        at += var.size
    return f"{place} of cluster rank {rank}" if rank else place
