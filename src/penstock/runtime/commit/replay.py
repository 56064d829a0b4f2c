"""A new operator begins with what the history has of its inputs: commit by commit, in the order of the commits.

Time moves as the rows themselves say. Each commit of the past becomes a commit now, so that a start that is interrupted
goes on where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from penstock.history.events.event_history import EventHistory
from penstock.kernel.admit import admit
from penstock.kernel.elements import elements
from penstock.kernel.plan import PLACE
from penstock.model.changes import Changes
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.watermarks import Tracker
from penstock.runtime.commit.operators import OperatorRuntime
from penstock.runtime.epoch.wire import as_json, refusals
from penstock.state.operator_state import LIVE as LIVE
from penstock.store import Store

_log = logging.getLogger("penstock.runtime")


@dataclass(frozen=True)
class PastCommit:
    """The rows of a past commit for new operators: rows by input, and the watermarks of streams after it.

    `dead` are rows on which a step before an operator fails.
    """

    number: int
    now: Instant
    entering: Mapping[str, list[pl.DataFrame]]
    marks: Mapping[str, Instant]
    dead: Sequence[pl.DataFrame] = ()


class Replay:
    """The past of new operators. They take it together: one that reads another gets its rows in the same commit."""

    def __init__(self, operators: Sequence[OperatorRuntime], store: Store, history: EventHistory) -> None:
        self.operators, self._store, self._history = operators, store, history
        self.names = {operator.name for operator in operators}
        self._sources: dict[str, Stream] = {
            source.name: source
            for operator in operators
            for source in operator.sources
            if source.name not in self.names
        }

    def commits(self, after: int) -> Iterator[PastCommit]:
        """The commits of the past after one, in order. Time begins with the first commit of all."""
        trackers = {
            name: Tracker(source.watermark) for name, source in self._sources.items() if source.watermark is not None
        }
        places = ", ".join(f"?{number + 1}" for number in range(len(self._sources)))
        sql = f'SELECT DISTINCT "commit", now FROM __epochs WHERE stream IN ({places}) ORDER BY "commit"'
        for number, now in self._store.query(sql, [*self._sources]).rows():
            entering: dict[str, list[pl.DataFrame]] = {}
            dead: list[pl.DataFrame] = []
            for name, source in self._sources.items():
                rows = self._history.past(source, number, number - 1).read()
                if not rows.height:
                    continue
                rows = rows.drop("__at", "__commit", strict=False).with_columns(pl.lit(0, pl.Int32).alias("__source"))
                tracker = trackers.get(name)
                admitted = admit(source, rows, now, BEGINNING if tracker is None else tracker.newest)
                if tracker is not None:
                    tracker.advance(admitted.observed, now=now, caught_up=False)
                if number > after:
                    dead += self._enter(source, admitted.rows, entering)
            if number > after:
                yield PastCommit(number, now, entering, {name: one.watermark for name, one in trackers.items()}, dead)

    def _enter(
        self, source: Stream, rows: pl.DataFrame, entering: dict[str, list[pl.DataFrame]]
    ) -> Iterator[pl.DataFrame]:
        """The rows of a stream for the operators that read it; and the rows on which a step fails."""
        for into in (into for operator in self.operators for into in operator.inputs):
            for branch in into.plan.branches:
                if branch.source.name == source.name:
                    made = elements(into.plan, branch, rows)
                    entering.setdefault(into.name, []).append(into.rows(branch, made.good))
                    if made.dead.height:
                        failed = rows.drop("__source").join(made.dead, on=PLACE)
                        text = as_json(failed, source.schema.names).alias("row")
                        yield refusals(source.name, into.stream, failed.with_columns(text))


def replays(
    operators: Iterable[OperatorRuntime], store: Store, history: EventHistory | None
) -> Iterator[tuple[Replay, int]]:
    """What new operators have to read of the past, and after which commit: those together that are equally far.

    `operators` come in an order in which each stands behind those that it reads.
    """
    far: dict[int, list[OperatorRuntime]] = {}
    for operator in operators:
        after = store.operators.of(operator.name).replayed
        if after == LIVE or history is None:
            continue
        beside = {one.name for one in far.get(after, ())}
        if _has_past(operator, beside, history):
            far.setdefault(after, []).append(operator)
        elif not any(isinstance(source, Changes) for source in operator.sources):
            message = "'%s' begins with the next epoch: the history does not have all rows of its inputs"
            _log.warning(message, operator.name)
    for after, several in far.items():
        assert history is not None
        yield Replay(several, store, history), after


def _has_past(operator: OperatorRuntime, beside: Collection[str], history: EventHistory) -> bool:
    """Whether the history has all rows of an operator's inputs, and the kernel alone can read them.

    Those that operators give which are replayed `beside` it come along.
    """
    names = {source.name for source in operator.sources}
    known = all(
        not isinstance(source, Changes) and (source.name in beside or history.has(source))
        for source in operator.sources
    )
    return known and all(plan.sources.keys() <= names for plan in operator.plans)
