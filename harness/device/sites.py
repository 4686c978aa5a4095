"""Where in a kernel something happened: agent, instruction, PTX and Python line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sidestream.harness.exec.program import Program
from sidestream.harness.finding import Site
from sidestream.harness.ptx.ir import Instruction, SourceLine


def source_text(source: SourceLine | None) -> str | None:
    """Return `file:line`, relative to the working directory where it lies below."""
    if source is None:
        return None
    path = Path(source.file)
    if path.is_absolute():
        with suppress(ValueError, OSError):
            path = path.relative_to(Path.cwd())
    return f"{path}:{source.line}"


def cta_text(cta: tuple[int, int, int]) -> str:
    """Spell a CTA: one number where the grid is a line."""
    x, y, z = cta
    return f"cta {x}" if y == z == 0 else f"cta ({x}, {y}, {z})"


def agent_text(cta: str, warp: int | None, lane: str, *, engine: bool) -> str:
    """Spell who did something.

    Args:
        cta: The CTA, as `cta_text` has it.
        warp: Its warp, or None if not known.
        lane: What is said of the lanes, or nothing of a warp as a whole.
        engine: Whether an operation did it that the warp had issued.
    """
    who = "" if warp is None else f"warp {warp} {lane}".rstrip()
    if engine:
        return f"{cta}, asynchronous operation" + (f" of {who}" if who else "")
    return f"{cta} {who}".rstrip()


def site_at(program: Program, pc: int, agent: str, detail: str = "") -> Site:
    """Return the site of a bytecode position."""
    ins: Instruction | None = (
        program.instruction(pc) if pc < len(program.code) else None
    )
    if ins is None:
        return Site(agent=agent, operation="end of the kernel", detail=detail)
    return Site(
        agent=agent,
        operation=ins.spelling,
        ptx_line=ins.line,
        source=source_text(ins.source),
        detail=detail,
    )
