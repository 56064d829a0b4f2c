"""The table that a sink in PostgreSQL fills: its columns with their types, its key, and the statements that write it.

>>> sql_type(pl.List(pl.Decimal(10, 2))), sql_type(pl.Struct({"a": pl.Int64()})), sql_type(pl.Datetime("us", "UTC"))
('numeric(10,2)[]', 'jsonb', 'timestamp with time zone')
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from penstock.errors import DefinitionError
from penstock.model.rows import Rows
from penstock.model.view import WINDOW_COLUMNS
from penstock.sinks.base import Target
from penstock.sinks.files import plain
from penstock.sinks.rows import Row, column_of, decoder

#: What a batch is copied into before it goes to the table; each connection has one of its own.
STAGE: Final = "penstock_stage"
_GONE: Final = "__gone"
_NAME: Final = re.compile(r'\s*("(?:[^"]|"")+"|[^\s."]+)(?:\s*\.\s*("(?:[^"]|"")+"|[^\s."]+))?\s*')
_TYPES: Final[dict[pl.DataType, str]] = {
    pl.String(): "text", pl.Int8(): "smallint", pl.Int16(): "smallint", pl.Int32(): "integer", pl.Int64(): "bigint",
    pl.Float32(): "real", pl.Float64(): "double precision", pl.Boolean(): "boolean", pl.Binary(): "bytea",
    pl.Date(): "date",
}  # fmt: skip


def names_of(table: str) -> tuple[str | None, str]:
    """Schema and name of a table as PostgreSQL reads them: in lower case where they are not quoted.

    >>> names_of("public.Trending"), names_of('"My Table"')
    (('public', 'trending'), (None, 'My Table'))
    """
    match = _NAME.fullmatch(table) if isinstance(table, str) else None
    if match is None:
        raise DefinitionError(f"not the name of a table: {table!r}", hint="for example 'public.trending'")
    first, second = match.groups()
    return (None, _meant(first)) if second is None else (_meant(first), _meant(second))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int | None) -> str:
    """A value in a statement."""
    return "NULL" if value is None else str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def sql_type(kind: pl.DataType) -> str:
    """PostgreSQL's type for a column: arrays of what is not an array itself, and JSON for what has parts."""
    if isinstance(kind, pl.List):
        return "jsonb" if isinstance(kind.inner, (pl.List, pl.Struct)) else f"{sql_type(kind.inner)}[]"  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return "jsonb"
    if isinstance(kind, pl.Decimal):
        return f"numeric({kind.precision},{kind.scale})"
    return "timestamp with time zone" if isinstance(kind, pl.Datetime) else _TYPES[kind]


@dataclass(frozen=True)
class Layout:
    """What a table must have, `columns`, and what is filled where it has it, `extra`. `key` is empty if rows are added.

    `replaces` says whether the table holds the newest row of each key; a view of one row has no key, and replaces too.
    """

    schema: str
    name: str
    columns: dict[str, pl.DataType]
    extra: dict[str, pl.DataType]
    key: tuple[str, ...] = ()
    replaces: bool = False

    @property
    def shown(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def create(self) -> str:
        """The statement that makes it."""
        columns = {**self.columns, **({"final": pl.Boolean()} if self.replaces else {})}
        lines = [f"{quoted(name)} {sql_type(kind)}" for name, kind in columns.items()]
        if self.key:
            lines.append(f"UNIQUE NULLS NOT DISTINCT ({_list(self.key)})")
        elif "pane" in columns:
            lines.append('PRIMARY KEY ("pane")')
        return f"CREATE TABLE {self.shown} (\n  " + ",\n  ".join(lines) + "\n)"

    def having(self, existing: Iterable[str]) -> Layout:
        """The layout with those of the extra columns that the table has."""
        more = {name: kind for name, kind in self.extra.items() if name in set(existing)}
        return Layout(self.schema, self.name, {**self.columns, **more}, {}, self.key, self.replaces)

    @property
    def stage(self) -> str:
        """The statement that makes the table which a batch is copied into."""
        kinds = {name: "text" if _is_json(kind) else sql_type(kind) for name, kind in self.columns.items()}
        gone = {_GONE: "boolean"} if self.replaces else {}
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in {**kinds, **gone}.items())
        return f"CREATE TEMP TABLE {STAGE} ({columns}) ON COMMIT DELETE ROWS"

    @property
    def insert(self) -> str:
        """Inserts what was copied; rows with the same key are replaced."""
        values = ", ".join(quoted(name) + ("::jsonb" if _is_json(kind) else "") for name, kind in self.columns.items())
        text = f"INSERT INTO {self.shown} ({_list(self.columns)}) SELECT {values} FROM {STAGE}"
        if not self.replaces:
            return text
        text += f" WHERE NOT {_GONE}"
        if not self.key:
            return text
        others = [quoted(name) for name in self.columns if name not in self.key]
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        return f"{text} ON CONFLICT ({_list(self.key)}) DO " + (f"UPDATE SET {changed}" if others else "NOTHING")

    def deletes(self, frame: pl.DataFrame) -> list[str]:
        """Removes the rows that were taken back: one statement for all that have nulls in the same columns of the key.

        So each finds its rows by the key's index; one comparison that knows nulls would read the whole table.
        """
        if not self.key:
            return [f"DELETE FROM {self.shown}"]
        gone = frame.filter(pl.col(_GONE))
        patterns = gone.select(pl.col(name).is_null() for name in self.key).unique().rows() if gone.height else []
        return [self._delete(dict(zip(self.key, pattern, strict=True))) for pattern in sorted(patterns)]

    def _delete(self, is_null: dict[str, bool]) -> str:
        same = [
            f"t.{quoted(name)} IS NULL AND s.{quoted(name)} IS NULL" if null else f"t.{quoted(name)} = s.{quoted(name)}"
            for name, null in is_null.items()
        ]
        return f"DELETE FROM {self.shown} AS t USING {STAGE} AS s WHERE s.{_GONE} AND {' AND '.join(same)}"

    def frame(self, rows: Sequence[Row]) -> pl.DataFrame:
        """Rows as they are copied."""
        columns = [_series(name, kind, rows) for name, kind in self.columns.items()]
        if self.replaces:
            columns.append(pl.Series(_GONE, [row["kind"] == "retract" for row in rows], dtype=pl.Boolean))
        return pl.DataFrame(columns)


def layout(schema: str, name: str, target: Target, mode: str, key: Sequence[str] | None) -> Layout:
    """What the table of a sink looks like. Windows that never end have no bounds, and so no columns for them."""
    definition = target.definition
    columns = dict(decoder(definition).schema("panes"))
    if isinstance(definition, Rows):
        return Layout(schema, name, columns, {})
    windows = WINDOW_COLUMNS if definition.windows.ends else ()
    columns = {one: kind for one, kind in columns.items() if one in windows or one not in WINDOW_COLUMNS}
    if mode != "upsert":
        return Layout(schema, name, columns, {})
    needed = [*target.key_names, *windows, *target.value_types]
    extra = {one: kind for one, kind in columns.items() if one not in needed and one != "kind"}
    key = tuple(target.key_names) + tuple(windows) if key is None else tuple(key)
    return Layout(schema, name, {one: columns[one] for one in needed}, extra, key, replaces=True)


def _series(name: str, kind: pl.DataType, rows: Sequence[Row]) -> pl.Series:
    if not _has_text(kind):
        return column_of(name, kind, [row[name] for row in rows])
    values = [_without_zeros(row[name]) for row in rows]
    if not _is_json(kind):
        return column_of(name, kind, values)
    texts = [None if value is None else json.dumps(plain(value), allow_nan=False) for value in values]
    return pl.Series(name, texts, dtype=pl.String)


def _without_zeros(value: Any) -> Any:
    """PostgreSQL has no text with the sign of code zero: it is shown as '␀'."""
    if isinstance(value, str):
        return value.replace("\0", "␀") if "\0" in value else value
    if isinstance(value, list):
        return [_without_zeros(part) for part in value]
    return {name: _without_zeros(part) for name, part in value.items()} if isinstance(value, dict) else value


def _has_text(kind: Any) -> bool:
    return _is_json(kind) or kind == pl.String or (isinstance(kind, pl.List) and kind.inner == pl.String)


def _is_json(kind: pl.DataType) -> bool:
    return sql_type(kind) == "jsonb"


def _meant(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
