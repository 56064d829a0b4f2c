"""Two streams joined in SQL: CREATE STREAM both AS SELECT … FROM clicks AS c JOIN shown AS s ON …

ON says what is equal and between what the times of both lie; or both stand in the same TUMBLE. With FOR SYSTEM_TIME AS
OF the second one is a table with versions, by the key that ON compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import DefinitionError
from penstock.model.expressions import parse
from penstock.model.join import HOWS, LEFT_ONLY, StreamJoin
from penstock.model.join_definition import all_of, left_of
from penstock.model.stream import Flow
from penstock.model.time import Duration
from penstock.model.versions import HOWS as HOWS_AS_OF
from penstock.model.view import WINDOW_COLUMNS
from penstock.model.windows import Fixed
from penstock.sql import queries as sql
from penstock.sql.errors import Piece, Source
from penstock.sql.flow import at_time, event_time, relation
from penstock.sql.join_conditions import Conditions, Sides
from penstock.sql.joins import Find, Names, qualifiers

#: The SQL words for values of Python's options.
WORDS = {
    "set event_time='…' and watermark=ps.bounded('10 seconds') for it":
        "write WATERMARK FOR time AS time - INTERVAL 10 SECONDS for it",
    "set prefix='right_', or select other names before": "name the columns: SELECT a.x, b.x AS y",
    "leave it out, or join with how='inner'": "leave it out, or write JOIN",
    "set event_time='…', or select the columns with the event times": "select the columns with the event times",
}  # fmt: skip


@dataclass(frozen=True)
class Meeting:
    """How two streams meet: what of them is equal, and how far apart their times may be."""

    sides: Sides
    part: sql.JoinPart
    conditions: Conditions
    earliest: Duration
    latest: Duration
    window: Fixed | None

    def all_columns(self, prefix: str) -> tuple[tuple[str, int, str], ...]:
        """All columns of both. The one that tells deletions does not come along."""
        columns = all_of(*self.sides.flows, self.conditions.pairs, prefix)
        return tuple(column for column in columns if column[1:] != (1, self.conditions.deleted))

    def join(self, gives: tuple[tuple[str, int, str], ...]) -> StreamJoin:
        """The join that gives these columns."""
        left, right = self.sides.flows
        pairs, deleted = tuple(self.conditions.pairs), self.conditions.deleted
        if self.part.as_of is not None:
            return StreamJoin(left, right, pairs, 0, 0, gives, self.part.how, as_of=True, deleted=deleted)
        return StreamJoin(left, right, pairs, self.earliest, self.latest, gives, self.part.how, self.window)


def reads_stream(part: sql.JoinPart, find: Find) -> bool:
    """Whether what is joined is a stream; else it is a table."""
    return not isinstance(part.relation, sql.Named) or part.relation.name.text in find.streams


def named_columns(flow: Flow) -> dict[str, str]:
    """The columns of a flow by their names in small letters."""
    return {} if flow.schema is None else {name.lower(): name for name in flow.schema.names}


def is_plain(query: sql.Select) -> bool:
    """Whether a query does no more than join and choose columns: it then is a join of streams, and nothing else."""
    if query.where is not None or query.grouped is not None or query.having is not None or query.generators:
        return False
    for item in query.items or ():
        try:
            tree = parse(item.expression.text).tree
        except DefinitionError:
            return False
        if item.call is not None or item.inner or item.generator is not None or not isinstance(tree, exp.Column):
            return False
    return True


def stream_join(source: Source, query: sql.Query, find: Find) -> StreamJoin | None:
    """The join that a query is, if its last join is one of streams and it only chooses columns."""
    from penstock.sql.join_chain import chain

    if not isinstance(query, sql.Select) or not isinstance(query.source, sql.Join):
        return None
    join, (*before, part) = query.source, query.source.parts
    if not reads_stream(part, find) or not is_plain(query):
        return None
    window = _window(source, join) if not before else None
    if window is None:
        first = join.first
        if isinstance(first, sql.Windowed):
            raise _not_same(source, join)
        pairing = chain(source, join, relation(source, first, find), find).joined(before).meeting(part)
    else:
        flows = [_flow(source, of, find) for of in (join.first, part.relation)]
        known = [
            dict.fromkeys(names, named_columns(flow))
            for names, flow in zip(
                (qualifiers(join.first, join.alias), qualifiers(part.relation, part.alias)), flows, strict=True
            )
        ]
        pairing = meeting(Sides(source, (flows[0], flows[1]), (known[0], known[1]), find), part, window)
    with source.at(part.on or part.place, WORDS):
        return pairing.join(_gives(query, pairing))


def meeting(sides: Sides, part: sql.JoinPart, window: Fixed | None) -> Meeting:
    """How two streams meet, as a join says it."""
    source, place = sides.source, part.on or part.place
    if part.how not in HOWS:
        hint = "write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, LEFT SEMI JOIN or LEFT ANTI JOIN"
        raise source.error(f"streams are not joined by {part.place.text}", part.place, hint=hint)
    conditions = Conditions(sides, place, window is not None, part.as_of is not None)
    if part.as_of is not None:
        time = _as_of(sides, part, part.as_of, window)
        conditions.chosen[0] = time if time in sides.times[0] else None
    for name in part.using:
        if window is not None and name.text.lower() in WINDOW_COLUMNS:
            conditions.in_window = True
        else:
            conditions.pairs.append((name.text, name.text))
    if part.on is not None:
        conditions.read(part.on)
    if not conditions.pairs:
        raise source.error(
            "a join of streams needs an equality between them", place, hint="write … ON a.key = b.key AND …"
        )
    earliest, latest = (0, 0) if part.as_of is not None else _times(conditions, window)
    return Meeting(sides, part, conditions, earliest, latest, window)


def _as_of(sides: Sides, part: sql.JoinPart, time: Piece, window: Fixed | None) -> str:
    """The event time as of which versions are found. Refuses any other time, and windows."""
    source = sides.source
    if part.how not in HOWS_AS_OF:
        hint = "write JOIN or LEFT JOIN"
        raise source.error(f"the versions of a table are not joined by {part.place.text}", part.place, hint=hint)
    if window is not None:
        hint = "leave out the second TUMBLE: an event finds the version of its time, whatever window that is in"
        raise source.error("the versions of a table have no windows", part.place, hint=hint)
    plain = Names(sides.known[0]).plain(source, time).text
    if plain not in sides.times[0] and not sides.find.is_event_time(sides.flows[0], plain):
        raise source.error(
            f"'{plain}' is not the event time", time, hint=f"give the stream that time: RETIME(stream, {plain})"
        )
    return plain


def _flow(source: Source, of: sql.Relation | sql.Windowed, find: Find) -> Flow:
    if not isinstance(of, sql.Windowed):
        return relation(source, of, find)
    flow = relation(source, of.input, find)
    return flow if of.time is None else at_time(source, flow, of.time)


def _window(source: Source, join: sql.Join) -> Fixed | None:
    """The window in which both meet."""
    one, other = (of.window if isinstance(of, sql.Windowed) else None for of in (join.first, join.parts[0].relation))
    if one != other or (one is not None and not isinstance(one, Fixed)):
        raise _not_same(source, join)
    return one if isinstance(one, Fixed) else None


def _not_same(source: Source, join: sql.Join) -> DefinitionError:
    return source.error(
        "streams meet in the same TUMBLE, or in none", join.parts[0].place,
        hint="write FROM TUMBLE(a, time, size) AS a JOIN TUMBLE(b, time, size) AS b ON …",
    )  # fmt: skip


def _times(conditions: Conditions, window: Fixed | None) -> tuple[Duration, Duration]:
    source = conditions.sides.source
    if window is not None:
        if not conditions.in_window:
            hint = "add AND a.window_start = b.window_start"
            raise source.error(
                "a join in windows needs the condition that the windows are the same", conditions.place, hint=hint
            )
        return -window.size, window.size
    if conditions.earliest is None or conditions.latest is None:
        names = [
            next(iter(own_names), word)
            for own_names, word in zip(conditions.sides.qualifiers, ("left", "right"), strict=True)
        ]
        times = [event_time(flow) or "time" for flow in conditions.sides.flows]
        left, right = (f"{name}.{time}" for name, time in zip(names, times, strict=True))
        raise source.error(
            "a join of streams needs bounds on how far apart its events may be, before and after", conditions.place,
            hint=f"add AND {right} BETWEEN {left} - INTERVAL 1 HOUR AND {left}, with spans that fit",
        )  # fmt: skip
    if conditions.earliest > conditions.latest:
        raise source.error(
            "no times lie within these bounds", conditions.place, hint="BETWEEN goes from the earlier to the later"
        )
    return conditions.earliest, conditions.latest


def _gives(query: sql.Select, pairing: Meeting) -> tuple[tuple[str, int, str], ...]:
    """The columns that come out, as the select list says."""
    sides = pairing.sides
    if query.items is None and pairing.part.how in LEFT_ONLY:
        return left_of(sides.flows[0])
    if query.items is None:
        return pairing.all_columns(f"{next(iter(sides.known[1]), 'right')}_")
    columns: dict[str, tuple[str, int, str]] = {}
    for item in query.items:
        name, side, own = _given(item, sides, pairing.conditions)
        if name.lower() in columns:
            raise sides.source.error(f"the name '{name}' appears twice", item.alias or item.expression)
        columns[name.lower()] = name, side, own
    return tuple(columns.values())


def _given(item: sql.Item, sides: Sides, conditions: Conditions) -> tuple[str, int, str]:
    with sides.source.at(item.expression):
        tree = parse(item.expression.text).tree
    assert isinstance(tree, exp.Column)  # is_plain
    plain = len(tree.parts) == 1 and (tree.name, tree.name) in conditions.pairs
    side = 0 if plain else sides.of(tree, item.expression)
    schema = sides.flows[side].schema
    assert schema is not None
    with sides.source.at(item.expression):
        own = schema.find(sides.plain(tree, side, item.expression))
    return (tree.name if item.alias is None else item.alias.text), 2 if plain else side, own
