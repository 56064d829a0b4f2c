"""Expressions over aggregates, in the select list and in HAVING: each aggregate in them gets a name.

An aggregate that the select list has under a name goes by that name. The others are kept, and not shown, under the
text of their call: sum(price) is sum_price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect import tokenize
from penstock.sql.errors import Piece, Source
from penstock.sql.queries import Call

_NO_NAMES = (TokenType.STRING, TokenType.NUMBER)


class Names:
    """The names of a view's aggregates: those that it shows, and those that only expressions use."""

    def __init__(self, shown: Mapping[str, Call], used: set[str]) -> None:
        self.shown = dict(shown)
        self.hidden: dict[str, Call] = {}
        self._taken = {name.lower() for name in (*shown, *used)}

    def of(self, call: Call) -> str:
        """The name of an aggregate."""
        for name, other in (*self.shown.items(), *self.hidden.items()):
            if other == call:
                return name
        words = re.sub(r"\W+", "_", call.whole.text).strip("_").lower()
        name, number = words, 1
        while name in self._taken:
            number += 1
            name = f"{words}_{number}"
        self._taken.add(name)
        self.hidden[name] = call
        return name

    def put_in(self, source: Source, piece: Piece, calls: tuple[Call, ...], aliases: Mapping[str, str]) -> str:
        """An expression with names in the place of its aggregates, and expressions in that of aliases."""
        ranges = {call.whole.start: (call.whole.end, self.of(call)) for call in calls}
        return spliced(source.text, piece, ranges, aliases)


def spliced(
    text: str, piece: Piece, ranges: Mapping[int, tuple[int, str]] | None = None, names: Mapping[str, str] | None = None
) -> str:
    """A piece of text with other words in the place of some ranges and of some names.

    >>> spliced("sum(a)/n + 1", Piece("", 0, 12), {0: (6, "total")}, {"n": "(x - 1)"})
    'total/(x - 1) + 1'
    """
    result, at = "", piece.start
    tokens = tokenize(text[piece.start : piece.end])
    for index, token in enumerate(tokens):
        start, end = token.start + piece.start, token.end + piece.start + 1
        if start < at:
            continue
        word = text[start:end]
        if ranges and start in ranges:
            end, word = ranges[start]
        elif names and token.token_type not in _NO_NAMES and token.text.lower() in names:
            called = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
            word = word if called else names[token.text.lower()]
        result += (" " if start > at and result else "") + word
        at = end
    return result
