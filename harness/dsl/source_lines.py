"""Which line of Python the PTX names for each instruction, in its `.loc`.

CuTe DSL gives an operation the line outside of the DSL that called its wrapper. What is
built without a location has that of the whole compilation, the launching function: bare
operations of a dialect, as `nvvm.tcgen05_fence`, and some that the DSL builds itself,
as the `elect.sync` of `elect_one`. There MLIR's tracebacks step in: the innermost frame
outside of the DSL. Code stays what it was; only `.loc` differs.

One frame is all that PTX keeps: the DSL writes no `inlined_at`, whatever the depth, and
deep tracebacks make its compiler crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

_LINES, _TRACEBACKS = "CUTE_DSL_LINEINFO", "CUTE_DSL_LOC_TRACEBACKS"
_OFF = ("", "0", "false", "off", "no")


def ask_for_lines() -> bool:
    """Ask the DSL for lines before it is imported, unless the environment has said.

    Returns:
        Whether there will be any.
    """
    if os.environ.setdefault(_LINES, "1").lower() in _OFF:
        return False
    os.environ.setdefault(_TRACEBACKS, "1")
    return True


def keep_lines(dsls: Iterable[Any], *, wanted: bool) -> None:
    """Do the same once it is imported, for the DSLs that are there.

    Args:
        dsls: Instances of the DSL, which read the environment when they were made.
        wanted: As `ask_for_lines` said.
    """
    import cutlass
    from cutlass._mlir import ir

    for dsl in dsls:
        dsl.envar.lineinfo = wanted
        if wanted and os.environ.get(_TRACEBACKS) == "1":
            dsl.envar.loc_tracebacks = 1
    # As the frames spell it: not resolved.
    package = os.path.dirname(os.path.abspath(cutlass.__file__))
    ir._globals.register_traceback_file_exclusion(package)
