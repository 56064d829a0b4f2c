"""The past as live saw it: each row judged by the watermark in force when its commit began, as recorded then.

Up to the point of the view's last generation no row is late; after it a row missed the windows that had closed. Where
windows do not merge, a row's fate is its own. Where they do, it depends on what came before: keys with a row that may
have been late are stepped commit by commit, all others at once. Of a key that was forgotten what came since counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import polars as pl

from penstock.history.batch.reading import Reading
from penstock.history.batch.tasks import Combine, PastJob, PastTask, Pieces
from penstock.kernel.exact import answered, as_past, has_pairs
from penstock.kernel.fire import Time
from penstock.kernel.memory import Memory
from penstock.kernel.merge import widen
from penstock.kernel.plan import END, START, Plan, nothing
from penstock.kernel.reduce import closing_bound, combine, combine_by, reduce
from penstock.kernel.step import Change, advance, step
from penstock.model.stream import WithTime
from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.model.windows import CountBased
from penstock.runtime.epoch.job import Job, task_number
from penstock.store.reader import Reader

_COMMIT: Final = "__commit"
#: A task combines what it has after this many batches.
_COMBINE_EVERY: Final = 8


@dataclass(frozen=True)
class Decisions:
    """What time decided for a view: by commit after `point`, the watermarks before and after it, and the clock.

    `marks` has the columns `__commit`, `before`, `after` and `now`, in order. `forgotten`: of a view that forgets keys,
    those that nothing has touched since then are gone.
    """

    point: int
    marks: pl.DataFrame
    forgotten: Instant | None = None

    @classmethod
    def of(cls, reader: Reader, view: str, sources: Collection[str], point: int, through: int) -> Decisions:
        """Those that the store has recorded."""
        times = reader.times_of(view, sources, point, through)
        marks = times.select(pl.col("commit").alias(_COMMIT), "before", "after", "now")
        return cls(point, marks, reader.forgotten_before().get(view))


class LiveTask(PastTask):
    """A task that leaves out of each window what came too late for it."""

    def __init__(self, job: Job, number: int, decisions: Decisions) -> None:
        super().__init__(job, number)
        (self._plan,) = job.sharing.plans
        bounds = [closing_bound(self._plan, mark) for mark in decisions.marks["before"]]
        self._marks = decisions.marks.select(_COMMIT, "before").with_columns(
            pl.Series("__bound", bounds, dtype=pl.Int64)
        )
        self._point = decisions.point
        self._retimed = any(isinstance(step, WithTime) for branch in self._plan.branches for step in branch.steps)
        self.windowed: list[pl.DataFrame] = []

    def take(self, frame: pl.DataFrame) -> None:
        rows = self.accepted(frame).rows
        if _COMMIT in rows.columns:
            rows = rows.join(self._marks, on=_COMMIT, how="left")
        else:  # DataFrame code has made them; that is judged only where no row was late
            rows = rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in (_COMMIT, "before", "__bound"))
        by_commit = self._plan.merging or self._plan.forgets
        self.windowed += self._by_commits(rows) if by_commit else self._by_watermarks(rows)
        if len(self.windowed) >= _COMBINE_EVERY:
            self.windowed = [joined(self._plan, self.windowed)]
        for frames in self.refused.values():
            frames.clear()

    def _by_watermarks(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Rows that no window had closed for go together, whatever commit brought them."""
        early = pl.lit(True) if self._retimed else pl.col("__at") < pl.col("__bound")
        suspect = (pl.col("__bound").is_not_null() & early).fill_null(False)
        # Up to the point a batch aggregate has answered: where there is one, those rows are reduced apart.
        past = (pl.col(_COMMIT) <= self._point).fill_null(False) & has_pairs(self._plan)
        frames = [
            as_past(self._plan, self._reduced_at(rows.filter(past), BEGINNING)),
            self._reduced_at(rows.filter(~past & ~suspect), BEGINNING),
        ]
        for (before,), part in rows.filter(suspect).partition_by("before", as_dict=True).items():
            frames.append(self._reduced_at(part, int(before)))
        return [frame for frame in frames if frame.height]

    def _reduced_at(self, rows: pl.DataFrame, before: Instant) -> pl.DataFrame:
        plan, source = self._plan, self.job.sharing.source
        if not rows.height:
            return nothing(windowed_schema(plan))
        deltas = reduce(plan, source, rows.drop("before", "__bound"), before).deltas
        return widen(plan, deltas, before).select(*windowed_schema(plan))

    def _by_commits(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Deltas with the commit that brought them; those up to the point count as one."""
        rows = rows.with_columns(pl.when(pl.col("before").is_not_null()).then(_COMMIT).otherwise(0).alias(_COMMIT))
        frames = []
        for (commit, before), part in rows.partition_by(_COMMIT, "before", as_dict=True).items():
            # Which of a key's rows count is known when all are together.
            mark = BEGINNING if before is None or self._plan.forgets else int(before)
            deltas = reduce(self._plan, self.job.sharing.source, part.drop("before", "__bound"), mark).deltas
            if before is None and self._point:
                deltas = as_past(self._plan, deltas)
            frames.append(deltas.with_columns(pl.lit(commit, pl.Int64).alias(_COMMIT)))
        return [frame for frame in frames if frame.height]


def windowed_schema(plan: Plan) -> dict[str, pl.DataType]:
    """The columns of deltas that know their windows."""
    return {**plan.delta_schema, START: pl.Int64(), END: pl.Int64()}


def joined(plan: Plan, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Deltas of several batches as one; by commit where windows merge or keys are forgotten."""
    frame = pl.concat(frames)
    if plan.forgets:
        return combine_by(plan, frame, [*plan.keys, START, *plan.position, _COMMIT]).select(frame.columns)
    return frame if plan.merging else combine_by(plan, frame, [*plan.keys, START, END]).select(frame.columns)


@dataclass(frozen=True)
class LiveJob(PastJob):
    """The reduction of a part of the past as live saw it."""

    decisions: Decisions | None = None

    def _task(self) -> PastTask:
        assert self.decisions is not None
        return LiveTask(self.job, task_number(), self.decisions)

    def _deltas(self, task: PastTask) -> pl.DataFrame | None:
        assert isinstance(task, LiveTask)
        return joined(self.job.sharing.plans[0], task.windowed) if task.windowed else None


class LiveReading(Reading):
    """One view's past, as live saw it. Count windows know no lateness: theirs is the plain past."""

    decisions: Decisions

    @property
    def _by_commit(self) -> bool:
        return True

    def _work(self, job: Job, pieces: Pieces | None) -> PastJob:
        if isinstance(self.plan.view.windows, CountBased):
            return super()._work(job, pieces)
        return LiveJob(job, self._parts, pieces, self.decisions)

    @property
    def _combined(self) -> Combine:
        return partial(combine if isinstance(self.plan.view.windows, CountBased) else joined, self.wide)

    def _as_past(self, deltas: pl.DataFrame) -> pl.DataFrame:
        """The tasks have told the rows apart, but for count windows, whose elements say which commit brought them."""
        if not isinstance(self.plan.view.windows, CountBased):
            return deltas
        return as_past(self.plan, deltas, pl.col("__source") <= self.decisions.point)

    def states(self, watermark: Instant, now: Instant) -> Iterator[Change]:
        """The view's windows as they must stand, open and closed, part by part; each key is in one of them."""
        for sent in self.parts():
            for change in self._stood(self._combined(sent), _time(BEGINNING, watermark, now)):
                yield answered(self.wide, self.plan, change)

    def _stood(self, deltas: pl.DataFrame, end: Time) -> Iterator[Change]:
        plan = self.wide
        if isinstance(plan.view.windows, CountBased):
            yield step(plan, [deltas], Memory(plan), end)
        elif plan.forgets:
            counted = self._remembered(deltas, end.after)
            yield step(plan, [counted], Memory(plan), _time(BEGINNING, BEGINNING, end.now))
        elif not plan.merging:
            yield advance(plan, deltas, Memory(plan), end)
        else:
            yield from self._merged(deltas, end)

    def _remembered(self, deltas: pl.DataFrame, watermark: Instant) -> pl.DataFrame:
        """What counts of the keys that are left: of each the commits since it was last forgotten, without late rows.

        A commit finds its key forgotten if all that came before it is older than the retention. What was late then was
        older still, so that it does not matter that it is looked at here as well. After the end of input nothing
        becomes old: only the first commit of a key may find it forgotten, and none is late.
        """
        plan, marks = self.wide, self.decisions.marks

        def bound(mark: Instant) -> Instant | None:
            return plan.view.forgotten_before(before_end(plan, mark, self.decisions.forgotten))

        bounds = pl.Series("__bound", [bound(mark) for mark in marks["before"]], dtype=pl.Int64)
        ended = (pl.col("before") == FOREVER).alias("__ended")
        commits = deltas.group_by(*plan.keys, _COMMIT).agg(pl.col("__touched").max())
        commits = commits.join(marks.select(_COMMIT, bounds, ended), on=_COMMIT, how="left").sort(_COMMIT)
        commits = commits.with_columns(pl.col("__ended").fill_null(False))
        before = pl.col("__touched").cum_max().shift(1).over(plan.keys)
        again = pl.col("__ended") & (pl.col("__ended").cum_sum().over(plan.keys) > 1)
        begins = before.is_null() | (~again & (before < pl.col("__bound")).fill_null(False))
        commits = commits.with_columns(begins.alias("__begins"))
        first = pl.col(_COMMIT).filter(pl.col("__begins")).max().over(plan.keys)
        late = pl.col("__begins") & ~pl.col("__ended") & (pl.col("__touched") < pl.col("__bound")).fill_null(False)
        commits = commits.filter((pl.col(_COMMIT) >= first) & ~late)
        last = bound(watermark)
        if last is not None:
            recent = pl.col("__touched").max().over(plan.keys) >= last
            commits = commits.filter(recent | pl.col("__ended").any().over(plan.keys))
        counted = deltas.join(commits, on=[*plan.keys, _COMMIT], how="semi", nulls_equal=True).drop(_COMMIT)
        return combine(plan, [counted, counted.clear()])

    def _merged(self, deltas: pl.DataFrame, end: Time) -> Iterator[Change]:
        """Keys of which no row can have been late at once, the others commit by commit."""
        plan, marks = self.wide, self.decisions.marks
        bounds = marks.select(
            _COMMIT, pl.Series("__bound", [closing_bound(plan, mark) for mark in marks["before"]], dtype=pl.Int64)
        )
        late = deltas.join(bounds, on=_COMMIT).filter(pl.col(START) <= pl.col("__bound"))
        if plan.keys:
            suspect = late.select(plan.keys).unique()
            quiet = deltas.join(suspect, on=plan.keys, how="anti", nulls_equal=True)
            deltas = deltas.join(suspect, on=plan.keys, how="semi", nulls_equal=True)
        else:
            quiet, deltas = (deltas.clear(), deltas) if late.height else (deltas, deltas.clear())
        if quiet.height:
            yield step(plan, [quiet.drop(_COMMIT)], Memory(plan), end)
        if deltas.height:
            yield self._stepped(deltas, end)

    def _stepped(self, deltas: pl.DataFrame, end: Time) -> Change:
        plan, state = self.wide, Memory(self.wide)
        closed: list[pl.DataFrame] = []

        def take(deltas: list[pl.DataFrame], time: Time) -> Change:
            change = step(plan, deltas, state, time)
            state.apply(change)
            closed.append(change.closed)
            return change

        by_commit = deltas.partition_by(_COMMIT, as_dict=True, include_key=False)
        first = by_commit.pop((0,), None)
        if first is not None:
            take([first], _time(BEGINNING, BEGINNING, end.now))
        reached = BEGINNING
        for commit, before, after, now in self.decisions.marks.iter_rows():
            own_deltas = by_commit.get((commit,))
            if own_deltas is not None:
                take([], _time(reached, before, now))
                take([own_deltas], _time(before, after, now))
                reached = after
        last = take([], _time(reached, end.after, end.now))
        return replace(last, live=state.live, closed=pl.concat(closed))


def before_end(plan: Plan, watermark: Instant, forgotten: Instant | None) -> Instant:
    """The watermark by which keys are forgotten: at the end of input, the last one before it."""
    retention = plan.view.retention
    if watermark < FOREVER or not plan.forgets or retention is None:
        return watermark
    return BEGINNING if forgotten is None else forgotten + retention


def _time(before: Instant, after: Instant, now: Instant) -> Time:
    return Time(before, after, now, lambda _: after)
