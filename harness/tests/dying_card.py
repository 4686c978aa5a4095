"""A stand-in card whose context dies, as a kernel's stray access makes it die."""

import contextlib

from stand_in_card import HostWorld, Made, NoLog, host_world

from sidestream.harness.run import card_case, pool
from sidestream.harness.run.case import run_case

COMPLAINT = "CUDA error: an illegal memory access was encountered"


def dying():
    """Return a kind of world, which is dead once `dead` holds something."""

    class Dying(HostWorld):
        dead = []  # noqa: RUF012 - one card for all worlds of a kind

        def wait(self):
            super().wait()
            if self.dead:
                raise RuntimeError(f"{COMPLAINT}\nmore lines")

    return Dying


class Stray:
    """A deed that ends the context in one call; the card tells when it is waited for.

    Args:
        world: A kind from `dying`.
        at: Which call, from 1.
        at_once: Whether the call itself raises.
    """

    def __init__(self, world, at, *, at_once=False):
        self.world, self.at, self.at_once, self.calls = world, at, at_once, 0

    def __call__(self, tensors, scratch):
        self.calls += 1
        if self.calls == self.at:
            self.world.dead.append(None)
            if self.at_once:
                raise RuntimeError(f"{COMPLAINT}\nmore lines")


@contextlib.contextmanager
def standing_in(patch, kind):
    """Let cases on a card run on a kind of world."""
    patch(card_case, "current_world", lambda **_: host_world(kind=kind))
    patch(card_case, "CardLog", NoLog)
    yield


def serve(pipe, settings, origin, number):
    """Serve as a worker of the pool whose context dies in the case named `stray`."""
    kind, made = dying(), None

    def judged(bench, scenario):
        nonlocal made
        # One implementation a process: a second one would have to compile again.
        made = made or Made(scenario)
        bench.driver, made.scenario = made, scenario
        fault = scenario.name == "stray"
        made.deed = Stray(kind, 3) if fault else lambda tensors, scratch: None
        return run_case(bench, scenario)

    with standing_in(setattr, kind):
        pool.run_case = judged
        pool._work(pipe, settings, origin, number)
