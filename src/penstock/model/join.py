"""Two streams joined by their keys and times, as a definition: frozen values, nothing runs.

An event of the left finds events of the right with the same key whose time lies within bounds of its own, and the other
way round, whichever comes first. Events that are behind the watermark when they come are rejected as late. All others
find each other, however the streams are cut into epochs. An event waits until the watermark has passed all times that a
partner could have, and its own. If it found none by then, an outer or anti join gives it out alone. `join_reference` is
the specification.

Or the right is a table with versions, and an event of the left finds the one that was valid at its own time. It waits
until the watermark has passed its time. `as_of_reference` is the specification of that.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from penstock.errors import DefinitionError, unknown
from penstock.model.aggregates import Aggregate, count, last
from penstock.model.expressions import bind
from penstock.model.join_flows import sign_columns, time_column
from penstock.model.stream import Flow, Stream
from penstock.model.time import BEGINNING, END, Duration, Instant, show_instant
from penstock.model.triggers import each
from penstock.model.types import Schema, has_structs, is_integer
from penstock.model.versions import check_versions
from penstock.model.view import View
from penstock.model.watermarks import Carried
from penstock.model.windows import Fixed, global_window

HOWS = ("inner", "left", "right", "full", "semi", "anti")
#: Joins that give out events of the left alone.
LEFT_ONLY = ("semi", "anti")


@dataclass(frozen=True, repr=False)
class StreamJoin:
    """Two flows, what must be equal (an expression of each), and how far apart their times may be.

    `earliest` and `latest` bound the right one's time less the left one's, both included. `window`: both must fall into
    the same. `gives` is what comes out: a name, the side, and its name there. The side is 2 where both have it, being
    equal. `as_of`: rows of the right are versions of their keys, and an event of the left finds the newest one up to
    its own time. A version with a true `deleted`, a column of the right, says that its key is gone.
    """

    left: Flow
    right: Flow
    on: tuple[tuple[str, str], ...]
    earliest: Duration
    latest: Duration
    gives: tuple[tuple[str, int, str], ...]
    how: str = "inner"
    window: Fixed | None = None
    as_of: bool = False
    deleted: str | None = None

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise unknown("way to join streams", self.how, HOWS)
        if self.earliest > self.latest:
            raise DefinitionError("within goes from the earlier to the later", hint="within=('-1 hour', '0 seconds')")
        for flow in (self.left, self.right):
            check_side(flow)
        if self.how in LEFT_ONLY and (wrong := [name for name, side, _ in self.gives if side == 1]):
            raise DefinitionError(
                f"a join of the kind '{self.how}' gives columns of the left only, and '{wrong[0]}' is of the right",
                hint="leave it out, or join with how='inner'",
            )
        for pair in self.on:
            _check_keys(pair, *(_key_type(text, self._schema(side)) for side, text in enumerate(pair)))
        if self.as_of:
            check_versions(self.right, self.how, tuple(right.strip("`") for _, right in self.on), self.deleted)
        for side in (0, 1):
            for name in self.columns(side):
                if has_structs(kind := self._schema(side).type_of(name)):
                    raise DefinitionError(
                        f"a join cannot keep the column '{name}', which is {kind}",
                        hint="leave it out, or select fields of it before the join",
                    )

    # What comes in

    @property
    def flows(self) -> tuple[Flow, Flow]:
        return self.left, self.right

    @property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams at the far end of both, each once."""
        sources = {source.name: source for flow in self.flows for source in flow.sources}
        return tuple(sources.values())

    def _schema(self, side: int) -> Schema:
        schema = self.flows[side].schema
        assert schema is not None  # check_side
        return schema

    def columns(self, side: int) -> tuple[str, ...]:
        """The columns of a side that the join keeps: those that it gives out, and the one that tells deletions."""
        names = {own for _, of, own in self.gives if of in (side, 2)}
        if side == 1 and self.deleted is not None:
            names.add(self.deleted)
        return tuple(name for name in self._schema(side).names if name in names)

    def compared(self, side: int) -> tuple[str, ...]:
        """The columns by which a retraction finds its row: all that the join keeps, except what follows from the sign.

        Columns that are not kept do not matter: rows that differ only in those give the same.
        """
        by_sign = sign_columns(self.flows[side])
        return tuple(name for name in self.columns(side) if name not in by_sign)

    def is_signed(self, side: int) -> bool:
        """Whether rows of a side can take earlier ones back."""
        return any(source.sign is not None for source in self.flows[side].sources)

    @property
    def signed(self) -> bool:
        """Whether rows that come out can take earlier ones back. What was found as of its time is final."""
        return not self.as_of and (self.is_signed(0) or self.is_signed(1))

    @property
    def versioned(self) -> frozenset[str]:
        """The streams that are read as tables: while one of them is idle, it does not hold back the others.

        A watermark that follows from others, as that of a view's changes, is never idle: rows may come up to there.
        """
        if not self.as_of:
            return frozenset()
        carried = {source.name for source in self.right.sources if isinstance(source.watermark, Carried)}
        return frozenset(source.name for source in self.right.sources) - carried - {s.name for s in self.left.sources}

    def keys(self, side: int) -> tuple[str, ...]:
        """What must be equal, as expressions of a side. Whole numbers of different widths are cast to bigint."""
        expressions = []
        for pair in self.on:
            kinds = {bind(text, self._schema(number)).type for number, text in enumerate(pair)}
            expressions.append(pair[side] if len(kinds) == 1 else f"CAST({pair[side]} AS BIGINT)")
        return tuple(expressions)

    def view(self, side: int) -> View:
        """What comes to the join from a side, as the model has it: the keys, and the columns that it keeps as inputs.

        The column of the number n in the flow's schema is the input of the aggregate `c<n>`.
        """
        names = self._schema(side).names
        columns: tuple[tuple[str, Aggregate], ...] = tuple(
            (f"c{names.index(name)}", last(f"`{name}`")) for name in self.columns(side)
        )
        keys = tuple((f"key_{number}", text) for number, text in enumerate(self.keys(side)))
        return View(self.flows[side], keys, global_window(), columns or (("rows", count()),), each())

    # What comes out

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple((name, self._type(side, own)) for name, side, own in self.gives))

    def _type(self, side: int, own: str) -> str:
        if side < 2:
            return self._schema(side).type_of(own)
        kinds = {self._schema(0).type_of(own), self._schema(1).type_of(own)}
        return kinds.pop() if len(kinds) == 1 else "bigint"

    def gives_alone(self, side: int) -> bool:
        """Whether an event of a side comes out that found no partner."""
        return self.how in (("left", "full", "anti"), ("right", "full"))[side]

    # Time

    def meet(self, left: Instant, right: Instant) -> bool:
        """Whether the times of two events allow them to be a pair."""
        if self.window is not None:
            return self.window.slice_of(left) == self.window.slice_of(right)
        return self.earliest <= right - left <= self.latest

    def wait(self, side: int) -> Duration:
        """How far the watermark must pass the time of an event until no partner can come: between bounds."""
        return max(0, (self.latest, -self.earliest)[side])

    def over(self, side: int, at: Instant) -> Instant:
        """An event of a side is over when the watermark has reached this instant.

        No partner can come any more, since its time would be behind the watermark. The event's own time is behind it
        too, so that no retraction of it can come.
        """
        return at + self.wait(side) + 1 if self.window is None else self.window.slice_of(at).end

    @cached_property
    def times(self) -> tuple[str | None, str | None]:
        """The columns that come out with the event time of the left and of the right; None where there is none."""
        times = [time_column(flow) for flow in self.flows]
        left, right = (
            next((name for name, of, own in self.gives if of in (side, 2) and own == column), None)
            for side, column in enumerate(times)
        )
        return left, right

    @property
    def default_time(self) -> str | None:
        """The default event time of the output; None if it cannot be known.

        It is the later one of both times, or that of the only event. A semi or anti join gives the left one's, as does
        one with versions.
        """
        left, right = self.times
        if self.how in LEFT_ONLY or self.as_of:
            return left
        return None if left is None or right is None else f"greatest({left}, {right})"

    def hold(self, event_time: str | None) -> Duration:
        """How far the watermark of what comes out stays behind that of what comes in.

        A row that comes out has an event that is not behind the watermark, or was waiting until now. So the time of its
        left event is at most `wait(0)` behind, that of its right one `wait(1)`. The later one of a pair is not behind.
        Of any other expression it is assumed that its value does not lie before both times; with versions, not before
        that of the left.
        """
        if self.as_of:
            return 0
        waits = [self.wait(side) if self.window is None else self.window.size - 1 for side in (0, 1)]
        left, right = self.times
        if self.how in LEFT_ONLY or (event_time is not None and event_time == left):
            return waits[0]
        if event_time is not None and event_time == right:
            return waits[1]
        if None not in self.times and event_time == f"greatest({left}, {right})":
            return max((waits[side] for side in (0, 1) if self.gives_alone(side)), default=0)
        return max(waits)

    def carried(self, mark: Instant, event_time: str | None) -> Instant:
        """The watermark of what comes out, from that of what comes in."""
        return mark if mark in (BEGINNING, END) else mark - self.hold(event_time)

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __repr__(self) -> str:
        on = " AND ".join(f"{left} = {right}" for left, right in self.on)
        return f"{self.left!r} {self.how} joined with {self.right!r} on {on!r}{' as of its time' if self.as_of else ''}"


def _key_type(text: str, schema: Schema) -> str:
    kind = bind(text, schema).type
    if kind is None:
        raise DefinitionError(f"only Spark knows the type of '{text}'", hint=f"cast it: CAST({text} AS STRING)")
    if kind.startswith(("array<", "struct<", "map<")):
        raise DefinitionError(f"'{text}' is {kind}, and so cannot be a key of a join", hint="join by a part of it")
    return kind


def _check_keys(pair: tuple[str, str], left: str, right: str) -> None:
    if left != right and not (is_integer(left) and is_integer(right)):
        raise DefinitionError(
            f"'{pair[0]}' is {left}, and '{pair[1]}' is {right}",
            hint=f"cast one of them: CAST({pair[1]} AS {left.upper()})",
        )


def join_behind(stream: Stream) -> StreamJoin | None:
    """The join that a stream is what it gives; None for any other stream."""
    join = stream.log if isinstance(stream.log, StreamJoin) else getattr(stream.log, "join", None)
    return join if isinstance(join, StreamJoin) else None


def late_reason(at: Instant, before: Instant) -> str:
    """Why an event is late."""
    return f"its time {show_instant(at)} is behind the watermark {show_instant(before)}"


#: Why a retraction is rejected.
NOT_THERE = "it retracts a row that does not exist: no row has its key, time and values"


def check_side(flow: Flow) -> None:
    """Refuses a flow that cannot be joined: it needs an event time, a watermark, and columns that are known."""
    if not flow.has_event_time or any(source.watermark is None for source in flow.sources):
        raise DefinitionError(
            "streams are joined by their times, and one of them has no event time or no watermark",
            hint="set event_time='…' and watermark=ps.bounded('10 seconds') for it",
        )
    if flow.schema is None:
        raise DefinitionError(
            "the columns that come to the join are not known",
            hint="set schema=… in the transform before, or select columns with casts",
        )
