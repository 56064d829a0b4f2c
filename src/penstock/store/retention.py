"""The retention of a view without windows in the store: it may come, change and go while the state lives on."""

from __future__ import annotations

from penstock.model.time import BEGINNING
from penstock.store.connection import Connection
from penstock.store.dialect import quoted
from penstock.store.tables import TOUCHED, Layout, set_meta

#: What is noted for a view that never drops its keys.
_FOR_EVER = -1


def take_over_touched(connection: Connection, layout: Layout) -> None:
    """Brings the column `__touched` of a view that was there before in line with its definition.

    Where the view did not forget keys so far, they count as touched now: at its watermark, or by the clock where it has
    none yet.
    """
    name, column = layout.name, quoted(TOUCHED)
    is_there = TOUCHED in connection.columns_of(f"__view_{name}")
    if layout.plan.forgets and not is_there:
        (watermark,) = connection.rows("SELECT watermark FROM __views WHERE name = ?1", [name]).row(0)
        (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
        connection.run(layout.dialect.table(f"ALTER TABLE {layout.table} ADD COLUMN {column} INTEGER"))
        touched = now if watermark is None or watermark <= BEGINNING else watermark
        connection.run(f"UPDATE {layout.table} SET {column} = ?1", [touched])
        connection.script(layout.create_touched_index())
    elif is_there and not layout.plan.forgets:
        connection.script(
            [f"DROP INDEX IF EXISTS {layout.touched_index}", f"ALTER TABLE {layout.table} DROP COLUMN {column}"]
        )


def note_retention(connection: Connection, layout: Layout, *, afresh: bool = False) -> None:
    """Notes the retention of a view without windows and, for the audit, the last commit that had another one.

    State that is computed `afresh` has had this retention all along.
    """
    view, name = layout.plan.view, layout.name
    retention = view.retention if view.forgets and view.retention is not None else _FOR_EVER
    rows = connection.rows("SELECT value FROM __meta WHERE name = ?1", [f"retention:{name}"])
    before = rows.item() if rows.height else _FOR_EVER
    if afresh:
        connection.run("DELETE FROM __meta WHERE name = ?1", [f"retained:{name}"])
    elif before != retention:
        (last,) = connection.rows("SELECT coalesce(max(number), 0) FROM __commits").row(0)
        set_meta(connection, f"retained:{name}", last)
    set_meta(connection, f"retention:{name}", retention)
