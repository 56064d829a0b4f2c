"""Other names for views and sinks: rows, state, generations and positions stay."""

from __future__ import annotations

from typing import Final

from penstock.kernel.plan import Plan
from penstock.model.windows import CountBased
from penstock.store.catalog import note_delivery_name
from penstock.store.connection import Connection
from penstock.store.signed import Signer
from penstock.store.tables import Layout

#: The tables that name a view, and the column that does.
_NAMING: Final = (
    ("__views", "name"), ("__generations", "view"), ("__outbox", "view"), ("__pane_files", "view"),
    ("__past_versions", "view"), ("__audits", "view"), ("__refused", "view"), ("__sharded", "owner"),
    ("__segments", "owner"),
)  # fmt: skip
_NOTED: Final = ("lateness", "closed", "woken", "retention", "retained")


def rename_sink(connection: Connection, old: str, new: str) -> None:
    """Gives a sink another name: it goes on where it was. Its target knows it by its first name."""
    for table in ("__sinks", "__deliveries"):
        connection.run(f"UPDATE {table} SET sink = ?2 WHERE sink = ?1", [old, new])
    connection.run("UPDATE __catalog SET name = ?2 WHERE kind = 'sink' AND name = ?1", [old, new])
    note_delivery_name(connection, old, new)


def rename_view(connection: Connection, plan: Plan, old: str, new: str, signer: Signer) -> None:
    """Gives a view another name, in the transaction of the caller. Its definition is that of the plan."""
    before, after = Layout(old, plan, connection.dialect), Layout(new, plan, connection.dialect)
    tables = connection.tables()
    if before.table.strip('"') in tables:
        _move_tables(connection, before, after)
    else:
        connection.script([*before.dialect.drop_view(old), *after.drop_tables()])
    _sign_again(connection, old, new, signer)
    for table, column in _NAMING:
        if table in tables:
            connection.run(f"UPDATE {table} SET {column} = ?2 WHERE {column} = ?1", [old, new])
    connection.run("UPDATE __catalog SET name = ?2 WHERE kind = 'view' AND name = ?1", [old, new])
    for what in _NOTED:
        connection.run("UPDATE __meta SET name = ?2 WHERE name = ?1", [f"{what}:{old}", f"{what}:{new}"])


def _move_tables(connection: Connection, before: Layout, after: Layout) -> None:
    plan = before.plan
    asked = [columns for columns, _ in connection.indexes_of(f"__view_{before.name}")]
    moved = [(before.table, after.table)]
    indexes = [before.due_index, *([before.touched_index] if plan.forgets else [])]
    made = after.create_indexes()
    if plan.merging:
        moved.append((before.ghosts, after.ghosts))
        indexes += [before.key_index, before.ghost_index]
        made.append(f"CREATE INDEX {after.ghost_index} ON {after.ghosts} (__key)")
    if isinstance(plan.view.windows, CountBased):
        moved.append((before.seen, after.seen))
    connection.script(
        [
            *before.dialect.drop_view(before.name),
            *(f"DROP INDEX {index}" for index in indexes),
            *(f"ALTER TABLE {one} RENAME TO {other}" for one, other in moved),
            *made,
            *after.create_view(),
            *(line for by in asked if set(by) <= after.public.keys() for line in after.create_index(by)),
        ]
    )


def _sign_again(connection: Connection, old: str, new: str, signer: Signer) -> None:
    """Definitions are signed for the name of their view."""
    sql = "SELECT number, definition, pickled FROM __generations WHERE view = ?1 AND pickled IS NOT NULL"
    for number, definition, signed in connection.rows(sql, [old]).rows():
        data = signer.verified(signed, "view", old, definition)
        if data is not None:
            fresh = signer.sign(data, "view", new, definition)
            connection.run(
                "UPDATE __generations SET pickled = ?3 WHERE view = ?1 AND number = ?2", [old, number, fresh]
            )
