"""Read the tables of `hw_approximations.py` off a card and prove them on all inputs.

    python hw_approximations_record.py OUT [JOBS]

writes `OUT/approximations.npz` and prints how many inputs were asked and how many
answers the model misses; it writes nothing if that is not zero. It needs numpy,
cuda-bindings and a card, and nothing of Sidestream.
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import sys
from pathlib import Path

import hw_approximations as model
import numpy as np
from hw_card import Card
from hw_case import Case, header
from hw_record import driver_version

_CHUNK = 1 << 24
_BLOCK = 256
_RANGES = {
    "ex2": (0, 1 << 32),
    "rcp": (0, 1 << 32),
    "lg2": (model.LG2_FIRST, model.INFINITY),
}
_TABLE_INPUTS = {
    "ex2": (0x3F80_0000, model.SIZE),
    "rcp": (0x3F80_0000, model.SIZE),
    "lg2": (model.LG2_FIRST, model.LG2_BELOW + model.SIZE),
}


def ask(card: Card, name: str, first: int, count: int) -> model.Words:
    """Answers to `count` inputs whose words start at `first`; whole blocks."""
    text = header(".param .u64 p_first, .param .u64 p_out")
    text += f"""
.reg .b32 %t<4>, %x, %y;
.reg .b64 %p<4>;
ld.param.u64 %p0, [p_first];
ld.param.u64 %p1, [p_out];
mov.u32 %t0, %tid.x;
mov.u32 %t1, %ctaid.x;
mad.lo.u32 %t2, %t1, {_BLOCK}, %t0;
ld.global.u32 %x, [%p0];
add.u32 %x, %x, %t2;
{name}.approx.ftz.f32 %y, %x;
mad.wide.u32 %p2, %t2, 4, %p1;
st.global.u32 [%p2], %y;
ret;
}}
"""
    case = Case(
        name=name,
        text=text,
        buffers=(
            np.array([first, 0, 0, 0], np.uint32).view(np.uint8),
            np.zeros(4 * count, np.uint8),
        ),
        outputs=(1,),
        grid=count // _BLOCK,
        block=_BLOCK,
    )
    (made,) = card.run(case)
    return made.view(np.uint32)


def read_tables(card: Card) -> dict[str, model.Words]:
    """The three tables; those of ex2 are answers in [2, 4), stored as in [1, 2)."""
    made = {n: ask(card, n, *where) for n, where in _TABLE_INPUTS.items()}
    made["ex2"] = made["ex2"] - np.uint32(1 << 23)
    return made


def misses(job: tuple[str, str, int]) -> list[int]:
    """Inputs of one chunk whose answer the model does not give."""
    path, name, first = job
    with np.load(path) as file:
        known = {n: file[n] for n in ("ex2", "rcp", "lg2")}
    tables = model.Tables(about={}, **known)
    last = min(first + _CHUNK, _RANGES[name][1])
    inputs = np.arange(first, last, dtype=np.int64).astype(np.uint32)
    want = ask(Card(), name, first, last - first)
    got = getattr(model, name)(tables, inputs)
    return [int(w) for w in inputs[got != want]]


def record(out: Path, jobs: int) -> int:
    """Record, and return the number of inputs that the model misses."""
    card = Card()
    tables = read_tables(card)
    out.mkdir(parents=True, exist_ok=True)
    raw = out / "raw.npz"
    np.savez(raw, **tables)
    counts = {}
    work = [
        (str(raw), name, first)
        for name, (start, end) in _RANGES.items()
        for first in range(start, end, _CHUNK)
    ]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        found = pool.map(misses, work, chunksize=1)
    raw.unlink()
    for name, (start, end) in _RANGES.items():
        wrong = [
            x
            for job, f in zip(work, found, strict=True)
            for x in f[:4]
            if job[1] == name
        ]
        total = sum(len(f) for j, f in zip(work, found, strict=True) if j[1] == name)
        counts[name] = {"asked": end - start, "missed": total}
        sys.stdout.write(f"{name}: {end - start} asked, {total} missed")
        sys.stdout.write(" ".join(f" {x:08x}" for x in wrong[:16]) + "\n")
    missed = sum(c["missed"] for c in counts.values())
    if not missed:
        about = {
            "card": card.name,
            "capability": card.capability,
            "cuda": card.cuda,
            "driver": driver_version(),
            "recorded": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "inputs": counts,
        }
        packed = {name: model.pack(table) for name, table in tables.items()}
        np.savez(out / "approximations.npz", about=json.dumps(about), **packed)
    return missed


if __name__ == "__main__":
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    raise SystemExit(bool(record(Path(sys.argv[1]), wanted)))
