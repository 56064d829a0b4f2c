"""Two streams joined by their keys and times, and the reference of it: the specification.

An event of the left finds events of the right with the same key whose time lies within bounds of its own, and the other
way round, whichever comes first. Events that the watermark has left behind when they come are refused as late; all
others find each other, however the streams are cut into epochs. An event that finds none is given out alone, by an
outer join, once time has passed so far that none can come any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from sqlglot import exp

from penstock.errors import DefinitionError, unknown
from penstock.model.aggregates import last
from penstock.model.commits import Commit, Event, Refused
from penstock.model.expressions import bind, evaluate, parse
from penstock.model.expressions.parse import canonical
from penstock.model.intake import Intake
from penstock.model.stream import Flow, Select, Stream, Transform, Where, WithTime, branches
from penstock.model.table import TableJoin
from penstock.model.time import BEGINNING, Duration, Instant, duration, show_instant
from penstock.model.triggers import each
from penstock.model.types import Schema, is_integer
from penstock.model.view import View
from penstock.model.watermarks import Observation, ViewTime
from penstock.model.windows import Fixed, Window, global_window

HOWS = ("inner", "left", "right", "full")


@dataclass(frozen=True, repr=False)
class StreamJoin:
    """Two flows, what must be equal (an expression of each), and how far apart their times may be.

    `earliest` and `latest` bound the right one's time less the left one's. `window`: both must fall into the same.
    """

    left: Flow
    right: Flow
    on: tuple[tuple[str, str], ...]
    earliest: Duration
    latest: Duration
    how: str = "inner"
    prefix: str = ""
    window: Fixed | None = None

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise unknown("way to join streams", self.how, HOWS)
        if self.earliest > self.latest:
            raise DefinitionError("within goes from the earlier to the later", hint="within=('-1 hour', '0 seconds')")
        for flow in (self.left, self.right):
            check_side(flow)
        for left, right in self.on:
            kinds = [bind(text, flow.schema).type for text, flow in ((left, self.left), (right, self.right))]
            if kinds[0] != kinds[1] and not all(kind is not None and is_integer(kind) for kind in kinds):
                raise DefinitionError(
                    f"«{left}» is {kinds[0]}, and «{right}» is {kinds[1]}",
                    hint=f"cast one of them: CAST({right} AS {str(kinds[0]).upper()})",
                )
        _ = self.schema

    @property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams at the far end of both, each once."""
        found = {source.name: source for flow in (self.left, self.right) for source in flow.sources}
        return tuple(found.values())

    @cached_property
    def columns(self) -> tuple[tuple[str, str, int, str], ...]:
        """What comes out: the name, its type, the side (0, 1, or 2 where both have it), and its name there."""
        assert self.left.schema is not None
        assert self.right.schema is not None
        same = {left for left, right in self.on if left == right and left in self.left.schema}
        found = [(name, kind, 2 if name in same else 0, name) for name, kind in self.left.schema]
        for name, kind in self.right.schema:
            if name in same:
                continue
            chosen = f"{self.prefix}{name}" if name in self.left.schema else name
            if chosen in self.left.schema:
                raise DefinitionError(
                    f"both streams have a column «{name}»", hint="say prefix='right_', or select other names before"
                )
            found.append((chosen, kind, 1, name))
        return tuple(found)

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple((name, kind) for name, kind, _, _ in self.columns))

    def view(self, side: int) -> View:
        """What comes to the join from a side, as the model has it: every column as an input."""
        flow = (self.left, self.right)[side]
        assert flow.schema is not None
        columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(flow.schema.names))
        return View(flow, (), global_window(), columns, each())

    def keys(self, side: int) -> tuple[str, ...]:
        return tuple(pair[side] for pair in self.on)

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __repr__(self) -> str:
        on = " AND ".join(f"{left} = {right}" for left, right in self.on)
        return f"{self.left!r} {self.how} joined with {self.right!r} on {on!r}"


def stream_join(
    left: Flow,
    right: Flow,
    on: str | Sequence[str],
    within: tuple[str, str] | None,
    window: Window | None,
    how: str,
    prefix: str,
) -> StreamJoin:
    """A join of two flows, from what its user says."""
    if (within is None) == (window is None):
        raise DefinitionError(
            "a join of streams says how far apart their events may be, or in which window they meet",
            hint="within=('-1 hour', '0 seconds'), the right one's time less the left one's; or window=ps.fixed('…')",
        )
    for flow in (left, right):
        check_side(flow)
    texts = (on,) if isinstance(on, str) else tuple(on)
    pairs = tuple(pair for text in texts for pair in _pairs(parse(text).tree, left, right))
    if window is not None and not isinstance(window, Fixed):
        raise DefinitionError(f"streams do not meet in {window!r}", hint="window=ps.fixed('10 seconds')")
    if window is not None and how != "inner":
        raise DefinitionError(
            f"a join in windows gives out pairs only, and how={how!r} is more", hint="how='inner', or within=(…, …)"
        )
    if window is not None:
        return StreamJoin(left, right, pairs, -window.size, window.size, how, prefix, window)
    assert within is not None
    earliest, latest = (signed(bound) for bound in within)
    return StreamJoin(left, right, pairs, earliest, latest, how, prefix)


def signed(text: str) -> Duration:
    """A span of time that may lie before.

    >>> signed("-2 seconds")
    -2000000
    """
    said = text.strip()
    return -duration(said[1:].strip()) if said.startswith("-") else duration(said)


def _pairs(tree: exp.Expr, left: Flow, right: Flow) -> Iterator[tuple[str, str]]:
    if isinstance(tree, exp.Paren):
        yield from _pairs(tree.this, left, right)
    elif isinstance(tree, exp.And):
        yield from _pairs(tree.this, left, right)
        yield from _pairs(tree.expression, left, right)
    elif isinstance(tree, exp.EQ):
        one, other = canonical(tree.this), canonical(tree.expression)
        yield (one, other) if _binds(one, left) and _binds(other, right) else (other, one)
    elif isinstance(tree, exp.Column):
        yield canonical(tree), canonical(tree)
    else:
        raise DefinitionError(
            f"«{canonical(tree)}» does not say what of the two streams is equal", hint="write on='ad = ad_id'"
        )


def _binds(text: str, flow: Flow) -> bool:
    return flow.schema is not None and all(name in flow.schema for name in parse(text).columns)


def late_reason(at: Instant, before: Instant) -> str:
    """Why an event is late."""
    return f"its time {show_instant(at)} is behind the watermark {show_instant(before)}"


def check_side(flow: Flow) -> None:
    """Refuses what a join cannot read: its events come from the master, through steps of the kernel."""
    if not flow.has_event_time or any(source.watermark is None for source in flow.sources):
        raise DefinitionError(
            "streams are joined by their times, and one of them has no event time or no watermark",
            hint="say event_time='…' and watermark=ps.bounded('10 seconds') for it",
        )
    for source in flow.sources:
        if source.sign is not None:
            raise DefinitionError(
                f"a join takes no rows back, and the stream «{source.name}» has a sign", hint="leave out sign=…"
            )
    for branch in branches(flow):
        schema: Schema | None = branch.source.schema
        for step in branch.steps:
            if isinstance(step, (Transform, TableJoin)):
                raise DefinitionError(
                    f"{step.label} stands before a join of streams", hint="do it with what the join gives out"
                )
            texts = [text for _, text in step.columns] if isinstance(step, Select) else []
            texts += [step.condition] if isinstance(step, Where) else []
            texts += [step.expression] if isinstance(step, WithTime) else []
            for text in texts:
                if schema is not None and bind(text, schema).outside is not None:
                    raise DefinitionError(
                        f"«{text}» stands before a join of streams, and only Spark can compute it",
                        hint="compute it from what the join gives out",
                    )
            schema = step.schema
        if schema is None:
            raise DefinitionError("the columns that come to the join are not known", hint="select them with casts")


@dataclass
class _Held:
    """An event that waits for others: its key (None where one is null), its time and values; whether it found any."""

    key: tuple[object, ...] | None
    at: Instant
    row: dict[str, object]
    found: bool = False


@dataclass
class Gave:
    """What a commit gave: rows, and events that were refused."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class JoinReference:
    """Runs a join commit by commit, with all events in memory."""

    def __init__(self, join: StreamJoin) -> None:
        self.join = join
        self._intakes = [Intake(join.view(side)) for side in (0, 1)]
        self._time = ViewTime({**self._intakes[0].trackers, **self._intakes[1].trackers})
        self._held: tuple[list[_Held], list[_Held]] = ([], [])

    def commit(self, commit: Commit) -> Gave:
        """One epoch or tick."""
        gave, before = Gave(), self._time.watermark
        observed: dict[str, Observation] = {}
        for side, intake in enumerate(self._intakes):
            names = {source.name for source in intake.view.input.sources}
            mine = Commit(
                commit.now, tuple(event for event in commit.events if event.stream in names), caught_up=commit.caught_up
            )
            for element in intake.admit(mine, gave.refused):
                values = [value[0] if value else None for value in element.aggregate_values]
                self._take(side, element.event, values, element.origin.at, before, gave)
            observed |= {n: Observation(intake._observed[n], intake._lateness[n]) for n in intake.trackers}
        self._time.advance(observed, commit)
        for intake in self._intakes:
            intake.forget_ids()
        self._expire(self._time.watermark, gave)
        return gave

    def _take(self, side: int, event: Event, values: list[Any], at: Instant, before: Instant, gave: Gave) -> None:
        if before > BEGINNING and at < before:
            gave.refused.append(Refused("late", event, late_reason(at, before)))
            return
        schema = (self.join.left, self.join.right)[side].schema
        assert schema is not None
        row = dict(zip(schema.names, values, strict=True))
        key = tuple(evaluate(bind(text, schema), row) for text in self.join.keys(side))
        mine = _Held(None if None in key else key, at, row)
        for other in self._held[1 - side]:
            pair = (mine, other) if side == 0 else (other, mine)
            if mine.key is not None and mine.key == other.key and self._meet(*pair):
                mine.found = other.found = True
                gave.rows.append(self._row(*pair))
        self._held[side].append(mine)

    def _meet(self, left: _Held, right: _Held) -> bool:
        window = self.join.window
        if window is not None:
            return bool((left.at - window.offset) // window.size == (right.at - window.offset) // window.size)
        return self.join.earliest <= right.at - left.at <= self.join.latest

    def _row(self, left: _Held | None, right: _Held | None) -> tuple[object, ...]:
        rows = ({} if left is None else left.row, {} if right is None else right.row)
        both = {**rows[1], **{name: value for name, value in rows[0].items() if value is not None}}
        return tuple((both if side == 2 else rows[side]).get(own) for _, _, side, own in self.join.columns)

    def _expire(self, mark: Instant, gave: Gave) -> None:
        """Events for which none can come any more."""
        bounds = self.join.latest, -self.join.earliest
        for side, bound in enumerate(bounds):
            for one in [held for held in self._held[side] if held.at + bound < mark]:
                self._held[side].remove(one)
                if not one.found and self.join.how in ("full", ("left", "right")[side]):
                    gave.rows.append(self._row(one, None) if side == 0 else self._row(None, one))
