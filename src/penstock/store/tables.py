"""The store's tables. A view `trending` is the SQL view of that name over the table `__view_trending`.

Names of the store's own begin with two underscores, which no user's name does, and every name is quoted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.errors import unknown
from penstock.kernel.columns import END, START
from penstock.model.windows import CountBased, Global
from penstock.state.layout import in_place
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.dialect import LONGEST, SQLITE, Dialect
from penstock.store.dialect import marks as marks
from penstock.store.dialect import quoted as quoted
from penstock.store.dialect import select as select
from penstock.store.encode import sql_type
from penstock.store.format import IN_SEGMENTS
from penstock.store.people import people_view
from penstock.store.present import shown_as_stored, shown_type

if TYPE_CHECKING:
    from penstock.kernel.plan import Plan

#: The column with the newest event time of a key's elements.
TOUCHED: Final = ":__touched"
APPLICATION: Final = 0x50454E53  # 'PENS'

#: Of an epoch it has the stream and its figures. `timings` are seconds, `details` what a derived stream tells of its
#: work for people: both are JSON, and nothing is decided by them.
COMMITS: Final = """CREATE TABLE __commits (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, stream TEXT, query TEXT,
    epoch INTEGER, offsets TEXT, now INTEGER NOT NULL, panes INTEGER NOT NULL, rows INTEGER, late_events INTEGER,
    late_pairs INTEGER, inputs INTEGER, late_inputs INTEGER, behind INTEGER, unit TEXT, "limit" INTEGER, taken INTEGER,
    timings TEXT NOT NULL, details TEXT NOT NULL)"""

OWN_TABLES: Final = (
    "CREATE TABLE __meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE __views (name TEXT PRIMARY KEY COLLATE NOCASE, fingerprint TEXT NOT NULL, definition TEXT NOT NULL,
       firing TEXT NOT NULL, columns TEXT NOT NULL, watermark INTEGER, closed INTEGER) WITHOUT ROWID""",
    COMMITS,
    """CREATE TABLE __progress (query TEXT PRIMARY KEY, "commit" INTEGER NOT NULL, epoch INTEGER NOT NULL,
       offsets TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE __trackers (stream TEXT PRIMARY KEY, snapshot TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE __counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE __sinks (sink TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE __refused ("commit" INTEGER NOT NULL, kind TEXT NOT NULL, stream TEXT NOT NULL, view TEXT,
       partition INTEGER, "offset" INTEGER, at INTEGER, reason TEXT, row TEXT, missed INTEGER, windows INTEGER)""",
    "INSERT INTO __meta VALUES ('token', 0), ('panes', 0)",
)


def set_meta(connection: Connection, name: str, value: int) -> None:
    """Remembers a number under a name."""
    sql = "INSERT INTO __meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    connection.run(sql, [name, value])


def ids_table(stream: str) -> str:
    return quoted(f"__ids_{stream}")


def create_ids(stream: str) -> tuple[str, ...]:
    """The known ids of a stream, by their bytes, and by age to forget them."""
    table = ids_table(stream)
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (id BLOB PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID",
        f"CREATE INDEX IF NOT EXISTS {quoted(f'__ids_{stream}_at')} ON {table} (at)",
    )


@dataclass(frozen=True)
class Layout:
    """Where each column of a view's state lies in the store."""

    name: str
    plan: Plan
    dialect: Dialect = SQLITE

    @property
    def table(self) -> str:
        return quoted(f"__view_{self.name}")

    @property
    def in_place(self) -> bool:
        """Whether windows close by the watermark alone, and stay where they are in the table."""
        return in_place(self.plan)

    @property
    def order(self) -> str:
        """The columns by which rows lie in the table."""
        return "__end, __start, __key" if self.in_place else "final, __end, __start, __key"

    @property
    def ghosts(self) -> str:
        return quoted(f"__ghosts_{self.name}")

    @property
    def seen(self) -> str:
        return quoted(f"__seen_{self.name}")

    @property
    def ghost_index(self) -> str:
        return quoted(f"__ghost_key_{self.name}")

    @property
    def due_index(self) -> str:
        return quoted(f"__due_{self.name}")

    @property
    def touched_index(self) -> str:
        return quoted(f"__touched_{self.name}")

    @property
    def key_index(self) -> str:
        return quoted(f"__key_{self.name}")

    @cached_property
    def stored(self) -> dict[str, str]:
        """Column of the kernel's state → column of the table."""
        names = {START: START, END: END}
        names |= {name: name for name, kind in self.plan.key_types.items() if shown_as_stored(kind)}
        if self.plan.view.shown is None:
            names |= {
                part.name: part.name for part in self.plan.columns if part.is_answer and shown_as_stored(part.result)
            }
        return {name: names.get(name, f":{name}") for name in self.plan.state_schema}

    @cached_property
    def stored_ghosts(self) -> dict[str, str]:
        return {name: f":{name}" for name in self.plan.ghost_schema}

    @cached_property
    def columns(self) -> dict[str, str]:
        """The table's columns with their SQL types."""
        types = {"final": "INTEGER NOT NULL", END: "INTEGER NOT NULL", START: "INTEGER NOT NULL"}
        types["__key"] = "BLOB NOT NULL"
        types |= {name: shown_type(kind) for name, kind in self.plan.key_types.items()}
        types |= {name: shown_type(kind) for name, kind in self.plan.values.items()}
        if self.plan.view.condition is not None:
            types["__holds"] = "INTEGER NOT NULL"
        state = self.plan.state_schema
        types |= {column: sql_type(state[name]) for name, column in self.stored.items() if column not in types}
        return types | {"__due": "INTEGER"}

    @property
    def signature(self) -> str:
        """The types of the value state, to notice a store that another version of the kernel wrote.

        When keys were touched is left out: a retention may come and go.
        """
        kinds = {name: str(kind) for name, kind in self.plan.value_schema.items() if name != "__touched"}
        return json.dumps(kinds)

    @property
    def firing(self) -> str:
        """What the firing state means: where it differs, open windows start their trigger afresh."""
        return f"{self.plan.view.firing!r} {self.plan.view.accumulation}"

    @cached_property
    def public(self) -> dict[str, str]:
        """The columns that people read, each as SQL over the table."""
        expressions = {name: quoted(name) for name in self.plan.view.columns}
        for name, column in (("window_start", START), ("window_end", END)):
            expressions[name] = _bound(self.plan, column, self.dialect)
        return expressions | {"final": self.dialect.truth("final")}

    def create_index(self, columns: Sequence[str]) -> list[str]:
        """An index by columns that people read; it is there once, however often it is asked for."""
        for name in columns:
            if name not in self.public:
                raise unknown(f"column of '{self.name}'", name, self.public)
        by = [self.public[name] for name in columns]
        return self.dialect.index(f"__by_{self.name}_{'_'.join(columns)}", self.table, by, columns)

    def create(self) -> list[str]:
        """All that the view needs."""
        return [*self.create_hidden(), *self.create_view()]

    def create_hidden(self) -> list[str]:
        """The same without what people read of it."""
        self._check_names()
        return [*self._create_rows(), *self._create_ghosts(), *self._create_seen()]

    def _check_names(self) -> None:
        """Refuses names that PostgreSQL would cut off, and so take for others."""
        if not self.dialect.people:
            return
        for name in (f"__ghost_key_{self.name}~9999", *self.columns, *self.stored_ghosts.values()):
            if len(name.encode()) > LONGEST:
                what = f"the column '{name}'" if name in self.columns else f"the name '{self.name}'"
                raise StoreError(
                    f"{what} is too long for PostgreSQL",
                    detail=f"what the store makes of it has {len(name.encode())} bytes, and {LONGEST} fit",
                    hint="choose a shorter one",
                )

    def drop_tables(self) -> list[str]:
        """Removes the tables: the rows are in segments now. SQL over the view gets an error that says so."""
        definition = self._made(quoted(IN_SEGMENTS))
        stub = self.dialect.stub(self.name, definition, list(self.public), IN_SEGMENTS.strip("_"))
        tables = (f"DROP TABLE IF EXISTS {table}" for table in (self.table, self.ghosts, self.seen))
        return [*self.dialect.drop_view(self.name), *tables, *stub]

    def create_table(self) -> list[str]:
        """The table and what people read of it."""
        return [*self._create_rows(), *self.create_view()]

    def _create_rows(self) -> list[str]:
        """The table with its indexes.

        Windows lie by their end: those that the watermark passes lie together, behind all final ones. Where others
        are final before them, the open ones come first.
        """
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in self.columns.items())
        checks = f"PRIMARY KEY ({self.order}), CHECK (final IN (0, 1))"
        return [f"CREATE TABLE {self.table} ({columns}, {checks}) WITHOUT ROWID", *self.create_indexes()]

    def create_indexes(self) -> list[str]:
        """What finds open windows by the time at which they are due, by key, and keys by their newest element."""
        statements = [f"CREATE INDEX {self.due_index} ON {self.table} (__due) WHERE __due IS NOT NULL"]
        if self.plan.merging:
            statements.append(f"CREATE INDEX {self.key_index} ON {self.table} (__key) WHERE final = 0")
        return [*statements, *self.create_touched_index()]

    def create_touched_index(self) -> list[str]:
        """What finds the keys that are to be forgotten, where the view forgets some."""
        if not self.plan.forgets:
            return []
        return [f"CREATE INDEX {self.touched_index} ON {self.table} ({quoted(TOUCHED)})"]

    def _create_ghosts(self) -> list[str]:
        kinds = self.plan.ghost_schema
        columns = ", ".join(f"{quoted(column)} {sql_type(kinds[n])}" for n, column in self.stored_ghosts.items())
        if not self.plan.merging:
            return []
        return [
            f"CREATE TABLE {self.ghosts} (__key BLOB NOT NULL, {columns})",
            f"CREATE INDEX {self.ghost_index} ON {self.ghosts} (__key)",
        ]

    def _create_seen(self) -> list[str]:
        if not isinstance(self.plan.view.windows, CountBased):
            return []
        return [f"CREATE TABLE {self.seen} (__key BLOB PRIMARY KEY, __seen INTEGER NOT NULL) WITHOUT ROWID"]

    def create_view(self) -> list[str]:
        """What people read: keys, window, values, final. Windows whose rows were all taken back are not there.

        The one row of a view without keys over all time stays.
        """
        definition = self._made(self.table)
        return [definition, *people_view(self, definition, self._there)] if self.dialect.people else [definition]

    def _made(self, table: str) -> str:
        columns = ", ".join(f"{text} AS {quoted(name)}" for name, text in self.public.items())
        return f"CREATE VIEW {quoted(self.name)} AS SELECT {columns} FROM {table}{self._there}"

    @property
    def _there(self) -> str:
        """The condition for rows that people read."""
        emptied = self.plan.view.signed and not self.plan.view.has_one_row
        rules = [f"{quoted(':__rows')} <> 0"] if emptied else []
        rules += [self.dialect.truth("__holds")] if self.plan.view.condition is not None else []
        return f" WHERE {' AND '.join(rules)}" if rules else ""


def drop_view(name: str, dialect: Dialect) -> list[str]:
    """Removes all that a view has."""
    tables = [f"DROP TABLE IF EXISTS {quoted(f'__{kind}_{name}')}" for kind in ("view", "ghosts", "seen")]
    return [*dialect.drop_view(name), *tables]


def _bound(plan: Plan, column: str, dialect: Dialect) -> str:
    """A window's bound as people read it: an element's number, an instant as text, or null for all time."""
    if isinstance(plan.view.windows, CountBased):
        return column
    return dialect.no_time if isinstance(plan.view.windows, Global) else dialect.instant(column)
