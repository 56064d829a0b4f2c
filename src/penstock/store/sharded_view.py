"""A view of the store whose state is in segments: what the store knows of it, and how its rows get there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from penstock.kernel.plan import Plan, nothing
from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.state.compact import pieces
from penstock.state.layout import FINAL, TOUCHED, Kind, in_place, layouts
from penstock.state.segment import ALL, EncodedRows, HashRange, SegmentFile, encoded
from penstock.state.segment_state import SegmentState, presented
from penstock.state.sharded import ShardedState
from penstock.state.sorted_rows import SortedRows
from penstock.store.connection import BATCH, Connection
from penstock.store.dialect import select
from penstock.store.encode import loaded_frame
from penstock.store.segments import list_segments, replace_segments
from penstock.store.tables import Layout
from penstock.store.views import afresh, kept_columns

#: The number of batches of rows that are moved together, into one segment.
_TOGETHER: Final = 3


@dataclass(frozen=True, kw_only=True)
class ShardedView(ShardedState):
    """A view with its segments, as the last commit left them. All windows that end up to `closed` are final."""

    plan: Plan
    closed: Instant = -FOREVER

    def state(self, shard: HashRange = ALL) -> SegmentState:
        """Its rows, for the kernel."""
        return SegmentState(self.plan, self.root, self.segments, closed=self.closed, shard=shard)

    def columns(self, kind: Kind) -> set[str]:
        """The columns that its segments of a kind have."""
        rows = SortedRows(self.root, layouts(self.plan)[kind], self.segments)
        return {name for segment in rows.mapped() for name in segment.columns}

    @property
    def is_current(self) -> bool:
        """Whether its segments have the columns of its definition."""
        had = self.columns("rows")
        return not had or (TOUCHED in had) == self.plan.forgets

    @property
    def rows(self) -> int:
        """Rows in segments, with versions that newer ones replaced."""
        return sum(segment.rows for segment in self.segments if segment.kind in ("rows", "final"))

    @property
    def bytes(self) -> int:
        return sum(segment.length for segment in self.segments)


def move_to_segments(connection: Connection, layout: Layout, root: str, shards: int, token: int) -> ShardedView:
    """Moves a view's rows out of its tables, in the transaction of the caller. Readers of the tables get an error."""
    with SegmentFile(root, f"{token}-moved-{uuid.uuid4().hex}.arrow") as file:
        for rows in moved_rows(connection, layout, 1):
            file.add(rows)
        segments = file.close()
    list_segments(connection, segments)
    connection.script(layout.drop_tables())
    return ShardedView(layout.name, root, shards, tuple(segments), plan=layout.plan)


def rewritten(connection: Connection, view: ShardedView, restarts: bool, token: int, now: Instant) -> ShardedView:
    """The view with all windows rewritten, because its definition has other columns of state now. Values stay.

    If it fires otherwise (`restarts`), open windows get a fresh firing state. If it forgets keys now and did not
    before, they count as touched at its watermark, or now.
    """
    (watermark,) = connection.rows("SELECT watermark FROM __views WHERE name = ?1", [view.name]).row(0)
    watermark = BEGINNING if watermark is None else watermark
    plan, run = view.plan, view.next_run
    replaced = [segment for segment in view.segments if segment.kind in ("rows", "final")]
    if plan.merging and not plan.retracting:
        replaced += [segment for segment in view.segments if segment.kind == "ghosts"]
    touched = now if watermark <= BEGINNING else watermark
    with SegmentFile(view.root, f"{token}-rewritten-{uuid.uuid4().hex}.arrow") as file:
        for kind in [kind for kind in layouts(plan) if kind in ("rows", "final")]:
            for shard in pieces([segment for segment in replaced if segment.kind == kind]):
                live, final = _kept(view, kind, shard, restarts, touched)
                if restarts and live.height:
                    live = afresh(plan, live, watermark, now)
                for rows, is_final in ((live, False), (final, True)):
                    lacking = [
                        pl.lit(None, type).alias(name)
                        for name, type in plan.state_schema.items()
                        if name not in rows.columns
                    ]
                    whole = rows.with_columns(lacking).select(*plan.state_schema)
                    file.add(encoded(view.name, layouts(plan)[kind], run, presented(plan, whole, final=is_final)))
        added = file.close()
    replace_segments(connection, replaced, added, now)
    return view.changed(added, replaced)


def _kept(
    view: ShardedView, kind: Kind, shard: HashRange, restarts: bool, touched: Instant
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The open and the final rows of one kind, with the columns that keep their meaning."""
    plan, layout = view.plan, layouts(view.plan)[kind]
    had = view.columns(kind)
    names = kept_columns(plan) if restarts else list(plan.state_schema)
    known = {name: plan.state_schema[name] for name in names if name in had}
    layout = replace(layout, schema={**known, FINAL: pl.Boolean()})
    rows = SortedRows(view.root, layout, view.segments, shard).all()
    if plan.forgets and TOUCHED not in had:
        rows = rows.with_columns(pl.lit(touched, pl.Int64).alias(TOUCHED))
    return rows.filter(~pl.col(FINAL)).drop(FINAL), rows.filter(FINAL).drop(FINAL)


def moved_rows(connection: Connection, layout: Layout, run: int) -> Iterator[EncodedRows]:
    """The rows of a view's tables, as segments."""
    plan, kinds = layout.plan, layouts(layout.plan)
    for final in (False, True):
        kind: Kind = "final" if final and not in_place(plan) else "rows"
        for rows in _chunks(connection, layout, final):
            yield encoded(layout.name, kinds[kind], run, presented(plan, rows, final=final))
    if plan.merging:
        columns = select(list(layout.stored_ghosts.values()))
        ghosts = connection.rows(f"SELECT {columns} FROM {layout.ghosts}")
        if ghosts.height:
            yield encoded(layout.name, kinds["ghosts"], run, loaded_frame(ghosts, plan.ghost_schema))
    if "seen" in kinds:
        yield encoded(layout.name, kinds["seen"], run, _seen(connection, layout))


def _chunks(connection: Connection, layout: Layout, final: bool) -> Iterator[pl.DataFrame]:
    plan = layout.plan
    schema = {**plan.value_schema, "__index": pl.Int64()} if final else plan.state_schema
    columns = select([layout.stored[name] for name in schema])
    after = ""
    bound: list[object] = []
    frames: list[pl.DataFrame] = []
    while True:
        # Fewer than a batch: the answer of more rows is asked for twice.
        rows = connection.rows(
            f"SELECT {columns}, __end AS __e, __start AS __s, __key AS __k FROM {layout.table} "
            f"WHERE final = {int(final)}{after} ORDER BY __end, __start, __key LIMIT {BATCH - 1}",
            bound,
        )
        if rows.height:
            bound = list(rows.select("__e", "__s", "__k").row(-1))
            after = " AND (__end, __start, __key) > (?1, ?2, ?3)"
            frame = loaded_frame(rows.drop("__e", "__s", "__k"), schema)
            lacking = [pl.lit(None, kind).alias(name) for name, kind in plan.state_schema.items() if name not in schema]
            frames.append(frame.with_columns(lacking).select(*plan.state_schema))
        is_last = rows.height < BATCH - 1
        if frames and (is_last or len(frames) == _TOGETHER):
            yield pl.concat(frames)
            frames.clear()
        if is_last:
            return


def _seen(connection: Connection, layout: Layout) -> pl.DataFrame:
    """How many elements each key had. The table has keys as bytes only: the rows of the view name them."""
    plan = layout.plan
    counts = connection.rows(f"SELECT __key, __seen FROM {layout.seen}")
    schema = {**plan.key_types, "__seen": pl.Int64()}
    if not counts.height:
        return nothing(schema)
    if not plan.keys:
        return counts.select(pl.col("__seen").cast(pl.Int64))
    columns = select([layout.stored[name] for name in plan.keys])
    named = connection.rows(f"SELECT {columns}, max(__key) AS __k FROM {layout.table} GROUP BY __key, {columns}")
    keys = loaded_frame(named.drop("__k"), plan.key_types).with_columns(named["__k"].cast(pl.Binary).alias("__key"))
    both = keys.join(counts.cast({"__key": pl.Binary, "__seen": pl.Int64}), on="__key")
    return both.select(*schema)
