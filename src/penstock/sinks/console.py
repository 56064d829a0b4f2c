"""A sink that prints a table of text on standard output, with the newest rows of each delivery.

>>> to_console(limit=5, mode="update")
ps.to_console(limit=5, mode='update')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.sinks.base import Batch, Mode, OpenSink, Sink, Target, above_zero
from penstock.text_table import text_table, value_text

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
        print(f"{self._title}: {len(batch.rows)} rows\n{rest}{text_table(shown, _text)}\n", end="", flush=True)


def _text(value: object) -> str:
    """A value on one line."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    return value_text(value).replace("\n", "\\n")


def to_console(*, limit: int = _LIMIT, mode: Mode = "panes") -> Console:
    """Prints fired panes, at most the newest `limit` rows at once."""
    above_zero(limit, "the limit of a console")
    return Console(limit, mode=mode)
