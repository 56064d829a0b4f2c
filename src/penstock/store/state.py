"""A view's state in SQL, for the kernel: hands out the rows that a commit touches, and puts back what it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import polars as pl

from penstock.kernel.fire import Time, percents, shows
from penstock.kernel.keys import encoded
from penstock.kernel.plan import END, START, nothing
from penstock.kernel.stack import VIEW, Stack
from penstock.kernel.step import Change
from penstock.model.time import END as FOREVER
from penstock.state.segment_state import due_time
from penstock.store.connection import Connection
from penstock.store.dialect import quoted, select
from penstock.store.encode import loaded_frame, stored_frame
from penstock.store.present import shown
from penstock.store.tables import TOUCHED, Layout

_PLACE = (END, START, "__key")
_AT = "final = 0 AND __end = ?1 AND __start = ?2 AND __key = ?3"


class SqlState:
    """What `kernel.step` asks for. `read` gives the writer's connection to one thread at a time."""

    def __init__(
        self, layout: Layout, connection: Connection, read: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        self.layout, self.plan = layout, layout.plan
        #: All windows that end up to here are final.
        self.closed = -FOREVER
        self._connection, self._read = connection, read
        columns = select(list(layout.stored.values()))
        self._open = f"SELECT {columns} FROM {layout.table} WHERE final = 0"
        by_key, by_due = layout.dialect.by_index(layout.key_index), layout.dialect.by_index(layout.due_index)
        self._by_key = f"SELECT {columns} FROM {layout.table}{by_key} WHERE final = 0"
        self._by_due = f"SELECT {columns} FROM {layout.table}{by_due} WHERE final = 0"
        by_touched = layout.dialect.by_index(layout.touched_index)
        self._by_touched = f"SELECT {columns} FROM {layout.table}{by_touched} WHERE final = 0"

    def at(self, windows: pl.DataFrame) -> pl.DataFrame:
        """The stored rows of these windows."""
        return self._rows(
            f"{self._open} AND __end = ?1 AND __start = ?2 AND __key = ?3", self._places(windows.unique())
        )

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """All stored rows of these keys."""
        if not keys.width:
            return self._rows(self._open)
        by_key = self._by_key if self.plan.merging else self._open
        return self._rows(f"{by_key} AND __key = ?1", encoded(keys).alias("__key").to_frame())

    def ghosts_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The ghosts of these keys."""
        if not self.plan.merging:
            return nothing(self.plan.ghost_schema)
        sql = f"SELECT {select(list(self.layout.stored_ghosts.values()))} FROM {self.layout.ghosts}"
        rows = self._fetch(f"{sql} WHERE __key = ?1", _keys(keys))
        return loaded_frame(rows, self.plan.ghost_schema) if rows.height else nothing(self.plan.ghost_schema)

    def seen_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """How many elements these keys had."""
        encoded_keys = _keys(keys)
        rows = self._fetch(f"SELECT __key, __seen FROM {self.layout.seen} WHERE __key = ?1", encoded_keys)
        if not rows.height:
            return nothing({**self.plan.key_types, "__seen": pl.Int64()})
        rows = rows.cast({"__key": pl.Binary, "__seen": pl.Int64})
        if not keys.width:
            return rows.select("__seen")
        return keys.with_columns(encoded_keys["__key"]).join(rows, on="__key").select(*keys.columns, "__seen")

    def due(self, time: Time) -> pl.DataFrame:
        """What `kernel.fire.due` selects, by the table's order and the indexes of `__due` and `__touched`."""
        waking = f"{self._by_due} AND __due <= {time.now}"
        forgotten = self.plan.view.forgotten_before(time.after)
        if forgotten is not None:
            old = f"{self._by_touched} AND {quoted(TOUCHED)} < {forgotten}"
            return self._rows(f"{old} UNION ALL {waking} AND {quoted(TOUCHED)} >= {forgotten}")
        if not self.plan.view.windows.ends_in_event_time:
            return self._rows(waking)
        beyond = f"{self._open} AND __end > {self.closed}"
        closed = max(time.after - self.plan.view.lateness, -FOREVER)
        furthest = max([time.after, *map(time.reached, percents(self.plan.view.firing))])
        passed = max(time.before, closed)
        place = f"(__end <= {closed} OR (__end > {passed} AND __end <= {furthest}))"
        return self._rows(
            f"{beyond} AND __end <= {closed} "
            f"UNION ALL {self._open} AND __end > {passed} AND __end <= {furthest} "
            f"UNION ALL {waking} AND NOT {place}"
        )

    def open_rows(self, limit: int) -> pl.DataFrame | None:
        """All open windows; None if there are more than `limit`."""
        rows = self._rows(f"{self._open} AND __end > {self.closed} LIMIT {limit + 1}")
        return rows if rows.height <= limit else None

    def table(self) -> pl.DataFrame:
        """The value state of all windows, open and final, with `final`."""
        columns = select([self.layout.stored[name] for name in self.plan.value_schema])
        frames = [
            loaded_frame(rows, self.plan.value_schema).with_columns(pl.lit(bool(final)).alias("final"))
            for final in (0, 1)
            if (rows := self._fetch(f"SELECT {columns} FROM {self.layout.table} WHERE final = {final}", None)).height
        ]
        return pl.concat(frames) if frames else nothing({**self.plan.value_schema, "final": pl.Boolean()})

    def _rows(self, sql: str, bound: pl.DataFrame | None = None) -> pl.DataFrame:
        rows = self._fetch(sql, bound)
        return loaded_frame(rows, self.plan.state_schema) if rows.height else nothing(self.plan.state_schema)

    def _fetch(self, sql: str, bound: pl.DataFrame | None) -> pl.DataFrame:
        with self._read() as connection:
            return connection.rows(sql) if bound is None else connection.rows_of(sql, bound)

    def _places(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Where windows lie in the table, in its order."""
        return placed(windows, self.plan.keys)

    # what a commit changes; the caller ends the transaction

    def apply(self, change: Change) -> None:
        """Replaces what a commit has changed."""
        if not self.layout.in_place or self.plan.forgets:
            self._connection.remove(self.layout.table, _AT, self._gone(change))
        put(self._connection, self.layout, change.live, final=False)
        put(self._connection, self.layout, change.closed, final=True)
        if self.plan.merging:
            self._apply_ghosts(change)
        if change.seen.height:
            counts = change.seen.select(_all_keys(change.seen.select(self.plan.keys), change.seen.height), "__seen")
            conflict = "ON CONFLICT (__key) DO UPDATE SET __seen = excluded.__seen"
            self._connection.put(self.layout.seen, counts, columns=counts.columns, conflict=conflict)

    def _gone(self, change: Change) -> pl.DataFrame:
        """The places of open windows that are no more. Those that live on are overwritten."""
        if self.plan.forgets:
            by = change.taken.columns
            return self._places(change.taken.join(change.live, on=by, how="anti", nulls_equal=True))
        if not self.plan.merging:
            return self._places(change.closed)
        places_taken, live = self._places(change.taken), self._places(change.live)
        return places_taken.join(live, on=_PLACE, how="anti", maintain_order="left") if live.height else places_taken

    def _apply_ghosts(self, change: Change) -> None:
        table, keys = self.layout.ghosts, self.plan.keys
        gone = placed(change.ghosts_taken, keys, "__shown")
        where = f"__key = ?3 AND {quoted(':__end')} = ?1 AND {quoted(':__start')} = ?2 AND {quoted(':__shown')} = ?4"
        self._connection.remove(table, where, gone)
        if change.ghosts.height:
            columns = self.layout.stored_ghosts
            rows = stored_frame(change.ghosts, columns)
            rows = rows.insert_column(0, _all_keys(change.ghosts.select(keys), change.ghosts.height))
            self._connection.put(table, rows, columns=rows.columns)


def put(connection: Connection, layout: Layout, frame: pl.DataFrame, final: bool) -> None:
    """Writes rows of state with what they present. Of final rows' firing state only the number of panes is kept."""
    if frame.height:
        rows, values = _prepared(layout, frame, final)
        _insert(connection, layout, rows.sort(_PLACE), rows.columns, values, final)


def apply_stack(connection: Connection, stack: Stack, layouts: Sequence[Layout], change: Change) -> None:
    """Replaces what a commit has changed in views that took their steps together."""
    for frame, final in ((change.live, False), (change.closed, True)):
        if not frame.height:
            continue
        rows, values = _prepared(layouts[0], frame, final)
        names = rows.columns
        rows = rows.with_columns(frame[VIEW]).sort(VIEW, *_PLACE)
        parts = rows.partition_by(VIEW, as_dict=True, include_key=False, maintain_order=True)
        for (number,), part in parts.items():
            layout = layouts[number]
            own = dict(zip(layouts[0].columns, layout.columns, strict=True))
            _insert(connection, layout, part, [own.get(name, name) for name in names], values, final)


def _prepared(layout: Layout, frame: pl.DataFrame, final: bool) -> tuple[pl.DataFrame, list[str]]:
    """Rows as the table has them, and what is written for each of its columns.

    SQLite takes NaN for null: there, a further column says where one is.
    """
    plan = layout.plan
    schema = [*plan.value_schema, "__index"] if final else list(plan.state_schema)
    rows = stored_frame(frame, {name: layout.stored[name] for name in schema})
    shown_rows = [frame[name] for name in plan.keys if layout.stored[name] != name]
    answers, holds = shows(plan, frame, plan.columns)
    shown_rows += [series for series in answers if layout.stored.get(series.name) != series.name]
    key = _all_keys(frame.select(plan.keys), frame.height)
    rows = rows.with_columns(pl.lit(int(final), pl.Int64).alias("final"), key, *map(shown, shown_rows))
    if holds is not None:
        rows = rows.with_columns(holds.cast(pl.Int64))
    if not final:
        rows = rows.with_columns(frame.select(due_time(plan)).to_series())
    names = rows.columns
    values = [f"?{number}" for number in range(1, len(names) + 1)]
    for series in shown_rows:
        if not layout.dialect.finds_nan and series.dtype.is_float() and series.is_nan().any():
            nan = pl.when(series.is_nan()).then(pl.lit("NaN")).alias(f"nan:{series.name}")
            rows = rows.with_columns(nan)
            place = names.index(series.name)
            values[place] = f"coalesce({values[place]}, ?{rows.width})"
    return rows, values


def _insert(
    connection: Connection, layout: Layout, rows: pl.DataFrame, names: Sequence[str], values: Sequence[str], final: bool
) -> None:
    """Writes such rows; open windows that are there already are overwritten."""
    names = list(names[: len(values)])
    connection.put(layout.table, rows, columns=names, values=values, conflict=_conflict(layout, names, final))


def _conflict(layout: Layout, names: Sequence[str], final: bool) -> str:
    if final and not layout.in_place:
        return ""
    # An update leaves the indexes alone whose columns stay as they are; a replacement would not.
    fixed = {"final", *_PLACE, *layout.plan.keys}
    updates = [f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in fixed]
    if layout.in_place:
        # What is final stays so: the table refuses 2 and 3.
        updates.append(f"final = excluded.final + 2 * {layout.table}.final")
        updates += ["__due = NULL"] if final else []
    return f"ON CONFLICT ({layout.order}) DO UPDATE SET {', '.join(updates)}"


def placed(windows: pl.DataFrame, keys: list[str], *more: str) -> pl.DataFrame:
    """The place of windows in a table: end, start, the key as bytes, in this order."""
    rows = windows.select(END, START, *more)
    rows.insert_column(2, _all_keys(windows.select(keys), windows.height))
    return rows.sort(_PLACE)


def _keys(keys: pl.DataFrame) -> pl.DataFrame:
    """Keys as bytes; the one key of a view without keys is empty."""
    return (encoded(keys).alias("__key") if keys.width else pl.Series("__key", [b""])).to_frame()


def _all_keys(keys: pl.DataFrame, height: int) -> pl.Series:
    """The same for each of `count` rows."""
    key = encoded(keys) if keys.width else pl.repeat(b"", height, dtype=pl.Binary, eager=True)
    return key.alias("__key")
