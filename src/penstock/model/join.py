"""Two streams joined by their keys and times, as a definition: frozen values, nothing runs.

An event of the left finds events of the right with the same key whose time lies within bounds of its own, and the other
way round, whichever comes first. Events that the watermark has left behind when they come are refused as late; all
others find each other, however the streams are cut into epochs. An event that finds none is given out alone, by an
outer join, once time has passed so far that none can come any more. `join_reference` is the specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

from sqlglot import exp

from penstock.errors import DefinitionError, unknown
from penstock.model.aggregates import last
from penstock.model.by_kernel import check_by_kernel
from penstock.model.expressions import bind, parse
from penstock.model.expressions.parse import canonical
from penstock.model.stream import Flow, Stream
from penstock.model.time import Duration, Instant, duration, show_instant
from penstock.model.triggers import each
from penstock.model.types import Schema, is_integer
from penstock.model.view import View
from penstock.model.windows import Fixed, Window, global_window

HOWS = ("inner", "left", "right", "full")
_MILLISECOND: Final = 1_000


@dataclass(frozen=True, repr=False)
class StreamJoin:
    """Two flows, what must be equal (an expression of each), and how far apart their times may be.

    `earliest` and `latest` bound the right one's time less the left one's. `window`: both must fall into the same.
    `gives` is what comes out: a name, the side, and its name there. The side is 2 where both have it, being equal.
    """

    left: Flow
    right: Flow
    on: tuple[tuple[str, str], ...]
    earliest: Duration
    latest: Duration
    gives: tuple[tuple[str, int, str], ...]
    how: str = "inner"
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

    @property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams at the far end of both, each once."""
        found = {source.name: source for flow in (self.left, self.right) for source in flow.sources}
        return tuple(found.values())

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple((name, self._type(side, own)) for name, side, own in self.gives))

    def _type(self, side: int, own: str) -> str:
        assert self.left.schema is not None
        assert self.right.schema is not None
        if side < 2:
            return (self.left.schema, self.right.schema)[side].type_of(own)
        kinds = {self.left.schema.type_of(own), self.right.schema.type_of(own)}
        return kinds.pop() if len(kinds) == 1 else "bigint"

    def view(self, side: int) -> View:
        """What comes to the join from a side, as the model has it: every column as an input."""
        flow = (self.left, self.right)[side]
        assert flow.schema is not None
        columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(flow.schema.names))
        return View(flow, (), global_window(), columns, each())

    def keys(self, side: int) -> tuple[str, ...]:
        return tuple(pair[side] for pair in self.on)

    def is_over(self, side: int, at: Instant, mark: Instant) -> bool:
        """Whether no partner can come any more for an event of a side, by the watermark: an outer join gives it out.

        Time is counted as Spark's join does: in whole milliseconds and, between bounds, one more.
        """
        whole = mark // _MILLISECOND * _MILLISECOND
        if self.window is not None:
            return self.window.slice_of(at).end <= whole
        bound = (self.latest, -self.earliest)[side]
        return at <= (whole - bound) // _MILLISECOND * _MILLISECOND - 2 * _MILLISECOND

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
    if window is not None and (window.size % _MILLISECOND or window.offset % _MILLISECOND):
        raise DefinitionError(f"{window!r} is not in whole milliseconds", hint="window=ps.fixed('10 milliseconds')")
    gives = all_of(left, right, pairs, prefix)
    if window is not None:
        return StreamJoin(left, right, pairs, -window.size, window.size, gives, how, window)
    assert within is not None
    earliest, latest = (signed(bound) for bound in within)
    return StreamJoin(left, right, pairs, earliest, latest, gives, how)


def all_of(left: Flow, right: Flow, on: Sequence[tuple[str, str]], prefix: str) -> tuple[tuple[str, int, str], ...]:
    """All columns of both, as a join gives them. Those of the right that the left has too begin with the prefix."""
    assert left.schema is not None
    assert right.schema is not None
    same = {one for one, other in on if one == other and one in left.schema}
    found = [(name, 2 if name in same else 0, name) for name in left.schema.names]
    for name in right.schema.names:
        if name in same:
            continue
        chosen = f"{prefix}{name}" if name in left.schema else name
        if chosen in left.schema:
            raise DefinitionError(
                f"both streams have a column «{name}»", hint="say prefix='right_', or select other names before"
            )
        found.append((chosen, 1, name))
    return tuple(found)


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


def join_behind(stream: Stream) -> StreamJoin | None:
    """The join that a stream is what it gives; None for any other stream."""
    found = getattr(stream.log, "join", None)
    return found if isinstance(found, StreamJoin) else None


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
    check_by_kernel(
        flow,
        lambda step: DefinitionError(
            f"{step.label} stands before a join of streams", hint="do it with what the join gives out"
        ),
        lambda text: DefinitionError(
            f"«{text}» stands before a join of streams, and only Spark can compute it",
            hint="compute it from what the join gives out",
        ),
        DefinitionError("the columns that come to the join are not known", hint="select them with casts"),
    )
