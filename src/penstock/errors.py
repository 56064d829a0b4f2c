"""The one family of errors. A message says what was wrong, what exists, and what to do.

>>> raise DefinitionError("unknown column 'prise'", hint="did you mean 'price'?")
Traceback (most recent call last):
penstock.errors.DefinitionError: unknown column 'prise'
  hint: did you mean 'price'?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PenstockError(Exception):
    """An error of Penstock; `hint` says what to do about it."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        lines = [message]
        if detail:
            lines.append(f"  detail: {detail}")
        if hint:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))
        self.message, self.detail, self.hint = message, detail, hint


class DefinitionError(PenstockError):
    """An invalid definition; raised when it is made, not when it runs."""


class RowError(PenstockError):
    """One row on which an expression fails; the row goes to the dead-letter stream with this reason."""


class TestFailure(PenstockError, AssertionError):
    """A transcript or an assertion of `penstock.testing` that did not hold."""

    __test__ = False


def in_quotes(names: Iterable[str], separator: str = ", ") -> str:
    """Names in a message.

    >>> in_quotes(["price", "at"])
    "'price', 'at'"
    """
    return separator.join(f"'{name}'" for name in names)


def unknown(what: str, name: str, known: Iterable[str]) -> DefinitionError:
    """The error for a name that does not exist: what was asked, what exists, and the near miss.

    >>> print(unknown("column", "prise", ["price", "at"]))
    unknown column 'prise'
      detail: there are: at, price
      hint: did you mean 'price'?
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return DefinitionError(
        f"unknown {what} '{name}'",
        detail=f"there are: {', '.join(names)}" if names else "there are none",
        hint=f"did you mean '{near[0]}'?" if near else None,
    )
