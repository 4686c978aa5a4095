"""The exceptions a user can meet; each message says what, where and what to do."""

from __future__ import annotations


class SidestreamError(Exception):
    """Base of every error raised on purpose."""


class UsageError(SidestreamError):
    """The command, file or argument given is not usable; nothing was run."""


class PtxError(SidestreamError):
    """PTX text that cannot be read. Carries the 1-based line of the fault."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(f"line {line}: {message}" if line else message)


class ContractError(SidestreamError, ValueError):
    """A call that breaks the declared interface: shape, dtype, stride, size, alias."""


class UnsupportedError(SidestreamError):
    """Something outside what a plan or device serves; the message names it."""


class BuildError(SidestreamError):
    """The native core or the capture library could not be built."""
