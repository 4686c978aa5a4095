"""The float64 reference of a case, computed by another process beside the calls.

A card waits for the host in most cases, and the host for numpy: the reference depends
on nothing that the card gives, so where a core is free it is computed meanwhile.

    beside = Beside()
    asked = beside.ask(scenario, model)
    beside.ask(the_next, model)             # done while this case is judged
    ...                                     # calls on the card
    bounds, why = asked.answer() or limits(inputs, model)

What the process does not answer is computed by who asked: nothing rests on it.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection

from sidestream.reference.tolerance import Arithmetic, Bound
from sidestream.scenarios.scenario import Scenario

_PROGRAM = "sidestream.harness.run.reference_process"


def cores_for(processes: int) -> bool:
    """Tell whether each of some processes that run cases has a second core."""
    return len(os.sched_getaffinity(0)) >= 2 * processes


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question to the process."""

    beside: Beside
    number: int

    def answer(self) -> tuple[Bound | None, str] | None:
        """Wait for the answer; None if there will be none."""
        return self.beside.answer(self.number)


class Beside:
    """A process that computes references; it ends with this one, or by `close`."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent
            )
        self._connection: Connection | None = Connection(ours.detach())
        self._asked = 0
        self._open: list[tuple[int, Scenario, Arithmetic]] = []
        """What was asked and not yet answered, in order."""

    def ask(self, scenario: Scenario, model: Arithmetic) -> Asked:
        """Begin to compute the reference of a scenario and its bounds.

        What is asked again before it was answered is computed once, so that the next
        case can be asked for ahead.
        """
        for number, *same in self._open:
            if same == [scenario, model]:
                return Asked(beside=self, number=number)
        self._asked += 1
        if self._connection is not None:
            try:
                self._connection.send((self._asked, scenario, model))
            except OSError:
                self.close()
            else:
                self._open.append((self._asked, scenario, model))
        return Asked(beside=self, number=self._asked)

    def answer(self, number: int) -> tuple[Bound | None, str] | None:
        """Wait for an answer; None if there will be none.

        Answers that nobody fetched, of cases that broke off, are passed over.
        """
        while self._connection is not None:
            try:
                found, bounds, why = self._connection.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                self.close()
                break
            self._open = [one for one in self._open if one[0] > found]
            if found == number:
                return bounds, why
        return None

    def close(self) -> None:
        """End the process; what is asked from now on has no answer."""
        if self._connection is not None:
            self._connection.close()
            self._connection, self._open = None, []
        self._process.kill()
        self._process.wait()
