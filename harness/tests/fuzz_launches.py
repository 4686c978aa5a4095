"""Mutate PTX texts and launches and execute them: run as a script in a process.

    python harness/tests/fuzz_launches.py SEED COUNT [CORPUS_DIR]

Prints `begin K` before and `end K outcome` after each case, so that a parent process
knows which case took the process down. Every case must end in a clean outcome: a
`PtxError`, a `UsageError`, an `UnsupportedError` or a `Result`, within its budget.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import numpy as np

from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.program import lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

CORPUS = Path(__file__).parent / "fuzz_corpus"
BUDGET = 20_000
_INTERESTING = (
    *(0, 1, -1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1023, 1024),
    *(4096, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 1 << 60),
)
_TOKEN = re.compile(r"[%$\w.]+|[^\s\w]|\s+")


def mutate(text: str, rng: random.Random) -> str:
    """Apply a handful of token- and line-level edits."""
    lines = text.split("\n")
    # Mostly edits that still parse: other numbers, registers and modifiers.
    gentle = rng.random() < 0.75
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        kind = rng.choice((5, 5, 7, 0, 2, 9)) if gentle else rng.randrange(9)
        at = rng.randrange(len(lines))
        code = [k for k, x in enumerate(lines) if x.endswith(";") and x[:1] != "."]
        if gentle and code:
            at = rng.choice(code)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            cut = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:cut]
        elif kind == 4:
            data = list(lines[at])
            if data:
                data[rng.randrange(len(data))] = chr(rng.randrange(1, 255))
            lines[at] = "".join(data)
        else:
            tokens = _TOKEN.findall(lines[at])
            if not tokens:
                continue
            where = rng.randrange(len(tokens))
            if kind == 7:
                where = next((k for k, t in enumerate(tokens) if "." in t), where)
            token = tokens[where]
            if kind == 9:
                swap_registers(tokens, rng)
            elif kind == 5:
                numbers = [k for k, t in enumerate(tokens) if t.isdigit()]
                if numbers:
                    tokens[rng.choice(numbers)] = str(rng.choice(_INTERESTING))
            elif kind == 6:
                donor = _TOKEN.findall(lines[rng.randrange(len(lines))])
                if donor:
                    tokens[where] = rng.choice(donor)
            elif kind == 7:
                parts = token.split(".")
                donor = lines[rng.choice(code) if code else 0].split(" ")[0].split(".")
                parts[rng.randrange(1, len(parts)) if len(parts) > 1 else 0] = (
                    rng.choice(donor)
                )
                tokens[where] = ".".join(parts)
            else:
                del tokens[where]
            lines[at] = "".join(tokens)
        if not lines:
            lines = [""]
    return "\n".join(lines)


def swap_registers(tokens: list[str], rng: random.Random) -> None:
    """Let two registers of one line of the same class change places."""
    registers = [k for k, t in enumerate(tokens) if re.fullmatch(r"%[a-z]+\d+", t)]
    if len(registers) > 1:
        a, b = rng.sample(registers, 2)
        tokens[a], tokens[b] = tokens[b], tokens[a]


def random_launch(
    text: str, entry: str, sizes: list[int], base: int, rng: random.Random
) -> Launch:
    """A launch with plausible pointers, or with anything at all."""

    def param(size: int) -> bytes:
        if size == 8 and rng.random() < 0.7:
            value = base + rng.choice((0, 0, 0, 16, 3, -8, 4096, 1 << 40))
        elif rng.random() < 0.6:
            value = rng.choice(_INTERESTING)
        else:
            return rng.randbytes(size)
        return (value % (1 << (8 * size))).to_bytes(size, "little")

    dims = (1, 1, 1, 2, 3, 32, 64, 96, 128, 1000, 1024, 0, -1, 65536)
    plain = rng.random() < 0.85
    size = rng.choice((1, 2, 2, 4)) if "cluster" in text else 1
    return Launch(
        kernel=entry,
        ptx=text,
        grid=(rng.choice((1, 2, 5)) * size, 1, 1)
        if plain
        else (rng.choice(dims), rng.choice(dims), rng.choice(dims)),
        block=(rng.choice((32, 64, 70, 128, 256)), 1, 1)
        if plain
        else (rng.choice(dims), rng.choice(dims), rng.choice(dims)),
        cluster=(size, 1, 1) if plain else (rng.choice((1, 2, 0, 17)), 1, 1),
        dynamic_smem=rng.choice(
            (0, 0, 0, 1024, 1024, 32768, 32768, 101376, -1, 1 << 30)
        ),
        params=tuple(param(s) for s in sizes[: rng.choice((len(sizes),) * 9 + (0,))]),
    )


def one(text: str, rng: random.Random) -> str:
    """Run one mutated case; the outcome in a word."""
    memory = np.zeros(1 << 16, np.uint8)
    init = np.zeros(4096, np.uint8)
    base = memory.ctypes.data
    table = np.zeros(3, abi.ALLOC_DTYPE)
    table[0] = (base, 4096, base, init.ctypes.data, 1, 3)
    table[1] = (base + 8192, 16384, base + 8192, 0, 2, rng.choice((1, 3)))
    table[2] = (base + 40960, 4096, 0, 0, 3, 3 | abi.ALLOC_FREED)
    try:
        function = decode(parse(text))
        launch = random_launch(
            text, function.name, [p.size for p in function.params], base, rng
        )
        program = lower(function, dynamic_smem=max(launch.dynamic_smem, 0))
        options = Options(
            seed=rng.choice((0, 0, 1, 12345)), budget=BUDGET, deadline=5.0, sms=2
        )
        result = execute(program, launch, table, options)
    except SidestreamError as error:
        return type(error).__name__
    except MemoryError:
        return "MemoryError"
    assert result.warp_instructions <= BUDGET + 2_000_000
    return result.status


def main() -> None:
    """Run cases SEED .. SEED + COUNT - 1."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else CORPUS
    texts = [p.read_text() for p in sorted(folder.glob("*.ptx"))]
    out = sys.stdout
    for number in range(seed, seed + count):
        rng = random.Random(number)
        text = mutate(rng.choice(texts), rng)
        out.write(f"begin {number}\n")
        out.flush()
        out.write(f"end {number} {one(text, rng)}\n")
        out.flush()


if __name__ == "__main__":
    main()
