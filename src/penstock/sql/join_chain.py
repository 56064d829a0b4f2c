"""Streams joined in SQL, one after another: FROM a JOIN b ON … JOIN c ON …, where each is a stream or a table.

All but the last join of a chain give streams of their own, which have names but are not declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.model.join import LEFT_ONLY, StreamJoin
from penstock.model.join_definition import left_of, stream_of_join
from penstock.model.stream import Flow, Step, Stream
from penstock.model.table import TableJoin
from penstock.sql import queries as sql
from penstock.sql.errors import Source
from penstock.sql.flow import relation
from penstock.sql.join_conditions import Sides
from penstock.sql.joins import Find, Known, Names, join_table, qualifiers
from penstock.sql.stream_joins import WORDS, Meeting, meeting, named_columns, reads_stream


@dataclass(frozen=True)
class Chain:
    """What has been joined so far: its rows, and what names with a qualifier mean there."""

    source: Source
    find: Find
    flow: Flow
    known: Known

    def joined(self, parts: Sequence[sql.JoinPart]) -> Chain:
        """The same joined with more."""
        chain = self
        for part in parts:
            chain = chain._with_stream(part) if reads_stream(part, self.find) else chain._with_table(part)
        return chain

    def meeting(self, part: sql.JoinPart) -> Meeting:
        """How what was joined so far meets the stream that follows."""
        if isinstance(part.relation, sql.Windowed):
            raise self.source.error(
                "in windows two streams are joined, and nothing else", part.relation.place,
                hint="make a stream of both first: CREATE STREAM both AS SELECT … FROM TUMBLE(…) JOIN TUMBLE(…) ON …",
            )  # fmt: skip
        right = relation(self.source, part.relation, self.find)
        known = {name: named_columns(right) for name in qualifiers(part.relation, part.alias)}
        times = times_of(self.flow), times_of(right)
        pairing = meeting(Sides(self.source, (self.flow, right), (self.known, known), self.find, times), part, None)
        left, right = (
            flow if time is None else retimed(flow, time)
            for flow, time in zip(pairing.sides.flows, pairing.conditions.chosen, strict=True)
        )
        return replace(pairing, sides=replace(pairing.sides, flows=(left, right)))

    def _with_stream(self, part: sql.JoinPart) -> Chain:
        pairing = self.meeting(part)
        left, _ = pairing.sides.flows
        prefix = f"{next(iter(pairing.sides.known[1]), 'right')}_"
        with self.source.at(part.on or part.place, WORDS):
            gives = left_of(left) if part.how in LEFT_ONLY else pairing.all_columns(prefix)
            join = pairing.join(gives)
            joined = stream_of_join(
                self.find.join_name(), join, join.default_time or next(iter(_sure_times(join)), None)
            )
        of_right = {own.lower(): name for name, side, own in gives if side}
        known = {} if part.how in LEFT_ONLY else dict.fromkeys(pairing.sides.known[1], of_right)
        return replace(self, flow=joined, known={**self.known, **known})

    def _with_table(self, part: sql.JoinPart) -> Chain:
        flow, columns = join_table(self.source, part, self.flow, self.known, self.find)
        return replace(
            self, flow=flow, known={**self.known, **dict.fromkeys(qualifiers(part.relation, part.alias), columns)}
        )


def chain(source: Source, join: sql.Join, flow: Flow, find: Find) -> Chain:
    """The beginning of a chain: what stands first after FROM."""
    known = {name: named_columns(flow) for name in qualifiers(join.first, join.alias)}
    return Chain(source, find, flow, known)


def join_all(source: Source, join: sql.Join, flow: Flow, find: Find) -> tuple[Flow, Names]:
    """The flow that stands first, joined with all that follows; and what qualified names mean after it."""
    result = chain(source, join, flow, find).joined(join.parts)
    return result.flow, Names(result.known)


# The event time of rows that were joined


def times_of(flow: Flow) -> tuple[str, ...]:
    """The columns of a flow that may be its event time, because it is joined from streams that have these times."""
    if isinstance(flow, TableJoin):
        return times_of(flow.input)
    return _sure_times(flow.log) if isinstance(flow, Stream) and isinstance(flow.log, StreamJoin) else ()


def _sure_times(join: StreamJoin) -> tuple[str, ...]:
    """The columns with the event times of both sides, where they cannot be null. That of a version may be long past."""
    sure = not join.gives_alone(1), not join.gives_alone(0) and not join.as_of
    return tuple(name for name, is_there in zip(join.times, sure, strict=True) if name is not None and is_there)


def timed(flow: Flow, time: str) -> Flow:
    """The same rows, with this event time if it is one of those that they may have."""
    return retimed(flow, time) if time in times_of(flow) else flow


def retimed(flow: Flow, time: str) -> Flow:
    """The same rows, with another of their times as event time: the watermark of the join follows it."""
    if isinstance(flow, Stream):
        return replace(flow, event_time=time)
    assert isinstance(flow, Step)
    return replace(flow, input=retimed(flow.input, time))
