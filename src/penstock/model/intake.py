"""The way of one event from its log to a view: its time, its id, the stream's steps, the view's expressions.

An event that fails anywhere on the way is refused with the reason; none is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import DefinitionError, RowError
from penstock.model.aggregates import Monoid, Origin
from penstock.model.aggregates.paired import apart
from penstock.model.commits import DUPLICATE, TOO_OLD, Commit, Event, Rejection, Row
from penstock.model.explode import Explode
from penstock.model.expressions import bind, evaluate
from penstock.model.naming import failing_rows
from penstock.model.order import canonical, key
from penstock.model.row_steps import ORDINAL_BITS, PythonStep, makes_rows, python_rows
from penstock.model.side_tables import SideTable
from penstock.model.storable import OUTSIDE, is_outside, why_not_storable
from penstock.model.stream import Branch, Select, Step, Stream, Where, WithTime, branches
from penstock.model.table import TableJoin, tables
from penstock.model.table_rows import Index
from penstock.model.time import BEGINNING, Instant, show_duration, show_instant
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.watermarks import Observation, PartitionTimes, Punctuated, Tracker, ViewTime, bucket


@dataclass(frozen=True)
class Element:
    """An event as a view takes it: its key, its inputs of windows and aggregates (None: filtered out), its place."""

    event: Event
    key: tuple[object, ...]
    origin: Origin
    sign: int
    window_values: tuple[object, ...]
    aggregate_values: tuple[tuple[object, ...] | None, ...]


class Intake:
    """Admits a commit's events for one view, and holds what that needs: watermark trackers and known ids."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.trackers = {s.name: Tracker(s.watermark) for s in view.input.sources if s.watermark is not None}
        self._ids: dict[str, dict[object, Instant]] = {s.name: {} for s in view.input.sources if s.id is not None}
        self.time = ViewTime(self.trackers)
        self._makes_rows = makes_rows(view.input)
        self._tables = {name: Index(table, ()) for name, table in tables(view.input).items()}

    def admit(self, commit: Commit, refused: list[Rejection]) -> list[Element]:
        """The commit's elements. The trackers move on afterwards, by `advance`."""
        if commit.resumed:
            self.time.resume(commit.now)
        for name, table in tables(self.view.input).items():
            if name in commit.tables:
                self._tables[name] = Index(table, commit.tables[name])
        elements: list[Element] = []
        ways = branches(self.view.input)
        self._observed: dict[str, dict[int, PartitionTimes]] = {name: {} for name in self.trackers}
        self._lateness: dict[str, dict[int, int]] = {name: {} for name in self.trackers}
        order = {source.name: i for i, source in enumerate(self.view.input.sources)}
        for event in sorted(commit.events, key=lambda e: (order[e.stream], e.partition, e.offset)):
            source = self.view.input.sources[order[event.stream]]
            at = self._time(source, event, commit.now, refused)
            if at is None or self._is_refused(source, event, at, refused):
                continue
            for number, branch in enumerate(ways):
                if branch.source.name == event.stream:
                    elements += self._walk(branch, number, event, at, refused)
        return elements

    def advance(self, commit: Commit) -> None:
        """Moves the watermarks by what this commit showed, by the clock, and by what was set from outside."""
        observed = {name: Observation(self._observed[name], self._lateness[name]) for name in self.trackers}
        self.time.advance(observed, commit)

    def _time(self, source: Stream, event: Event, now: Instant, refused: list[Rejection]) -> Instant | None:
        """The event's time, noted for the watermark; None if it is a dead letter."""
        if (reason := why_not_storable(event.row, source.schema)) is not None:
            refused.append(Rejection("dead", event, reason))
            return None
        if source.event_time is None:
            return 0
        try:
            at = evaluate(bind(source.event_time, source.schema), event.row)
            mark = None
            if isinstance(source.watermark, Punctuated):
                mark = evaluate(bind(source.watermark.mark, source.schema), event.row)
        except RowError as error:
            refused.append(Rejection("dead", event, error.message))
            return None
        if at is None:
            refused.append(Rejection("dead", event, "the event time is null"))
            return None
        assert isinstance(at, int)
        if is_outside(at):
            refused.append(Rejection("dead", event, OUTSIDE))
            return None
        if source.max_ahead is not None and at > now + source.max_ahead:
            ahead = show_duration(source.max_ahead)
            refused.append(Rejection("dead", event, f"the event time {show_instant(at)} is more than {ahead} ahead"))
            return None
        if source.name in self.trackers:
            self._observe(source.name, event.partition, at, mark)
        return at

    def _observe(self, name: str, partition: int, at: Instant, mark: object) -> None:
        seen = self._observed[name].get(partition, PartitionTimes(BEGINNING))
        self._observed[name][partition] = seen.merge(PartitionTimes(at, mark if isinstance(mark, int) else None))
        number = bucket(max(0, self.trackers[name].newest - at))
        self._lateness[name][number] = self._lateness[name].get(number, 0) + 1

    def _is_refused(self, source: Stream, event: Event, at: Instant, refused: list[Rejection]) -> bool:
        """Whether the event's id was accepted before, or is too old to know."""
        if source.id is None:
            return False
        try:
            value = evaluate(bind(source.id, source.schema), event.row)
        except RowError as error:
            refused.append(Rejection("dead", event, error.message))
            return True
        if value is None:
            return False
        tracker = self.trackers.get(source.name)
        if tracker is not None and at < tracker.watermark - source.id_horizon:
            refused.append(Rejection("late", event, TOO_OLD))
            return True
        known = self._ids[source.name]
        identity = key(value)
        if identity in known:
            refused.append(Rejection("duplicate", event, DUPLICATE))
            return True
        known[identity] = at
        return False

    def forget_ids(self) -> None:
        """Drops the ids that have left the horizon."""
        for source in self.view.input.sources:
            if source.id is not None and source.name in self.trackers:
                horizon = self.trackers[source.name].watermark - source.id_horizon
                known = self._ids[source.name]
                self._ids[source.name] = {i: at for i, at in known.items() if at >= horizon}

    def _walk(self, branch: Branch, number: int, event: Event, at: Instant, refused: list[Rejection]) -> list[Element]:
        """What the steps of one branch make of the event, as the view's elements. If one fails, the event does."""
        schema: Schema = branch.source.schema
        first = number << ORDINAL_BITS if self._makes_rows else 0
        try:
            sign = 1 if branch.source.sign is None else evaluate(bind(branch.source.sign, schema), event.row)
            if sign not in (1, -1):
                raise RowError(f"the sign must be +1 or -1, and is {sign!r}")
            rows = enumerate(self._made(branch.steps, event.row, at, schema))
            return [
                self._element(event, row, schema, Origin(moment, event.partition, event.offset, first + place), sign)
                for place, (row, moment, schema) in rows
            ]
        except RowError as error:
            refused.append(Rejection("dead", event, error.message))
            return []

    def _made(
        self, steps: Sequence[Step], row: Row, at: Instant, schema: Schema
    ) -> Iterator[tuple[Row, Instant, Schema]]:
        """The rows that steps make of one row, each with its time and its columns; one after the other."""
        if not steps:
            yield row, at, schema
            return
        step, *rest = steps
        for new_row, moment in self._after(step, row, at, schema):
            yield from self._made(rest, new_row, moment, step.schema or schema)

    def _after(self, step: Step, row: Row, at: Instant, schema: Schema) -> Iterable[tuple[Row, Instant]]:
        """The rows that a step makes of one row, each with its time."""
        match step:
            case Where():
                return [(row, at)] if evaluate(bind(step.condition, schema), row) is True else []
            case WithTime():
                return [(row, _moved(evaluate(bind(step.expression, schema), row)))]
            case Select():
                return [({name: evaluate(bind(text, schema), row) for name, text in step.columns}, at)]
            case TableJoin():
                joined = self._tables[step.table.name].find(step, row, schema, at)
                return [] if joined is None else [(joined, at)]
            case Explode():
                values = evaluate(bind(step.expression, schema), row)
                return [({**row, **dict(zip(step.made, elements, strict=True))}, at) for elements in step.rows(values)]
            case PythonStep():
                sides = [SideTable(table, self._tables[table.name]) for table in step.sides]
                return [(new_row, at) for new_row in python_rows(step, row, sides, at)]
        raise DefinitionError(f"{step.label} needs Spark", hint="run it with engine='spark'")

    def _element(self, event: Event, row: Row, schema: Schema, origin: Origin, sign: object) -> Element:
        def value(text: str) -> object:
            return evaluate(bind(text, schema), row)

        view = self.view
        inputs = tuple(
            tuple(value(text) for text in aggregate.inputs)
            if aggregate.where is None or value(aggregate.where) is True
            else None
            for _, aggregate in view.aggregates
        )
        for (_, aggregate), values in zip(view.aggregates, inputs, strict=True):
            for one, own_values in [] if values is None else apart(aggregate, values):
                if isinstance(one, Monoid):
                    with failing_rows(f"the monoid {one.name}"):
                        one.lift(own_values, origin)
        return Element(
            event,
            tuple(canonical(value(text)) for _, text in view.keys),
            origin,
            1 if sign == 1 else -1,
            tuple(value(text) for text in view.windows.inputs),
            inputs,
        )


def _moved(at: object) -> Instant:
    """Another event time."""
    if at is None:
        raise RowError("the event time is null")
    assert isinstance(at, int)
    if is_outside(at):
        raise RowError(OUTSIDE)
    return at
