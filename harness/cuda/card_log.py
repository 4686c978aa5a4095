"""The log of the host on a card: what torch shows, its sync warnings, the driver.

One deed shows at more than one level: `lengths.tolist()` is a call of torch, a warning
of its sync debug mode, and two calls of the driver. It is told once, by the first.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch

from sidestream.harness.cuda.card_order import CardOrder
from sidestream.harness.cuda.driver_audit import DriverAudit, DriverCall
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.errors import UnsupportedError
from sidestream.harness.launch import Launch

_KINDS = {
    "wait": "host-sync",
    "read": "host-sync",
    "alloc": "host-alloc",
    "fill": "hidden-launch",
    "copy": "hidden-launch",
    "launch": "hidden-launch",
}
"""By kind of driver call, what it is in an execute call."""
_PROTOTYPE = "Synchronization debug mode is a prototype"
_SYNC_WARNING = "called a synchronizing CUDA operation"


@dataclass(kw_only=True)
class CardLog(HostLog):
    """Watches the host during execute calls on a card.

    Attributes:
        audited: Whether every watched call had its driver calls told.
        unaudited: Why not, or "".
        driver_calls: How many calls of the driver were heard.
        order: Takes note of the first watched call, or None.
    """

    virtual: bool = False
    unaudited: str = ""
    driver_calls: int = 0
    order: CardOrder | None = None
    audit: Any = DriverAudit
    _ordering: CardOrder | None = None
    _own: Counter[str] = field(default_factory=Counter)
    _thread: int = 0
    _card: ExitStack | None = None

    @property
    def audited(self) -> bool:
        """Whether the driver was heard."""
        return not self.unaudited

    def __enter__(self) -> CardLog:
        self._thread = threading.get_ident()
        self._own.clear()
        stack = ExitStack()
        try:
            stack.enter_context(self.audit(self._driver))
        except UnsupportedError as error:
            self.unaudited = str(error)
        stack.enter_context(self._sync_warnings())
        self._ordering, self.order = self.order, None
        if self._ordering is not None:
            stack.enter_context(self._ordering.watching())
        self._card = stack
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._card is not None:
            self._card.__exit__(kind, error, trace)
            self._card = self._ordering = None

    def launched(self, launch: Launch) -> None:
        """Expect the driver to be asked for a launch of CuTe DSL."""
        self._own[launch.kernel] += 1
        if self._ordering is not None:
            with self.paused():
                self._ordering.launched(launch)

    def _driver(self, call: DriverCall) -> None:
        self.driver_calls += not call.returning
        if self._ordering is not None and threading.get_ident() == self._thread:
            self._ordering.called(call)
        kind = call.kind
        if not kind or call.returning or self._paused:
            return
        if threading.get_ident() != self._thread:
            return  # another thread's work is not this call's
        detail = "CUDA driver"
        if kind == "launch":
            if self._own[call.symbol]:
                self._own[call.symbol] -= 1
                return
            detail = f"{call.symbol or 'a kernel'} on stream {call.launch_stream:#x}"
        self._once(_KINDS[kind], call.name, detail)

    def _once(self, kind: str, operation: str, detail: str) -> None:
        """Log an event unless its place has one of this kind from a level above."""
        before = len(self.events)
        self._add(kind, operation, detail)
        if len(self.events) == before:
            return
        made = self.events[-1]
        for other in self.events[:-1]:
            same = other.stack == made.stack
            if same and (other.kind == kind or other.kind == "host-sync"):
                self.events.pop()
                return

    @contextmanager
    def _sync_warnings(self) -> Iterator[None]:
        """Let torch's sync debug mode warn into this log."""
        if not torch.cuda.is_available():
            yield
            return
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_PROTOTYPE)
            warnings.filterwarnings("always", message=f".*{_SYNC_WARNING}.*")
            show = warnings.showwarning

            def hear(message: Any, *args: Any, **kwargs: Any) -> None:
                if _SYNC_WARNING in str(message):
                    self._once("host-sync", "torch sync debug mode", str(message))
                else:
                    show(message, *args, **kwargs)

            warnings.showwarning = hear
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode(before)
