"""Record what a card answers to every instruction case.

    python hw_record.py OUT [SCALE]

writes `OUT/record.npz` and `OUT/record.json`. It needs numpy, cuda-bindings and a card
of compute capability 9.0, and nothing of Sidestream. A case that the card refuses is
recorded with the reason. Cases run in child processes, since a faulting kernel takes
its context along.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from hw_all import all_cases
from hw_card import Card, CardError
from hw_case import Case


def digest(case: Case) -> str:
    """What the case asks: text, maps and input bytes; a record is of one digest."""
    found = hashlib.sha256(case.text.encode())
    found.update(repr((case.maps, case.grid, case.block, case.outputs)).encode())
    for buffer in case.buffers:
        found.update(buffer.tobytes())
    return found.hexdigest()[:16]


def _worker(start: int, path: str, scale: int) -> None:
    """Run cases from `start` until one fails to launch; pickle what was learnt."""
    card = Card()
    about = {"card": card.name, "capability": card.capability, "cuda": card.cuda}
    done: list[tuple[int, list[bytes], str]] = []
    for number, case in enumerate(all_cases(scale)[start:], start):
        try:
            done.append((number, [b.tobytes() for b in card.run(case)], ""))
        except CardError as error:
            done.append((number, [], str(error)[:300]))
            if not str(error).startswith("CUDA_ERROR_INVALID_PTX") and not str(
                error
            ).startswith("CUDA_ERROR_NO_BINARY"):
                break
    Path(path).write_bytes(pickle.dumps((about, done)))
    sys.stdout.flush()
    os._exit(0)  # a broken context may not tear down


def driver_version() -> str:
    """Return the version of the installed driver, or `unknown`."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.splitlines()[0].strip()


def record(out: Path, scale: int) -> None:
    """Record all cases into `out`.

    Raises:
        CardError: if a worker could not start, with its output.
    """
    cases = all_cases(scale)
    arrays: dict[str, np.ndarray] = {}
    rows = []
    about: dict[str, object] = {}
    start = 0
    while start < len(cases):
        with tempfile.NamedTemporaryFile() as handle:
            command = [sys.executable, __file__, "--worker", str(start), handle.name]
            done = subprocess.run(
                [*command, str(scale)], capture_output=True, text=True, check=False
            )
            raw = Path(handle.name).read_bytes()
        if not raw:
            raise CardError(f"worker from case {start} failed: {done.stderr[-2000:]}")
        about, results = pickle.loads(raw)
        for number, buffers, error in results:
            case = cases[number]
            rows.append({"name": case.name, "digest": digest(case), "error": error})
            if not error:
                data = b"".join(buffers)
                arrays[f"c{number}"] = np.frombuffer(data, np.uint8)
        start = results[-1][0] + 1
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / "record.npz", **arrays)
    about |= {
        "driver": driver_version(),
        "recorded": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "scale": scale,
        "cases": rows,
    }
    (out / "record.json").write_text(json.dumps(about, indent=0) + "\n")
    refused = sum(bool(r["error"]) for r in rows)
    sys.stdout.write(f"{len(rows)} cases recorded, {refused} refused\n")


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        _worker(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        record(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
