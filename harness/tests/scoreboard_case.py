"""Where a kernel's text waits for loads, and where it reads them first."""

from sidestream.harness.exec.program import lower
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse


def waits_of(text):
    """PTX line (of the body) -> lines of the loads that it waits for."""
    return {line: set(loads) for line, (loads, _) in rows_of(text).items()}


def reads_of(text):
    """The same of the loads of which a register is read there for the first time."""
    each = rows_of(text).items()
    return {line: set(loads[:count]) for line, (loads, count) in each if count}


def rows_of(text):
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n"
    function = decode(parse(head + text + "\nret;\n}\n"))
    program = lower(function)
    assert not program.unsupported, program.unsupported
    first = head.count("\n") + 1
    names = {v: k for k, v in _operations().items()}
    found = {}
    for pc, row in enumerate(program.code):
        if names[int(row["op"])] == "tcgen05.scoreboard":
            ext = program.ext[row["ext"] : row["ext"] + row["n_ext"]]
            line = program.instruction(pc).line - first
            loads = [function.instructions[k].line - first for k in ext]
            found[line] = loads, int(row["imm"])
            assert int(row["guard"]) < -(2**30)  # never switched off
    return found


def _operations():
    from sidestream.harness.exec.build import load

    return load().ops


def lines(*text):
    return "\n".join(text)


LD0 = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r0];"
LD1 = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r3, %r4}, [%r0];"
WAIT = "tcgen05.wait::ld.sync.aligned;"
DECLARE = ".reg .b32 %r<9>; .reg .pred %p; .reg .b64 %w; mov.u32 %r0, 0;"
