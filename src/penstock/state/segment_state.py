"""A view's state in segments: hands the kernel the rows that a commit touches, and encodes what it changed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from penstock.kernel.fire import Time, percents, shows
from penstock.kernel.plan import END, START, Plan, nothing
from penstock.kernel.step import Change
from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.state.layout import DUE, FINAL, PRESENTED, TOUCHED, VISIBLE, Kind, in_place, layouts
from penstock.state.segment import ALL, EncodedRows, HashRange, Segment, encoded
from penstock.state.sorted_rows import NOTHING_LOOKED_AT, ScanMark, SortedRows


class SegmentState:
    """What `kernel.step` asks for, of the keys of one shard.

    `closed`: all windows that end up to here are final; keys that were touched last before are forgotten. `looked`:
    which rows that were due have been stepped.
    """

    def __init__(
        self,
        plan: Plan,
        root: str,
        segments: Sequence[Segment] = (),
        *,
        closed: Instant = -FOREVER,
        shard: HashRange = ALL,
        looked: ScanMark = NOTHING_LOOKED_AT,
    ) -> None:
        self.plan, self.root, self.segments, self.closed, self.shard = plan, root, tuple(segments), closed, shard
        self._looked = looked
        self.layouts = layouts(plan)
        self._kinds: dict[Kind, SortedRows] = {
            kind: SortedRows(root, layout, segments, shard) for kind, layout in self.layouts.items()
        }

    def kind(self, kind: Kind) -> SortedRows:
        """The rows of one kind."""
        return self._kinds[kind]

    # what the kernel asks

    def at(self, windows: pl.DataFrame) -> pl.DataFrame:
        """The open rows of these windows."""
        return self._open(self._kinds["rows"].lookup(windows.unique()))

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """All open rows of these keys."""
        return self._open(self._kinds["rows"].of(keys))

    def ghosts_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The ghosts of these keys."""
        return self._kinds["ghosts"].of(keys) if "ghosts" in self._kinds else nothing(self.plan.ghost_schema)

    def seen_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """How many elements these keys had."""
        if "seen" in self._kinds:
            return self._kinds["seen"].of(keys)
        return nothing({**self.plan.key_types, "__seen": pl.Int64()})

    def due(self, time: Time) -> pl.DataFrame:
        """What `kernel.fire.due` selects."""
        rows = self._kinds["rows"]
        parts = [rows.due(time.now, self._looked)]
        if (span := self._forgotten(time)) is not None:
            parts.append(rows.touched(*span))
        if self.plan.view.windows.ends_in_event_time:
            parts.append(rows.ending(due_spans(self.plan, self.closed, time)))
        parts = [self._open(part) for part in parts if part.height]
        if len(parts) < 2:
            return parts[0] if parts else nothing(self.plan.state_schema)
        return pl.concat(parts).unique([*self.plan.keys, START, END])

    def due_rows(self, time: Time) -> int:
        """About how many rows `due` would give. It reads indexes only."""
        rows, count = self._kinds["rows"], 0
        spans = due_spans(self.plan, self.closed, time) if self.plan.view.windows.ends_in_event_time else []
        forgotten = self._forgotten(time)
        for segment in rows.mapped():
            count += rows.count_ending(segment, spans)
            if segment.segment.due <= time.now:
                count += len(segment.between(DUE, self._looked.after(segment.segment), time.now))
            if forgotten is not None:
                count += len(segment.between(TOUCHED, forgotten[0] - 1, forgotten[1] - 1))
        return count

    def _forgotten(self, time: Time) -> tuple[Instant, Instant] | None:
        """Keys are forgotten now that were touched last within this span; those before it are gone already."""
        bound = self.plan.view.forgotten_before(time.after)
        return None if bound is None or bound <= self.closed else (self.closed, bound)

    # what others ask

    def open_rows(self, limit: int) -> pl.DataFrame | None:
        """All open windows; None if there are more than `limit`."""
        rows = self._open(self._kinds["rows"].all())
        return rows if rows.height <= limit else None

    def table(self) -> pl.DataFrame:
        """The value state of all windows, open and final, with `final`."""
        columns = [*self.plan.value_schema, FINAL]
        return pl.concat([self._kinds[kind].all().select(columns) for kind in ("rows", "final") if kind in self._kinds])

    def whole(self) -> pl.DataFrame:
        """The state of all windows, open and final, with `final`."""
        columns = [*self.plan.state_schema, FINAL]
        return pl.concat([self._kinds[kind].all().select(columns) for kind in ("rows", "final") if kind in self._kinds])

    def _open(self, rows: pl.DataFrame) -> pl.DataFrame:
        if rows.height and rows[FINAL].any():
            rows = rows.filter(~pl.col(FINAL))
        return rows.select(*self.plan.state_schema)


def due_spans(plan: Plan, closed: Instant, time: Time) -> list[tuple[Instant, Instant]]:
    """Where the windows end that time alone may have made ready; those up to `closed` are final."""
    closes = max(time.after - plan.view.lateness, plan.closed, -FOREVER)
    furthest = max([time.after, *map(time.reached, percents(plan.view.firing))])
    spans = [(closed, closes), (max(time.before, closes), furthest)]
    return [(low, high) for low, high in spans if low < high]


# writing


def encoded_change(owner: str, plan: Plan, change: Change, run: int) -> list[EncodedRows]:
    """What a commit has changed, as segments."""
    by_kind = layouts(plan)
    rows = [presented(plan, change.live, final=False)]
    parts: list[EncodedRows] = []
    gone = _gone(plan, change)
    if in_place(plan):
        rows.append(presented(plan, change.closed, final=True))
    elif change.closed.height:
        parts.append(encoded(owner, by_kind["final"], run, presented(plan, change.closed, final=True)))
    together = pl.concat(rows)
    if together.height or gone.height:
        parts.append(encoded(owner, by_kind["rows"], run, together, gone))
    if plan.merging and (change.ghosts.height or change.ghosts_taken.height):
        unique = change.ghosts.unique(maintain_order=True)
        by = [*plan.keys, START, END, "__shown"]
        removed = change.ghosts_taken.select(by).unique().join(unique, on=by, how="anti", nulls_equal=True)
        parts.append(encoded(owner, by_kind["ghosts"], run, unique, removed))
    if change.seen.height:
        parts.append(encoded(owner, by_kind["seen"], run, change.seen))
    return parts


def _gone(plan: Plan, change: Change) -> pl.DataFrame:
    """The identities of rows that were taken and not put back."""
    by = [*plan.keys, START, END]
    removed = change.taken.select(by)
    if in_place(plan) and not plan.forgets:
        return removed.clear()  # such rows are only replaced
    put_back = change.live.select(by)
    if in_place(plan):
        put_back = pl.concat([put_back, change.closed.select(by)])
    return (
        removed.join(put_back, on=by, how="anti", nulls_equal=True) if removed.height and put_back.height else removed
    )


def presented(plan: Plan, rows: pl.DataFrame, final: bool) -> pl.DataFrame:
    """Rows of state with what readers see of them."""
    answers, holds = shows(plan, rows, plan.columns)
    visible = pl.lit(True) if holds is None else pl.lit(holds)
    if plan.view.signed and not plan.view.has_one_row:
        visible = visible & (pl.col("__rows") != 0)
    due = pl.lit(None, pl.Int64).alias(DUE) if final else due_time(plan)
    answers_renamed = [
        series.alias(column) for series in answers if (column := answer_column(plan, series.name)) != series.name
    ]
    state = rows.select(*plan.state_schema).with_columns(pl.lit(final).alias(FINAL), due, visible.alias(VISIBLE))
    return state.hstack(answers_renamed)


def answer_column(plan: Plan, name: str) -> str:
    """The column of segments that has a view's answer: one of the state, if it has the same values."""
    is_state = plan.view.shown is None and any(part.name == name and part.is_answer for part in plan.columns)
    return name if is_state else PRESENTED + name


def due_time(plan: Plan) -> pl.Expr:
    """The processing time from which a window is worth a look; null if no time alone makes it ready."""
    at = plan.trigger.due()
    timed = ~pl.col("__finished") & (at < FOREVER)
    return pl.when(pl.col("__wake")).then(pl.lit(BEGINNING)).when(timed).then(at).cast(pl.Int64).alias(DUE)
