"""The rows as a Markdown table: public bug, scenarios, mutants that they catch."""

from __future__ import annotations

from sidestream.scenarios.bugs.rows import CLASSES, ROWS


def table() -> list[str]:
    """Return the lines, by class; docs/kernel-bugs.md holds them."""
    lines = [
        "| class | public bug | what was wrong | scenarios of every shape "
        "| mutants caught |",
        "|---|---|---|---|---|",
    ]
    for bug_class in CLASSES:
        for row in ROWS:
            if row.bug_class != bug_class:
                continue
            wrong = f"{row.wrong} {row.counterpart}".strip()
            names = ", ".join(f"`{name}`" for name in row.scenarios)
            mutants = ", ".join(
                f"{mutant.arch} {mutant.shape}" for mutant in row.mutants
            )
            lines.append(
                f"| {bug_class} | {row.issue} | {wrong} | {names} | {mutants} |"
            )
    return lines
