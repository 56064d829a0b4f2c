"""Reads one statement, token by token. It remembers what it looked for at each place, to say what is allowed there."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from penstock.model.time import Duration, duration
from penstock.sql.dialect import ExpressionReader, Unreadable
from penstock.sql.errors import Piece, Source, SqlError

T = TypeVar("T")

_SIGNS = {
    "(": TokenType.L_PAREN, ")": TokenType.R_PAREN, ",": TokenType.COMMA, "=": TokenType.EQ, "*": TokenType.STAR,
    "-": TokenType.DASH, "=>": TokenType.FARROW,
}  # fmt: skip


class Cursor:
    """A place in the tokens of a statement, `index`, that moves forward as things are read."""

    def __init__(self, source: Source, tokens: list[Token], end: int) -> None:
        self.source, self.tokens, self.end = source, tokens, end
        self.index = 0
        self._tried: dict[int, list[str]] = {}
        self._expressions = ExpressionReader(source.text, tokens)

    # what is there

    @property
    def token(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def place(self) -> int:
        """Where the next token begins in the text."""
        return self.end if self.token is None else self.token.start

    def piece(self, start: int, end: int | None = None) -> Piece:
        """The tokens from one number up to another, as one text: white space and comments count as one space."""
        tokens = self.tokens[start : self.index if end is None else end]
        if not tokens:
            return Piece("", self.place, self.place)
        text, at = "", tokens[0].start
        for token in tokens:
            if token.start > at:
                text += " "
            if token.start >= at:
                text += self.source.text[token.start : token.end + 1]
                at = token.end + 1
        return Piece(text, tokens[0].start, at)

    # words and signs

    def sees(self, *words: str) -> bool:
        """Whether these words come next; remembered as something that is allowed here."""
        self.note(" ".join(words))
        return self.after(words) is not None

    def word(self, *words: str) -> bool:
        """Takes these words if they come next."""
        self.note(" ".join(words))
        after = self.after(words)
        if after is not None:
            self.index = after
        return after is not None

    def need(self, *words: str) -> None:
        if not self.word(*words):
            raise self.unexpected()

    def one_of(self, *words: str) -> str:
        """Takes one of several words, which may be several words each ('ON TIME')."""
        for word in words:
            if self.word(*word.split()):
                return word
        raise self.unexpected()

    def sign(self, sign: str) -> bool:
        self.note(f"'{sign}'")
        matches = self.token is not None and self.token.token_type is _SIGNS[sign]
        self.index += matches
        return matches

    def need_sign(self, sign: str) -> None:
        if not self.sign(sign):
            raise self.unexpected()

    def after(self, words: Sequence[str]) -> int | None:
        """The token after these words. SQLGlot makes one token of some pairs, as of GROUP BY."""
        index, left = self.index, list(words)
        while left:
            if index >= len(self.tokens) or self.tokens[index].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return None
            for word in self.tokens[index].text.upper().split():
                if not left or left.pop(0) != word:
                    return None
            index += 1
        return index

    # names, numbers, texts

    def name(self, what: str) -> Piece:
        """A name, in backticks or not."""
        self.note(what)
        token = self.token
        if token is None or token.token_type not in self._expressions.names | {TokenType.IDENTIFIER}:
            raise self.unexpected()
        self.index += 1
        return Piece(token.text, token.start, token.end + 1)

    def string(self, what: str) -> Piece:
        """A text in quotes."""
        self.note(what)
        token = self.token
        if token is None or token.token_type is not TokenType.STRING:
            raise self.unexpected()
        self.index += 1
        return Piece(token.text, token.start, token.end + 1)

    def number(self, what: str) -> Piece:
        self.note(what)
        start, at = self.index, self.place
        minus = self.token is not None and self.token.token_type is TokenType.DASH
        self.index += minus
        token = self.token
        if token is None or token.token_type is not TokenType.NUMBER:
            self.index = start
            raise self.unexpected()
        self.index += 1
        return Piece(f"-{token.text}" if minus else token.text, at, token.end + 1)

    def whole(self, what: str) -> int:
        """A whole number."""
        token = self.number(what)
        try:
            return int(token.text)
        except ValueError:
            raise self.source.error(f"{what} must be a whole number, and is {token.text}", token) from None

    def duration(self) -> tuple[Duration, Piece]:
        """INTERVAL 10 SECONDS, 1 HOUR 30 MINUTES, INTERVAL '1 day'; the word INTERVAL may be left out."""
        self.note("a duration such as INTERVAL 10 SECONDS")
        start = self.index
        self.word("INTERVAL")
        parts: list[str] = []
        while self.token is not None and self.token.token_type in (TokenType.NUMBER, TokenType.DASH, TokenType.STRING):
            if parts and self.token.token_type is TokenType.STRING:
                break
            if self.token.token_type is TokenType.STRING:
                parts.append(self.string("a duration").text)
            else:
                parts.append(self.number("a number").text)
            if self.token is not None and self.token.text.isalpha() and _is_unit(self.token.text):
                parts.append(self.token.text)
                self.index += 1
        if not parts:
            if self.index == start:
                raise self.unexpected()
            raise self.source.error(
                "a duration needs a number and a unit", self.place, hint="write INTERVAL 10 SECONDS"
            )
        piece = self.piece(start)
        with self.source.at(piece):
            return duration(" ".join(parts)), piece

    # expressions and lists

    def expression(self, what: str = "an expression") -> Piece:
        """An expression of Spark SQL, as it was written."""
        self.note(what)
        start = self.index
        if self.token is None:
            raise self.unexpected()
        try:
            _, self.index = self._expressions.read(start)
        except Unreadable as error:
            at = self.tokens[error.at].start if error.at < len(self.tokens) else self.end
            if error.at == start:
                raise self.unexpected() from None
            whole = self.piece(start, max(start + 1, min(error.at, len(self.tokens))))
            where = "" if error.at >= len(self.tokens) else f" at '{self.tokens[error.at].text}'"
            hint = (
                "the text ends too early, or an operand is missing" if not where else "write an expression of Spark SQL"
            )
            raise self.source.error(f"cannot read the expression '{whole.text}'{where}", at, hint=hint) from None
        return self.piece(start)

    def several(self, read: Callable[[], T]) -> tuple[T, ...]:
        """One or more, with commas between them."""
        items = [read()]
        while self.sign(","):
            items.append(read())
        return tuple(items)

    # what went wrong

    def done(self) -> None:
        """Nothing may follow."""
        self.note("the end of the statement")
        if self.token is not None:
            raise self.unexpected()

    def unexpected(self) -> SqlError:
        """The error for what comes next: what was found, what is allowed here, and the near miss."""
        allowed = list(dict.fromkeys(self._tried.get(self.index, [])))
        actual = "the statement ends" if self.token is None else f"found '{self._found()}'"
        near = None
        if self.token is not None:
            starts = {word: word for word in allowed if word.isupper()} | {
                w.split()[0]: w for w in allowed if w.isupper()
            }
            close = difflib.get_close_matches(self.token.text.upper(), list(starts), n=1, cutoff=0.6)
            near = f"did you mean {starts[close[0]]}?" if close else None
        return self.source.error(f"expected {_either(allowed)}, and {actual}", self.place, hint=near)

    def _found(self) -> str:
        assert self.token is not None
        return self.source.text[self.token.start : self.token.end + 1]

    def note(self, what: str) -> None:
        self._tried.setdefault(self.index, []).append(what)


def _either(several: list[str]) -> str:
    """
    >>> _either(["WHERE", "GROUP BY", "EMIT"])
    'WHERE, GROUP BY or EMIT'
    """
    return " or ".join(filter(None, [", ".join(several[:-1]), *several[-1:]])) or "nothing"


def _is_unit(text: str) -> bool:
    return text.lower().removesuffix("s") in {
        "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "year", "quarter",
        "", "m", "h", "d", "w", "u", "min", "sec",
    }  # fmt: skip
