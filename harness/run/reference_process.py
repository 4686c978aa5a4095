"""The other side of `reference_beside.py`: a program that needs numpy alone.

It takes (number, scenario, arithmetic) from the connection that its argument names, and
answers (number, bounds, why there are none), until the connection is closed.
"""

from __future__ import annotations

import contextlib
import sys
from multiprocessing.connection import Connection

from sidestream.harness.run.limits import limits
from sidestream.scenarios.case import build


def serve(connection: Connection) -> None:
    """Answer until nobody asks any more."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            number, scenario, model = connection.recv()
            connection.send((number, *limits(build(scenario), model)))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
