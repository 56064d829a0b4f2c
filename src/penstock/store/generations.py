"""Generations of a view: one is computed in hidden tables beside the current one, and a transaction swaps it in.

A generation of the same definition is swapped in by its differences: most rows are the same, stay where they are and
keep their firing state. One of another definition takes the place of the old tables. Hidden tables have a name that no
view can have, 'trending~2'; those that a killed process has left are removed when the store is locked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from penstock.kernel.fire import pane_schema
from penstock.kernel.plan import END, OWNER_END, OWNER_START, START, Plan, nothing, shown
from penstock.kernel.reduce import late_schema
from penstock.kernel.stack import place_schema
from penstock.kernel.step import Change
from penstock.kernel.swap import SwapResult, settle, standing
from penstock.model.time import Instant
from penstock.model.windows import CountBased
from penstock.store.catalog import forget, note, note_columns
from penstock.store.connection import Connection
from penstock.store.dialect import quoted, select
from penstock.store.encode import loaded_frame
from penstock.store.entry import GenerationRecord as GenerationRecord
from penstock.store.outbox import drop_panes
from penstock.store.retention import note_retention
from penstock.store.state import put
from penstock.store.tables import Layout, create_ids, drop_view, set_meta

#: What stands between a view's name and the number of a generation in the making.
MARK: Final = "~"

GENERATIONS: Final = """CREATE TABLE IF NOT EXISTS __generations (view TEXT NOT NULL COLLATE NOCASE,
    number INTEGER NOT NULL, kind TEXT NOT NULL, definition TEXT NOT NULL, statement TEXT, pickled BLOB,
    point INTEGER NOT NULL, "commit" INTEGER NOT NULL, now INTEGER NOT NULL, PRIMARY KEY (view, number))
    WITHOUT ROWID"""
#: The kind of a definition that no run from the past has made.
FIRST: Final = "first"
#: The number of generations of a view that are kept.
REMEMBERED: Final = 20

_PLACE: Final = (END, START, "__key")
_ON: Final = " AND ".join(f"o.{name} = n.{name}" for name in _PLACE)


@dataclass(frozen=True)
class Scope:
    """Which windows a generation speaks about: those that meet one of the spans of time; None: all.

    Windows that ended before `oldest` have had their time, in both generations.
    """

    spans: tuple[tuple[Instant, Instant], ...] | None = None
    oldest: Instant | None = None

    def sql(self, row: str) -> str:
        rules = [] if self.oldest is None else [f"{row}.__end >= {self.oldest}"]
        if self.spans is not None:
            met = (f"({row}.__start < {end} AND {row}.__end > {start})" for start, end in self.spans)
            rules.append(f"({' OR '.join(met) or '1 = 0'})")
            if self.spans:  # so that SQLite begins where the first of them does
                rules.insert(0, f"{row}.__end > {min(start for start, _ in self.spans)}")
        return " AND ".join(rules) or "1 = 1"  # TRUE could be a column of the view

    @property
    def holds(self) -> pl.Expr:
        """The same for rows of state."""
        rule = pl.lit(True) if self.oldest is None else pl.col(END) >= self.oldest
        if self.spans is not None:
            met = ((pl.col(START) < end) & (pl.col(END) > start) for start, end in self.spans)
            rule = rule & pl.any_horizontal(pl.lit(False), *met)
        return rule


@dataclass(frozen=True)
class Origin:
    """Where a generation comes from: a kind of run, the commit up to which it was computed, and what made it."""

    kind: str
    point: int
    statement: str | None = None
    pickled: bytes | None = None


@dataclass(frozen=True)
class Difference:
    """How two generations differ: windows that only one has, and those with other values."""

    appear: int = 0
    vanish: int = 0
    change: int = 0
    rows: pl.DataFrame = field(default_factory=pl.DataFrame, compare=False, repr=False)

    @property
    def total(self) -> int:
        return self.appear + self.vanish + self.change

    def summary(self, view: str) -> str:
        """The counts as text."""
        counts = f"{self.change} change, {self.appear} appear, {self.vanish} vanish"
        rest = self.total - self.rows.height
        return f"'{view}' would differ in {self.total} rows: {counts}" + (f"; {rest} are not shown" if rest else "")


def hidden_name(view: str, number: int) -> str:
    return f"{view}{MARK}{number}"


def view_of(hidden: str) -> str:
    """
    >>> view_of("trending~2")
    'trending'
    """
    return hidden.partition(MARK)[0]


def clear(connection: Connection) -> None:
    """Removes what a process that died has left of generations in the making."""
    for table in connection.tables():
        if table.startswith("__view_") and MARK in table:
            connection.script(drop_view(table.removeprefix("__view_"), connection.dialect))


def next_number(connection: Connection, view: str) -> int:
    (last,) = connection.rows("SELECT coalesce(max(number), 1) FROM __generations WHERE view = ?1", [view]).row(0)
    return int(last) + 1


def remember(connection: Connection, view: str, definition: str, origin: Origin, commit: int, now: Instant) -> None:
    """Notes the generation that a view has from here on."""
    connection.run(
        "INSERT INTO __generations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [
            view, next_number(connection, view), origin.kind, definition, origin.statement, origin.pickled,
            origin.point, commit, now,
        ],
    )  # fmt: skip
    connection.run(
        "DELETE FROM __generations WHERE view = ?1 AND number <= "
        "(SELECT max(number) FROM __generations WHERE view = ?1) - ?2",
        [view, REMEMBERED],
    )


def statement_of(connection: Connection, view: str) -> str | None:
    """The statement of a shell that made a view; None where it is the app's own."""
    rows = connection.rows("SELECT statement FROM __catalog WHERE kind = 'view' AND name = ?1", [view])
    return rows["statement"][0] if rows.height else None


def unknown(connection: Connection, definitions: Mapping[str, str]) -> list[str]:
    """The views of which no generation with this definition is remembered."""
    known = set(connection.rows("SELECT view, definition FROM __generations").iter_rows())
    return [view for view, definition in definitions.items() if (view, definition) not in known]


# What differs


def _find(connection: Connection, old: Layout, new: Layout, columns: Iterable[str], scope: Scope) -> None:
    """Notes the places at which two generations differ in these columns, in a table of this connection."""
    on = _ON if old.in_place and new.in_place else f"{_ON} AND o.final = n.final"
    differ = " OR ".join(f"o.{quoted(name)} IS DISTINCT FROM n.{quoted(name)}" for name in ("final", *columns))
    places = "{row}.__end AS __end, {row}.__start AS __start, {row}.__key AS __key, {row}.final AS final"
    both = f"{new.table} n LEFT JOIN {old.table} o ON {on}"
    connection.script(
        [
            "DROP TABLE IF EXISTS __differences",
            "CREATE TEMP TABLE __differences (__end INTEGER, __start INTEGER, __key BLOB, final INTEGER, kind INTEGER)",
            f"INSERT INTO __differences SELECT {places.format(row='n')}, CASE WHEN o.__key IS NULL THEN 0 ELSE 1 END "
            f"FROM {both} WHERE {scope.sql('n')} AND (o.__key IS NULL OR {differ})",
            f"INSERT INTO __differences SELECT {places.format(row='o')}, 2 FROM {old.table} o "
            f"WHERE {scope.sql('o')} AND NOT EXISTS (SELECT 1 FROM {new.table} n WHERE {on})",
        ]
    )


def _rows(connection: Connection, layout: Layout, kinds: str) -> pl.DataFrame:
    """The rows of a generation at the noted places: its state, and `final`."""
    plan = layout.plan
    frames = []
    on = " AND ".join(f"r.{name} = d.{name}" for name in (_PLACE if layout.in_place else ("final", *_PLACE)))
    for final in (0, 1):
        schema = {**plan.value_schema, "__index": pl.Int64()} if final else plan.state_schema
        columns = ", ".join(f"r.{quoted(layout.stored[name])}" for name in schema)
        rows = connection.rows(
            f"SELECT {columns} FROM __differences d {layout.dialect.ordered_join} {layout.table} r ON {on} "
            f"WHERE d.kind IN ({kinds}) AND r.final = {final}"
        )
        if rows.height:
            frame = loaded_frame(rows, schema)
            lacking = [pl.lit(None, kind).alias(name) for name, kind in plan.state_schema.items() if name not in schema]
            frame = frame.with_columns(lacking).select(*plan.state_schema)
            frames.append(frame.with_columns(pl.lit(bool(final)).alias("final")))
    return pl.concat(frames) if frames else nothing({**plan.state_schema, "final": pl.Boolean()})


# The same definition: only what differs changes


def swap_rows(connection: Connection, old: Layout, new: Layout, scope: Scope, watermark: Instant) -> pl.DataFrame:
    """Makes the old generation what the new one is, row by row where they differ; the corrections as panes."""
    plan = old.plan
    values = [old.stored[name] for name in plan.value_schema if old.stored[name] not in _PLACE]
    _find(connection, old, new, values, scope)
    fresh = _rows(connection, new, "0, 1")
    gone = _rows(connection, old, "1, 2")
    settled = settle(plan, fresh, standing(plan, gone), gone, watermark)
    panes = pl.concat([_laid(connection, old), settled.panes]) if plan.merging and plan.retracting else settled.panes
    _write(connection, old, settled, "kind > 0")
    if isinstance(plan.view.windows, CountBased):
        connection.script([f"DELETE FROM {old.seen}", f"INSERT INTO {old.seen} SELECT * FROM {new.seen}"])
    return panes


def _laid(connection: Connection, layout: Layout) -> pl.DataFrame:
    """The ghosts of windows that are no more are taken back with them."""
    plan = layout.plan
    owned = (
        f"EXISTS (SELECT 1 FROM __differences d WHERE d.kind = 2 AND d.__key = {layout.ghosts}.__key "
        f"AND d.__start = {quoted(f':{OWNER_START}')} AND d.__end = {quoted(f':{OWNER_END}')})"
    )
    columns = select(list(layout.stored_ghosts.values()))
    ghosts = connection.rows(f"SELECT {columns} FROM {layout.ghosts} WHERE {owned}")
    if not ghosts.height:
        return nothing(pane_schema(plan))
    connection.run(f"DELETE FROM {layout.ghosts} WHERE {owned}")
    return taken_back_ghosts(plan, loaded_frame(ghosts, plan.ghost_schema))


def taken_back_ghosts(plan: Plan, ghosts: pl.DataFrame) -> pl.DataFrame:
    """The panes that take ghosts back."""
    return ghosts.select(
        *plan.keys, START, END,
        *(pl.col(shown(name)).alias(name) for name in plan.values),
        pl.lit(False).alias("__insert"),
        pl.lit("late").alias("__timing"),
        pl.col("__shown").alias("__index"),
        pl.lit(False).alias("__final"),
    )  # fmt: skip


def _write(connection: Connection, layout: Layout, settled: SwapResult, where: str) -> None:
    """Replaces the rows at the noted places, and forgets these."""
    order = ", ".join(_PLACE if layout.in_place else ("final", *_PLACE))
    connection.script(
        [
            f"DELETE FROM {layout.table} WHERE ({order}) IN (SELECT {order} FROM __differences WHERE {where})",
            "DROP TABLE __differences",
        ]
    )
    put(connection, layout, settled.live.drop("final"), final=False)
    put(connection, layout, settled.closed.drop("final"), final=True)


# Another definition: other tables


def same_face(old: Plan, new: Plan) -> bool:
    """Whether panes of two definitions look alike: same keys, same values, same types."""
    return (
        old.key_names == new.key_names
        and old.values == new.values
        and isinstance(old.view.windows, CountBased) == isinstance(new.view.windows, CountBased)
    )


def swap_tables(
    connection: Connection, old: Layout | None, new: Layout, name: str, watermark: Instant, scope: Scope
) -> pl.DataFrame:
    """Puts a generation in the place of the old tables, if there are some; the corrections as panes.

    Rows of a view that is new, or has other columns now, were shown to nobody.
    """
    plan, panes = new.plan, nothing(pane_schema(new.plan))
    if old is not None and same_face(old.plan, plan):
        panes = _correct(connection, old, new, scope, watermark)
    else:
        unshown = [f"{quoted(':__index')} = 0"] + ([f"{quoted(':__shown')} = NULL"] if plan.retracting else [])
        connection.run(f"UPDATE {new.table} SET {', '.join(unshown)} WHERE {quoted(':__index')} > 0")
        if plan.merging:
            connection.run(f"DELETE FROM {new.ghosts}")
    indexed = [columns for columns, _ in connection.indexes_of(f"__view_{name}")]
    connection.script(drop_view(name, connection.dialect))
    final = Layout(name, plan, connection.dialect)
    moved = [(new.table, final.table)]
    indexes = [new.due_index, *([new.touched_index] if plan.forgets else [])]
    if plan.merging:
        moved.append((new.ghosts, final.ghosts))
        indexes += [new.key_index, new.ghost_index]
    if isinstance(plan.view.windows, CountBased):
        moved.append((new.seen, final.seen))
    connection.script(
        [
            *(f"DROP INDEX {index}" for index in indexes),
            *(f"ALTER TABLE {before} RENAME TO {after}" for before, after in moved),
            *final.create_indexes(),
            *([f"CREATE INDEX {final.ghost_index} ON {final.ghosts} (__key)"] if plan.merging else []),
            *final.create_view(),
            *(line for by in indexed if set(by) <= final.public.keys() for line in final.create_index(by)),
        ]
    )
    return panes


def _correct(connection: Connection, old: Layout, new: Layout, scope: Scope, watermark: Instant) -> pl.DataFrame:
    """Corrections where another definition shows other values; the new rows go on from what they correct."""
    # The number of panes goes on, and so does what they have shown.
    firing = ["__index"]
    if old.plan.retracting and new.plan.retracting:
        firing += ["__shown", *map(shown, new.plan.values)]
    _find(connection, old, new, [*new.plan.values, *(new.stored[name] for name in firing)], scope)
    fresh = _rows(connection, new, "0, 1")
    gone = _rows(connection, old, "1, 2")
    settled = settle(new.plan, fresh, standing(old.plan, gone), None, watermark)
    _write(connection, new, settled, "kind < 2")
    return settled.panes


def note_definition(connection: Connection, old: Layout | None, layout: Layout, statement: str | None) -> None:
    """The definition of a view is this one from here on. With other columns it is another view to subscribers."""
    view = layout.plan.written
    if old is not None and not same_face(old.plan, layout.plan):
        forget(connection, "view", layout.name)
        drop_panes(connection, layout.name)  # panes with other columns
    connection.run(
        "INSERT INTO __views VALUES (?1, ?2, ?3, ?4, ?5, NULL, NULL) ON CONFLICT (name) DO UPDATE SET closed = NULL, "
        "fingerprint = excluded.fingerprint, definition = excluded.definition, firing = excluded.firing, "
        "columns = excluded.columns",
        [layout.name, view.fingerprint(), repr(view), layout.firing, layout.signature],
    )
    connection.run("DELETE FROM __meta WHERE name = 'closed:' || ?1", [layout.name])
    set_meta(connection, f"lateness:{layout.name}", view.lateness)
    note_retention(connection, layout, afresh=True)
    note_columns(connection, layout.name, layout.plan)
    note(connection, "view", layout.name, statement)
    for source in view.input.sources:
        if source.id is not None:
            connection.script(create_ids(source.name))


# What would differ


def compare(connection: Connection, old: Layout, new: Layout, scope: Scope, limit: int) -> Difference:
    """How two generations differ in what people read, with the first rows of it side by side."""
    columns = [name for name in new.plan.values if name in old.plan.values]
    places_differ = old.plan.key_names != new.plan.key_names
    if places_differ:
        (vanish,) = connection.rows(f"SELECT count(*) FROM {old.table}").row(0)
        (appear,) = connection.rows(f"SELECT count(*) FROM {new.table}").row(0)
        return Difference(int(appear), int(vanish), 0)
    _find(connection, old, new, columns, scope)
    if not columns or len(columns) < len(new.plan.values):
        # A column that is new makes every row that both have another one.
        connection.run(
            f"INSERT INTO __differences SELECT n.__end, n.__start, n.__key, n.final, 1 FROM {new.table} n "
            f"WHERE {scope.sql('n')} AND NOT EXISTS (SELECT 1 FROM __differences d WHERE d.__end = n.__end AND "
            "d.__start = n.__start AND d.__key = n.__key)"
        )
    counts = dict(connection.rows("SELECT kind, count(*) FROM __differences GROUP BY kind").iter_rows())
    keys = [f"coalesce(n.{quoted(k)}, o.{quoted(k)}) AS {quoted(k)}" for k in new.plan.keys]
    bounds = [_shown_bound(new, name) for name in ("window_start", "window_end")]
    values = [f"o.{quoted(c)} AS {quoted(f'{c} before')}" for c in old.plan.values]
    values += [f"n.{quoted(c)} AS {quoted(f'{c} after')}" for c in new.plan.values]
    on = "{row}.__end = d.__end AND {row}.__start = d.__start AND {row}.__key = d.__key"
    rows = connection.rows(
        f"SELECT {', '.join([*keys, *bounds, *values])} FROM __differences d "
        f"LEFT JOIN {old.table} o ON {on.format(row='o')} LEFT JOIN {new.table} n ON {on.format(row='n')} "
        f"ORDER BY d.__end, d.__start, d.__key LIMIT {limit}"
    )
    return Difference(int(counts.get(0, 0)), int(counts.get(2, 0)), int(counts.get(1, 0)), rows)


def _shown_bound(layout: Layout, name: str) -> str:
    return f"{layout.public[name].replace('__start', 'd.__start').replace('__end', 'd.__end')} AS {name}"


def with_panes(plan: Plan, panes: pl.DataFrame) -> Change:
    """A change of nothing, which shows these panes."""
    state, place = nothing(plan.state_schema), nothing(place_schema(plan))
    seen = nothing({**plan.key_types, "__seen": pl.Int64()})
    late, ghosts = nothing(late_schema()), nothing(plan.ghost_schema)
    no_rows = nothing({**place_schema(plan), "__shown": pl.Int64()})
    return Change(place, state, state, panes, late, no_rows, ghosts, seen)
