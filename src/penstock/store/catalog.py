"""What an app is made of, as the store remembers it: its views with their columns, and all that a shell has created.

A row says who made it. What the app's own code defines has no statement, and comes back by itself at the next start;
what a shell created is defined again from its statement. `rested` is the commit after which a view takes no events.
Rows of other kinds have texts about the whole app, as JSON: the graph of its dataflow, its definitions at the last
start or change, and the user code that makes no progress at the moment; or the first name of a sink that was renamed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from penstock.kernel.plan import Plan
from penstock.store import files, memory
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.entry import DELIVERY_NAME, TEXTS, Part, Text
from penstock.store.figures import forget_figures
from penstock.store.marks import forget_marks
from penstock.store.people import columns
from penstock.store.tables import ids_table, set_meta

#: An id is never given twice.
CATALOG: Final = """CREATE TABLE IF NOT EXISTS __catalog (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,
    name TEXT NOT NULL, statement TEXT, columns TEXT NOT NULL DEFAULT '[]', since INTEGER NOT NULL, rested INTEGER,
    UNIQUE (kind, name))"""

_LAST: Final = "(SELECT coalesce(max(number), 0) FROM __commits)"


def note(connection: Connection, kind: Part, name: str, statement: str | None) -> None:
    """Remembers what a statement made; without one it is the app's own."""
    connection.run(
        f"INSERT INTO __catalog (kind, name, statement, since) VALUES (?1, ?2, ?3, {_LAST}) "
        "ON CONFLICT (kind, name) DO UPDATE SET statement = excluded.statement",
        [kind, name, statement],
    )


def note_text(connection: Connection, kind: Text, text: str) -> None:
    """Remembers a text about the whole app."""
    connection.run(
        f"INSERT INTO __catalog (kind, name, statement, since) VALUES (?1, ?2, ?3, {_LAST}) "
        "ON CONFLICT (kind, name) DO UPDATE SET statement = excluded.statement",
        [kind, TEXTS[kind], text],
    )


def note_delivery_name(connection: Connection, old: str, new: str) -> None:
    """Remembers, for a sink that gets another name, the one by which its target knows it."""
    rows = connection.rows("SELECT statement FROM __catalog WHERE kind = ?1 AND name = ?2", [DELIVERY_NAME, old])
    first = rows.item() if rows.height else old
    forget_delivery_name(connection, old)
    if first != new:
        connection.run(
            f"INSERT INTO __catalog (kind, name, statement, since) VALUES (?1, ?2, ?3, {_LAST})",
            [DELIVERY_NAME, new, first],
        )


def check_delivery_name(sink: str, names: Mapping[str, str]) -> None:
    """Rejects a sink with the name by which the target of a renamed one knows that one."""
    for other, name in names.items():
        if name == sink != other:
            raise StoreError(
                f"the sink '{other}' was named '{sink}' before, and is still known by that name where it delivers",
                hint="choose another name for the new sink",
            )


def forget_delivery_name(connection: Connection, sink: str) -> None:
    connection.run("DELETE FROM __catalog WHERE kind = ?1 AND name = ?2", [DELIVERY_NAME, sink])


def note_columns(connection: Connection, name: str, plan: Plan) -> None:
    """Remembers the columns of a view; who made it stays as it is."""
    connection.run(
        f"INSERT INTO __catalog (kind, name, columns, since) VALUES ('view', ?1, ?2, {_LAST}) "
        "ON CONFLICT (kind, name) DO UPDATE SET columns = excluded.columns",
        [name, json.dumps(list(columns(plan).items()))],
    )


def note_rest(connection: Connection, view: str, rests: bool) -> None:
    """Remembers that a view takes no events from here on, or that it does again."""
    now = _LAST if rests else "NULL"
    connection.run(f"UPDATE __catalog SET rested = {now} WHERE kind = 'view' AND name = ?1", [view])
    if not rests:
        set_meta(connection, f"woken:{view}", connection.rows(f"SELECT {_LAST}").item())


def forget(connection: Connection, kind: Part, name: str) -> None:
    connection.run("DELETE FROM __catalog WHERE kind = ?1 AND name = ?2", [kind, name])


def forget_stream(connection: Connection, stream: str) -> None:
    """Forgets how far a stream was: its ids, its time, what was counted and remembered, and its history."""
    forget(connection, "stream", stream)
    connection.run(f"DROP TABLE IF EXISTS {ids_table(stream)}")
    connection.run("DELETE FROM __trackers WHERE stream = ?1", [stream])
    # A stream's name has no dot; what follows it in a counter's has none either.
    connection.run("DELETE FROM __counters WHERE substr(name, 1, length(?1) + 1) = ?1 || '.'", [stream])
    set_meta(connection, f"forgotten:{stream}", 1)
    memory.forget(connection, stream)
    files.forget_files(connection, stream)
    forget_marks(connection, stream)
    forget_figures(connection, stream)
