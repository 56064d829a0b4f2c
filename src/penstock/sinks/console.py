"""A sink for the eye: a plain table of text on standard output, with the newest rows of each delivery.

>>> to_console(limit=5, mode="update")
ps.to_console(limit=5, mode='update')
>>> print(table([{"k": "a", "n": 12}, {"k": None, "n": 3}]))
k      n
a     12
null   3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.sinks.base import Batch, Mode, OpenSink, Sink, Target, above_zero
from penstock.sinks.rows import Row

_LIMIT = 20


@dataclass(frozen=True, repr=False)
class Console(Sink):
    """Prints up to `limit` rows of each delivery, and how many more there were."""

    limit: int = _LIMIT

    @property
    def rows(self) -> int:
        return 10_000

    def open(self, target: Target) -> OpenSink:
        return _Printing(f"{target.view} → {target.sink}", self.limit)

    def __repr__(self) -> str:
        return self.show("to_console", *([f"limit={self.limit}"] if self.limit != _LIMIT else []))


class _Printing(OpenSink):
    def __init__(self, title: str, limit: int) -> None:
        self._title, self._limit = title, limit

    def take(self, batch: Batch) -> None:
        shown = batch.rows[-self._limit :]
        more = len(batch.rows) - len(shown)
        rest = f"… and {more} before them\n" if more else ""
        # One call, so that what other threads print does not come between the lines.
        print(f"{self._title}: {len(batch.rows)} rows\n{rest}{table(shown)}\n", end="", flush=True)


def table(rows: Sequence[Row]) -> str:
    """Rows as lines of text under the names of their columns; numbers stand to the right."""
    if not rows:
        return "no rows"
    names = list(rows[0])
    lines = [names, *([_text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    right = [all(_is_number(row[name]) for row in rows) for name in names]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    return str(value).replace("\n", "\\n")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def to_console(*, limit: int = _LIMIT, mode: Mode = "panes") -> Console:
    """Prints what fires, at most `limit` rows at once: the newest."""
    above_zero(limit, "the limit of a console")
    return Console(limit, mode=mode)
