"""A position in a token stream, shared by the parts of the parser."""

from __future__ import annotations

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import lexer


class Cursor:
    """Reads tokens one by one; every complaint is a `PtxError` with its line."""

    def __init__(self, tokens: lexer.Tokens) -> None:
        self._kinds = tokens.kinds
        self._texts = tokens.texts
        self._lines = tokens.lines
        self._at = 0
        self.kind = self._kinds[0]
        self.text = self._texts[0]

    @property
    def line(self) -> int:
        """1-based line of the current token."""
        return self._lines[self._at]

    @property
    def next_text(self) -> str:
        """Text of the token after the current one."""
        return self._texts[min(self._at + 1, len(self._texts) - 1)]

    def advance(self) -> None:
        """Go to the next token; the end is never passed."""
        if self.kind != lexer.END:
            self._at += 1
            self.kind = self._kinds[self._at]
            self.text = self._texts[self._at]

    def take(self) -> str:
        """The current token's text; goes on to the next."""
        if self.kind == lexer.END:
            raise PtxError("the text ends too early", self.line)
        text = self.text
        self.advance()
        return text

    def take_kind(self, *kinds: str) -> str:
        """As `take`, for a token that must be one of `kinds`."""
        if self.kind not in kinds:
            raise self.unexpected(" or ".join(f"a {kind}" for kind in kinds))
        return self.take()

    def expect(self, text: str) -> str:
        """As `take`, for a token that must read `text`."""
        if self.text != text or self.kind in (lexer.STRING, lexer.END):
            raise self.unexpected(f"'{text}'")
        return self.take()

    def unexpected(self, wanted: str) -> PtxError:
        """The error that says what was wanted and what stands there."""
        if self.kind == lexer.END:
            return PtxError(f"expected {wanted}, but the text ends", self.line)
        return PtxError(f"expected {wanted}, found {self.text[:40]!r}", self.line)
