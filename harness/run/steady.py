"""Which part of a script is its steady state: what it does again and again.

A script says so by doing it: a line that calls a package a second time is past its
warm-up. Only calls count that put work on the device; those that plan or construct may
come as often as there are plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sidestream.harness.run.script_checks import by_package, caller
from sidestream.harness.runtime import CallSite


class Steady:
    """Tells warm-up from steady state.

    A call is past the warm-up if the same line of the script has made a call before,
    both launched kernels (or ran operators, in a script without launches), and it
    compiled nothing itself.

    Args:
        worked: By number of a call of the script's own code, the kind of an operation
            that it led to, and where.
        compiled: Where compilations were asked for.
        home: Folder of the script.
    """

    def __init__(
        self,
        worked: Mapping[int, tuple[str, CallSite]],
        compiled: Sequence[CallSite],
        home: Path,
    ) -> None:
        theirs = {
            number: (kind, site)
            for number, (kind, site) in worked.items()
            if by_package(site, home)
        }
        wanted = "launch" if any(k == "launch" for k, _ in theirs.values()) else "torch"
        compiling = {site.call for site in compiled}
        self._numbers: dict[int, int] = {}
        times: dict[str, int] = {}
        for number in sorted(theirs):
            kind, site = theirs[number]
            if kind != wanted:
                continue
            line = caller(site, home)
            times[line] = times.get(line, 0) + 1
            if times[line] > 1 and number not in compiling:
                self._numbers[number] = times[line]

    def call(self, site: CallSite) -> int:
        """Return which call of its line a place belongs to: 2 or more, 0 in warm-up."""
        return self._numbers.get(site.call, 0)
