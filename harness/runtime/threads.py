"""Hand-overs between host threads that Python shows: start, join, locks, queues.

While entered, threads are told apart: what one thread does is ordered against another
only by its start, its join and what is handed over under locks, conditions,
semaphores, events and queues of the standard library, all of which are made of locks.
Locks that were made before, and those of native code, hand nothing over.
"""

from __future__ import annotations

import queue
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.op import Clock
from sidestream.harness.runtime.order import Order

_Lock = threading.Lock


class OrderedLock:
    """A lock that hands what its releasing thread knows to the next one.

    Args:
        order: Clocks of the host threads.
    """

    def __init__(self, order: Order) -> None:
        self._lock = _Lock()
        self._order = order
        self._given: dict[int, int] = {}

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 -- the signature of threading.Lock
        """Acquire as `threading.Lock` does."""
        got = self._lock.acquire(blocking, timeout)
        if got:
            self._order.acquire(self._given)
        return got

    def release(self) -> None:
        """Release as `threading.Lock` does."""
        join(self._given, self._order.release())
        self._lock.release()

    def locked(self) -> bool:
        """Whether someone holds it."""
        return self._lock.locked()

    def _at_fork_reinit(self) -> None:
        self._lock = _Lock()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class ThreadEdges:
    """Tells host threads apart while entered, and orders them by what Python shows.

    Args:
        order: Clocks of the host threads.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._stack: ExitStack | None = None

    def __enter__(self) -> ThreadEdges:
        order = self._order
        order.tell_threads_apart()
        start, wait = threading.Thread.start, threading.Thread.join
        ends: WeakKeyDictionary[threading.Thread, Clock] = WeakKeyDictionary()

        def started(thread: threading.Thread) -> None:
            known, inner = order.release(), thread.run

            def body() -> None:
                order.acquire(known)
                try:
                    inner()
                finally:
                    ends[thread] = order.release()

            thread.run = body  # type: ignore[method-assign]  # this object's only
            start(thread)

        def joined(thread: threading.Thread, timeout: float | None = None) -> None:
            wait(thread, timeout)
            if not thread.is_alive():
                order.acquire(ends.get(thread, {}))

        def lock() -> OrderedLock:
            return OrderedLock(order)

        changes: list[tuple[Any, str, Any]] = [
            (threading.Thread, "start", started),
            (threading.Thread, "join", joined),
            (threading, "Lock", lock),
            (threading, "_allocate_lock", lock),
            (threading, "RLock", threading._PyRLock),  # type: ignore[attr-defined]
            (queue, "SimpleQueue", queue._PySimpleQueue),  # type: ignore[attr-defined]
        ]
        stack = ExitStack()
        for owner, name, value in changes:
            stack.enter_context(mock.patch.object(owner, name, value))
        self._stack = stack
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stack is not None:
            self._stack.close()
            self._stack = None
