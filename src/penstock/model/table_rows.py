"""The rows of a table as the reference has them: looked up by key and time, and checked to be one for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.expressions import bind, evaluate
from penstock.model.table import Table, TableJoin
from penstock.model.time import BEGINNING, Instant
from penstock.model.types import Schema


class Index:
    """A version of a table as the reference looks things up in it."""

    def __init__(self, table: Table, rows: Sequence[Sequence[object]]) -> None:
        self._table = table
        self._rows: dict[tuple[object, ...], list[dict[str, Any]]] = {}
        for values in rows:
            row = dict(zip(table.schema.names, values, strict=True))
            self._rows.setdefault(tuple(row[name] for name in table.key), []).append(row)

    def find(self, step: TableJoin, row: Mapping[str, object], schema: Schema, at: Instant) -> dict[str, object] | None:
        """What an event has after a join; None if it finds nothing and the join is an inner one."""
        version = self.row(tuple(evaluate(bind(text, schema), row) for text in step.on), at)
        if version is None and step.how == "inner":
            return None
        return {**row, **{name: None if version is None else version[column] for name, column in step.joined}}

    def row(self, key: tuple[object, ...], at: Instant) -> dict[str, Any] | None:
        """The row of a key, as of an instant where rows follow each other in time."""
        return None if None in key else self._valid(self._rows.get(key, []), at)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows."""
        for some in self._rows.values():
            yield from some

    def _valid(self, rows: list[dict[str, Any]], at: Instant) -> dict[str, Any] | None:
        since, until = self._table.valid_from, self._table.valid_to
        if since is None:
            return rows[-1] if rows else None
        begun = [row for row in rows if _since(row[since]) <= at]
        if not begun:
            return None
        last = max(begun, key=lambda row: _since(row[since]))
        return None if until is not None and last[until] is not None and last[until] <= at else last


def _since(value: Instant | None) -> Instant:
    return BEGINNING if value is None else value


def check_rows(table: Table, rows: Sequence[Sequence[object]]) -> None:
    """Refuses rows of which two have the same key, or are valid from the same time on."""
    names = [*table.key, *([table.valid_from] if table.valid_from else [])]
    places = [table.schema.names.index(name) for name in names]
    seen: set[tuple[object, ...]] = set()
    for row in rows:
        key = tuple(row[place] for place in places)
        if None not in key[: len(table.key)] and key in seen:
            raise twice(table, key)
        seen.add(key)


def twice(table: Table, key: Sequence[object]) -> DefinitionError:
    """Two rows of a table where only one can be."""
    values = ", ".join(f"{name} = {value!r}" for name, value in zip((*table.key, table.valid_from), key, strict=False))
    return DefinitionError(
        f"the table '{table.name}' has two rows with {values}",
        hint="its key must name one row; where rows follow each other in time, set valid_from='a timestamp'",
    )
