"""Views come and go in the store: made, checked against their definition, migrated to another trigger, dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from penstock.kernel.merge import is_complete, one_row
from penstock.kernel.plan import Plan
from penstock.kernel.triggers import Moment, apply
from penstock.model.naming import valid_name
from penstock.model.time import BEGINNING, Instant
from penstock.model.windows import CountBased
from penstock.store.base import StoreError
from penstock.store.catalog import forget, note, note_columns
from penstock.store.connection import Connection
from penstock.store.dialect import quoted, select
from penstock.store.encode import loaded_frame
from penstock.store.outbox import drop_panes
from penstock.store.retention import note_retention, take_over_touched
from penstock.store.segments import remove_sharding
from penstock.store.state import put
from penstock.store.tables import Layout, create_ids, drop_view, set_meta


def prepare(
    connection: Connection, views: Mapping[str, Plan], statements: Mapping[str, str], sharded: Collection[str]
) -> list[str]:
    """Makes missing tables; a view with another definition is refused, one that fires otherwise is migrated.

    Views whose state is in segments are migrated by the caller: which of them must be.
    """
    stale: list[str] = []
    rows = connection.rows("SELECT name, fingerprint, definition, firing, columns FROM __views").rows()
    known = {row[0].lower(): row for row in rows}
    for name, plan in views.items():
        layout = Layout(name, plan, connection.dialect)
        row = known.get(name.lower())
        if row is None:
            _create(connection, layout)
            view = plan.written
            known[name.lower()] = (name, view.fingerprint(), repr(view), layout.firing, layout.signature)
        elif name in sharded:
            stale += [name] if _check_definition(layout, row) else []
            _note_firing(connection, layout)
        else:
            _take_over(connection, layout, row)
        _note_lateness(connection, name, plan)
        note_retention(connection, layout)
        note_columns(connection, name, plan)
        if name in statements:
            note(connection, "view", name, statements[name])
        for source in plan.streams:
            if source.id is not None:
                connection.script(create_ids(source.name))
    return stale


def _note_lateness(connection: Connection, name: str, plan: Plan) -> None:
    """Remembers the allowed lateness; where it has grown, also how far windows were closed: they stay so."""
    sql = "SELECT value, (SELECT watermark FROM __views WHERE name = ?2) FROM __meta WHERE name = ?1"
    for before, watermark in connection.rows(sql, [f"lateness:{name}", name]).rows():
        if plan.view.lateness > before and watermark is not None and watermark > BEGINNING:
            connection.run(
                "INSERT INTO __meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value "
                "WHERE excluded.value > __meta.value",
                [f"closed:{name}", watermark - before],
            )
    set_meta(connection, f"lateness:{name}", plan.view.lateness)


def drop(connection: Connection, name: str) -> None:
    """Removes a view with its state."""
    if not connection.rows("SELECT 1 FROM __views WHERE name = ?1", [name]).height:
        names = ", ".join(connection.rows("SELECT name FROM __views ORDER BY name")["name"].to_list())
        raise StoreError(f"the store has no view '{name}'", detail=f"there are: {names}" if names else "there are none")
    connection.script(drop_view(name, connection.dialect))
    (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
    remove_sharding(connection, name, now)
    connection.run("DELETE FROM __views WHERE name = ?1", [name])
    forget(connection, "view", name)
    connection.run("DELETE FROM __generations WHERE view = ?1", [name])
    drop_panes(connection, name)  # another view of this name has other panes
    noted = ", ".join(f"'{what}:' || ?1" for what in ("lateness", "closed", "woken", "retention", "retained"))
    connection.run(f"DELETE FROM __meta WHERE name IN ({noted})", [name])


def _create(connection: Connection, layout: Layout) -> None:
    name, view = layout.name, layout.plan.written
    if not valid_name(name) or name.lower().startswith("sqlite_"):
        raise StoreError(
            f"'{name}' cannot be the name of a view",
            hint="use letters, digits and underscores, and neither '__' nor 'sqlite_' in front",
        )
    connection.script(layout.create())
    put(connection, layout, one_row(layout.plan), final=False)
    connection.run(
        "INSERT INTO __views VALUES (?1, ?2, ?3, ?4, ?5, NULL, NULL)",
        [name, view.fingerprint(), repr(view), layout.firing, layout.signature],
    )


def _take_over(connection: Connection, layout: Layout, row: tuple[str, str, str, str, str]) -> None:
    """Goes on with the state of a view that was there before."""
    restarts = _check_definition(layout, row)
    take_over_touched(connection, layout)
    if restarts:
        _migrate(connection, layout)
    if not connection.rows(f"SELECT 1 FROM {layout.table} LIMIT 1").height:
        put(connection, layout, one_row(layout.plan), final=False)
    _note_firing(connection, layout)


def _note_firing(connection: Connection, layout: Layout) -> None:
    connection.run(
        "UPDATE __views SET definition = ?2, firing = ?3 WHERE name = ?1",
        [layout.name, repr(layout.plan.written), layout.firing],
    )


def _check_definition(layout: Layout, row: tuple[str, str, str, str, str]) -> bool:
    """Refuses a view with another definition than its state; whether it only fires otherwise."""
    name, fingerprint, definition, firing, columns = row
    view = layout.plan.written
    if name != layout.name:
        raise StoreError(
            f"the views '{name}' and '{layout.name}' differ in case only", hint="SQL has one of them: rename"
        )
    if fingerprint != view.fingerprint():
        raise StoreError(
            f"the view '{name}' has another definition than its state in the store",
            detail=f"stored: {definition}\n  now:    {view!r}",
            hint=f"compute it by the new definition: penstock replace APP {name}; give it another name; or drop the "
            f"old one: store.drop({name!r})",
        )
    if columns != layout.signature:
        raise StoreError(
            f"the state of '{name}' was written by another version of Penstock",
            detail=f"stored: {columns}\n  now:    {layout.signature}",
            hint=f"compute the view again: store.drop({name!r})",
        )
    return firing != layout.firing


# Another trigger, another accumulation


def _migrate(connection: Connection, layout: Layout) -> None:
    """Rebuilds the view's table: values stay, open windows get a fresh firing state."""
    plan, name = layout.plan, layout.name
    (watermark,) = connection.rows("SELECT watermark FROM __views WHERE name = ?1", [name]).row(0)
    (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
    had = connection.columns_of(f"__view_{name}")
    kept_names = [n for n in kept_columns(plan) if layout.stored[n] in had]
    old, columns = quoted(f"__old_{name}"), select([layout.stored[n] for n in kept_names])
    index_statements = [
        statement for _, statements in connection.indexes_of(f"__view_{name}") for statement in statements
    ]
    live = connection.rows(f"SELECT {columns} FROM {layout.table} WHERE final = 0")
    connection.script(
        [
            *layout.dialect.drop_view(name),
            *(f"DROP INDEX IF EXISTS {index}" for index in (layout.due_index, layout.key_index, layout.touched_index)),
            f"ALTER TABLE {layout.table} RENAME TO {old}",
            *layout.create_table(),
        ]
    )
    both = select([column for column in layout.columns if column in had])
    connection.run(f"INSERT INTO {layout.table} ({both}) SELECT {both} FROM {old} WHERE final = 1")
    connection.script([f"DROP TABLE {old}", *index_statements])
    if live.height:
        rows = loaded_frame(live, {n: plan.state_schema[n] for n in kept_names})
        put(connection, layout, afresh(plan, rows, BEGINNING if watermark is None else watermark, now), final=False)
    if plan.merging and not plan.retracting:
        connection.run(f"DELETE FROM {layout.ghosts}")


def kept_columns(plan: Plan) -> list[str]:
    """The columns of the state that keep their meaning under another trigger."""
    return [n for n in plan.state_schema if n in plan.value_schema or n in ("__new", "__index") or _recorded(n)]


def _recorded(name: str) -> bool:
    """Whether a column says what panes have shown, or have not: it keeps its meaning under another trigger."""
    return name == "__shown" or name.startswith(("shown:", "pending:"))


def afresh(plan: Plan, rows: pl.DataFrame, watermark: Instant, now: Instant) -> pl.DataFrame:
    """Open windows with the firing state that they begin with under a changed trigger or accumulation.

    - `__index` goes on, so that no index comes twice; `__new`, the elements that no pane has shown, stays;
    - the trigger starts as for a new window and then gets those elements; the next commit looks at the window;
    - retracting: the pane that stands stays known if it was recorded; one fired before is never taken back;
    - discarding: what no pane has shown stays known if it was recorded; else the next pane shows everything so far.
    """
    complete = pl.lit(False) if isinstance(plan.view.windows, CountBased) else is_complete(plan, watermark)
    moment = Moment(now, complete, pl.lit(False), lambda percent: pl.lit(False))
    fresh = [plan.trigger.over(moment).alias("__finished"), pl.lit(True).alias("__wake")]
    fresh += [pl.lit(None, column.dtype).alias(name) for name, column in plan.trigger.columns.items()]
    for part, waiting in zip(plan.columns, plan.pending, strict=False):
        pairs = zip(part.fields, waiting.fields, strict=True)
        fresh += [pl.col(name).alias(other) for name, other in pairs if other not in rows.columns]
    known = {*rows.columns, *(column.meta.output_name() for column in fresh)}
    fresh += [pl.lit(None, kind).alias(name) for name, kind in plan.state_schema.items() if name not in known]
    rows = rows.with_columns(fresh)
    rows = rows.with_columns(apply(pl.lit(True), plan.trigger.start(moment)))
    rows = rows.with_columns(apply(pl.col("__new") > 0, plan.trigger.add(pl.col("__new"), now)))
    return rows.select(*plan.state_schema)
