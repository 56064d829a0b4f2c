"""What a view did with a script: panes, the table at the end, and the rows that it rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from penstock.html_table import html_table
from penstock.model.chain import far_sources
from penstock.model.commits import Pane, Rejection, TableRow
from penstock.model.stream import Flow
from penstock.model.time import BEGINNING, END, Instant, to_datetime
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.windows import CountBased
from penstock.text_table import text_table, value_text


@dataclass(frozen=True)
class FiredPane:
    """A pane, and the number of the commit that fired it (from 1)."""

    commit: int
    pane: Pane


@dataclass(frozen=True)
class Result:
    """What a view did with a script: `panes`, `table`, and the rows that were `late`, `duplicates` or `dead`."""

    view: View
    fired: tuple[FiredPane, ...]
    rows: tuple[TableRow, ...]
    refused: tuple[Rejection, ...]
    lowered: View | None = None  # the same view over columns of which Spark knows the types

    @property
    def panes(self) -> list[dict[str, object]]:
        """The panes in the order in which they fired, as dictionaries."""
        return [
            {
                "commit": fired.commit,
                **self._shown(fired.pane),
                "kind": fired.pane.kind,
                "timing": fired.pane.timing,
                "index": fired.pane.index,
                "final": fired.pane.final,
            }
            for fired in self.fired
        ]

    @property
    def table(self) -> list[dict[str, object]]:
        """The view's table at the end."""
        return [{**self._shown(row), "final": row.final} for row in self.rows]

    @property
    def late(self) -> list[dict[str, object]]:
        """Rows that came after some or all of their windows had closed, with the reason."""
        return self._refused("late")

    @property
    def duplicates(self) -> list[dict[str, object]]:
        """Rows whose id was accepted before."""
        return self._refused("duplicate")

    @property
    def dead(self) -> list[dict[str, object]]:
        """Rows that could not be read or on which an expression failed, with the reason."""
        return self._refused("dead")

    def _shown(self, row: Pane | TableRow) -> dict[str, object]:
        counted = isinstance(self.view.windows, CountBased)
        names = self.view.values
        types = self._types()
        return {
            **{k: _shown(v, t) for (k, _), v, t in zip(self.view.keys, row.key, types, strict=False)},
            "window_start": row.window.start if counted else _bound(row.window.start),
            "window_end": row.window.end if counted else _bound(row.window.end),
            **{n: _shown(v, t) for n, v, t in zip(names, row.values, types[len(self.view.keys) :], strict=True)},
        }

    def _types(self) -> list[str]:
        view = self.lowered or self.view
        return [*(view.bound(text).type or "string" for _, text in view.keys), *view.value_types.values()]

    def _refused(self, kind: str) -> list[dict[str, object]]:
        return _refused_rows(self.view.input, self.refused, kind)

    def __str__(self) -> str:
        return show(self.panes)

    def _repr_html_(self) -> str:
        return _html(self.panes, self.view.name)


@dataclass(frozen=True)
class StreamResult:
    """The rows of a stream for a script, each with its commit (from 1), and those that were `late` or `dead`."""

    flow: Flow
    rows: list[dict[str, object]]
    refused: tuple[Rejection, ...]

    @property
    def late(self) -> list[dict[str, object]]:
        """Rows that came too late for an operator, with the reason."""
        return _refused_rows(self.flow, self.refused, "late")

    @property
    def duplicates(self) -> list[dict[str, object]]:
        """Rows whose id was accepted before."""
        return _refused_rows(self.flow, self.refused, "duplicate")

    @property
    def dead(self) -> list[dict[str, object]]:
        """Rows that could not be read or on which an expression or code failed, with the reason."""
        return _refused_rows(self.flow, self.refused, "dead")

    def __str__(self) -> str:
        return show(self.rows)

    def _repr_html_(self) -> str:
        return _html(self.rows)


def _html(rows: Sequence[Mapping[str, object]], caption: str | None = None) -> str:
    names = list(rows[0]) if rows else ["no rows"]
    return html_table(names, (list(row.values()) for row in rows), caption, text_of)


def _refused_rows(flow: Flow, refused: Sequence[Rejection], kind: str) -> list[dict[str, object]]:
    schemas = {name: source.schema for name, source in far_sources((flow,)).items()}
    schemas |= {source.name: source.schema for source in flow.sources}
    return [{**_row(one, schemas), "reason": one.reason} for one in refused if one.kind == kind]


def _row(refused: Rejection, schemas: Mapping[str, Schema]) -> dict[str, object]:
    """An event that was rejected. What code or an operator has made is shown as it came out."""
    event = refused.event
    if event.partition is None or event.partition < 0 or event.stream not in schemas:
        return dict(event.row)
    return {
        name: value if isinstance(value, str) and kind in ("timestamp", "date") else _shown(value, kind)
        for name, kind in schemas[event.stream]
        for value in [event.row.get(name)]
        if not name.startswith("__")
    }


def show(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a table of text; times of the test's day without their date."""
    return text_table(rows, text_of)


def text_of(value: object) -> str:
    """A value as the tests write it."""
    return value_text(value).removeprefix("2000-01-01T") if isinstance(value, datetime) else value_text(value)


def _bound(at: Instant) -> datetime | int | None:
    """A window's bound; microseconds where a datetime cannot express it."""
    try:
        return None if at in (BEGINNING, END) else to_datetime(at)
    except OverflowError:
        return at


def _shown(value: Any, kind: str) -> object:
    """A value of the model as a user expects it: timestamps as datetimes, dates as dates."""
    if value is None:
        return None
    try:
        if kind == "timestamp":
            return to_datetime(value)
        if kind == "date":
            return date(1970, 1, 1) + timedelta(days=value)
    except OverflowError:
        return value  # a year that Python does not know
    if kind.startswith("array<"):
        return [_shown(part, kind[6:-1]) for part in value]
    return value
