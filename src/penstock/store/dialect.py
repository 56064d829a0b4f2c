"""What the two databases say differently. Statements are written in the words that both know; the rest is here.

>>> POSTGRES.table('CREATE TABLE t (n INTEGER, "INTEGER" BLOB) WITHOUT ROWID')
'CREATE TABLE t (n BIGINT, "INTEGER" BYTEA)'
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

_QUOTED: Final = r""""(?:[^"]|"")*"|'(?:[^']|'')*'"""
_WORDS: Final = re.compile(
    rf"{_QUOTED}|\bINTEGER PRIMARY KEY AUTOINCREMENT\b|\bCOLLATE NOCASE\b| WITHOUT ROWID\b|"
    r"\b(?:INTEGER|BLOB|FLOAT64|REAL|TEXT|BOOLEAN)\b"
)
_MARK: Final = re.compile(rf"{_QUOTED}|--[^\n]*|/\*.*?\*/|\?(\d+)", re.DOTALL)
#: Microseconds from the year 1 to the year 9999: in these, instants are text.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
#: The most bytes of a name in PostgreSQL.
LONGEST: Final = 63


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds.

    >>> quoted('a"; DROP TABLE b')
    '"a""; DROP TABLE b"'
    """
    return '"' + name.replace('"', '""') + '"'


def select(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


def marks(count: int) -> str:
    return ", ".join(f"?{number}" for number in range(1, count + 1))


def numbered(sql: str, mark: str) -> str:
    """A statement with other marks in the place of ?1, ?2 …

    >>> numbered("SELECT '?1', ?1, ?2", "$")
    "SELECT '?1', $1, $2"
    """
    return _MARK.sub(lambda match: match[0] if match[1] is None else f"{mark}{match[1]}", sql)


class Dialect(ABC):
    """The words of one database.

    `name` is the one that SQLGlot has for it. `finds_nan`: it has NaN among its numbers. `people` is the schema of what
    people read, where that is apart from the store's own tables.
    """

    name: ClassVar[str]
    finds_nan: ClassVar[bool]
    people: str = ""
    #: A table of what there is: type, name, and of a view the statement that made it.
    schema: ClassVar[str]
    #: A join that begins with the table on its left.
    ordered_join: ClassVar[str]
    #: The bound of a window that has none.
    no_time: ClassVar[str]
    #: Types and options of tables.
    _words: ClassVar[Mapping[str, str]]

    def table(self, statement: str) -> str:
        """A statement that makes a table, as the database takes it."""
        return _WORDS.sub(lambda match: self._words.get(match[0], match[0]), statement)

    @abstractmethod
    def by_index(self, index: str) -> str:
        """The clause that names the index by which rows are found, in databases that need it."""

    @abstractmethod
    def truth(self, column: str) -> str:
        """A column of 0 and 1 as a condition that is shown."""

    @abstractmethod
    def drop_view(self, name: str) -> list[str]:
        """Removes what people read of a view."""

    @abstractmethod
    def stub(self, name: str, statement: str, columns: Sequence[str], message: str) -> list[str]:
        """Makes a view that cannot be read here: asked for rows, it fails with a message.

        `statement` is the statement that would make it from the table of that name.
        """

    @abstractmethod
    def index(self, name: str, table: str, by: Sequence[str], columns: Sequence[str]) -> list[str]:
        """Makes an index that a user asks for by these columns, once."""

    @abstractmethod
    def instant(self, column: str) -> str:
        """An instant as text, like `present.shown`; years that text cannot hold stay microseconds."""


class Sqlite(Dialect):
    """SQLite's words, in which statements are written."""

    name = "sqlite"
    finds_nan = False
    # A column that is declared REAL turns -0.0 into 0.0: one for floats has no type, and keeps what it gets.
    _words: ClassVar[Mapping[str, str]] = {"BOOLEAN": "INTEGER", "FLOAT64": ""}
    schema = "sqlite_schema"
    ordered_join = "CROSS JOIN"
    no_time = "NULL"

    def by_index(self, index: str) -> str:
        return f" INDEXED BY {index}"  # without statistics it would rather walk all rows

    def truth(self, column: str) -> str:
        return column

    def drop_view(self, name: str) -> list[str]:
        return [f"DROP VIEW IF EXISTS {quoted(name)}"]

    def stub(self, name: str, statement: str, columns: Sequence[str], message: str) -> list[str]:
        return [statement]  # SQLite looks for the table when the view is read

    def index(self, name: str, table: str, by: Sequence[str], columns: Sequence[str]) -> list[str]:
        return [f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {table} ({', '.join(by)})"]

    def instant(self, column: str) -> str:
        micros = f"(({column} % 1000000 + 1000000) % 1000000)"
        text = f"strftime('%Y-%m-%d %H:%M:%S', ({column} - {micros}) / 1000000, 'unixepoch')"
        return f"coalesce({text} || CASE {micros} WHEN 0 THEN '' ELSE printf('.%06d', {micros}) END, {column})"


class Postgres(Dialect):
    """PostgreSQL's words."""

    name = "postgres"
    finds_nan = True
    _words: ClassVar[Mapping[str, str]] = {
        "INTEGER": "BIGINT",
        "BLOB": "BYTEA",
        "FLOAT64": "DOUBLE PRECISION",
        "REAL": "DOUBLE PRECISION",
        "TEXT": 'TEXT COLLATE "C"',
        "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "COLLATE NOCASE": "",
        " WITHOUT ROWID": "",
    }
    schema = """(SELECT CASE c.relkind WHEN 'v' THEN 'view' ELSE 'table' END AS type, c.relname::text AS name,
        obj_description(c.oid, 'pg_class') AS sql FROM pg_catalog.pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v'))"""
    ordered_join = "JOIN"
    no_time = "NULL::text"

    def __init__(self, people: str = "") -> None:
        self.people = people

    def by_index(self, index: str) -> str:
        return ""

    def truth(self, column: str) -> str:
        return f"({column} = 1)"

    def drop_view(self, name: str) -> list[str]:
        return [f"DROP VIEW IF EXISTS {quoted(self.people)}.{quoted(name)}", f"DROP VIEW IF EXISTS {quoted(name)}"]

    def stub(self, name: str, statement: str, columns: Sequence[str], message: str) -> list[str]:
        raising = "CREATE OR REPLACE FUNCTION __unreadable(message text) RETURNS boolean LANGUAGE plpgsql AS "
        body = "$$ BEGIN RAISE EXCEPTION '%', message; END $$"
        shown = ", ".join(f"NULL::text AS {quoted(column)}" for column in columns)
        text = f"the view {name} is {message}".replace("'", "''")
        select = f"AS SELECT {shown} WHERE __unreadable('{text}')"
        views = [quoted(name), *([f"{quoted(self.people)}.{quoted(name)}"] if self.people else [])]
        comment = statement.replace("'", "''")
        return [
            raising + body,
            *(f"CREATE VIEW {view} {select}" for view in views),
            f"COMMENT ON VIEW {quoted(name)} IS '{comment}'",
        ]

    def index(self, name: str, table: str, by: Sequence[str], columns: Sequence[str]) -> list[str]:
        if len(name.encode()) > LONGEST:
            name = f"__by_{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        columns_json = json.dumps(list(columns)).replace("'", "''")
        expressions = ", ".join(f"({expression})" for expression in by)
        return [
            f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {table} ({expressions})",
            f"COMMENT ON INDEX {quoted(name)} IS '{columns_json}'",  # of which columns it is
        ]

    def instant(self, column: str) -> str:
        at = timestamp(column)
        sizes = {"year": 4, "month": 2, "day": 2, "hour": 2, "minute": 2}
        year, month, day, hour, minute = (
            f"lpad(date_part('{part}', {at})::int::text, {size}, '0')" for part, size in sizes.items()
        )
        micros = f"(({column} % 60000000 + 60000000) % 60000000)"
        seconds = f"lpad(({micros} / 1000000)::text, 2, '0')"
        fine = f"CASE {micros} % 1000000 WHEN 0 THEN '' ELSE '.' || lpad(({micros} % 1000000)::text, 6, '0') END"
        day_of = f"{year} || '-' || {month} || '-' || {day}"
        text = f"{day_of} || ' ' || {hour} || ':' || {minute} || ':' || {seconds} || {fine}"
        return f'(CASE WHEN {column} BETWEEN {_FIRST} AND {_LAST} THEN {text} ELSE {column}::text END COLLATE "C")'


def timestamp(column: str) -> str:
    """PostgreSQL's timestamp, in UTC, of an instant; by functions that an index may be made of."""
    hours, rest = f"({column} / 3600000000) * interval '1 hour'", f"({column} % 3600000000) * interval '1 microsecond'"
    return f"(timestamp '1970-01-01 00:00:00' + {hours} + {rest})"


SQLITE: Final = Sqlite()
POSTGRES: Final = Postgres()
