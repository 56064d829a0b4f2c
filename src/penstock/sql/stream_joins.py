"""Two streams joined in SQL: CREATE STREAM both AS SELECT … FROM clicks AS c JOIN shown AS s ON …

ON says what is equal and between what the times of both lie; or both stand in the same TUMBLE.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.model.expressions import parse
from penstock.model.join import HOWS, StreamJoin, all_of
from penstock.model.stream import Flow
from penstock.model.time import Duration
from penstock.model.view import WINDOW_COLUMNS
from penstock.model.windows import Fixed
from penstock.sql import queries as sql
from penstock.sql.errors import Source
from penstock.sql.flow import at_time, event_time, relation
from penstock.sql.join_conditions import Conditions, Sides
from penstock.sql.joins import Find, qualifiers

#: How what Python says is said in SQL.
_WORDS = {
    "say event_time='…' and watermark=ps.bounded('10 seconds') for it":
        "say WATERMARK FOR time AS time - INTERVAL 10 SECONDS for it",
    "say prefix='right_', or select other names before": "name the columns: SELECT a.x, b.x AS y",
    "leave out sign=…": "leave out sign = …",
}  # fmt: skip
_AFTER = "select from the stream that this makes: CREATE STREAM other AS SELECT …"


def stream_join(source: Source, query: sql.Query, find: Find) -> StreamJoin | None:
    """The join that a query means, if it joins streams."""
    if not isinstance(query, sql.Select) or not isinstance(query.source, sql.Join):
        return None
    join, part = query.source, query.source.parts[0]
    if isinstance(part.relation, sql.Named) and part.relation.name.text not in find.streams:
        return None
    _refuse_more(source, query, join)
    flows = [_flow(source, of, find) for of in _both(join)]
    named = qualifiers(join.first, join.alias), qualifiers(part.relation, part.alias)
    sides = Sides(source, (flows[0], flows[1]), named, find)
    window, place = _window(source, join), part.on or part.place
    said = Conditions(sides, place, window is not None)
    for name in part.using:
        if window is not None and name.text.lower() in WINDOW_COLUMNS:
            said.in_window = True
        else:
            said.pairs.append((name.text, name.text))
    if part.on is not None:
        said.read(part.on)
    if not said.pairs:
        raise source.error("a join of streams says what is equal", place, hint="write … ON a.key = b.key AND …")
    earliest, latest = _times(said, window)
    with source.at(place, _WORDS):
        gives = _gives(query, sides, said)
        return StreamJoin(flows[0], flows[1], tuple(said.pairs), earliest, latest, gives, part.how, window)


def _both(join: sql.Join) -> tuple[sql.Relation | sql.Windowed, sql.Relation | sql.Windowed]:
    return join.first, join.parts[0].relation


def _flow(source: Source, of: sql.Relation | sql.Windowed, find: Find) -> Flow:
    if not isinstance(of, sql.Windowed):
        return relation(source, of, find)
    flow = relation(source, of.input, find)
    return flow if of.time is None else at_time(source, flow, of.time)


def _refuse_more(source: Source, query: sql.Select, join: sql.Join) -> None:
    part = join.parts[0]
    if len(join.parts) > 1:
        hint = "join the stream that this makes with the next"
        raise source.error("two streams are joined at a time", join.parts[1].place, hint=hint)
    if part.how not in HOWS:
        hint = "write JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN"
        raise source.error(f"streams are not joined by {part.place.text}", part.place, hint=hint)
    if part.as_of is not None:
        raise source.error("FOR SYSTEM_TIME AS OF goes with a table, and this is a stream", part.as_of)
    for piece in (query.where, query.grouped, query.having):
        if piece is not None:
            raise source.error("a join of streams has neither WHERE nor GROUP BY", piece, hint=_AFTER)


def _window(source: Source, join: sql.Join) -> Fixed | None:
    """The window in which both meet."""
    one, other = (of.window if isinstance(of, sql.Windowed) else None for of in _both(join))
    if one != other or (one is not None and not isinstance(one, Fixed)):
        raise source.error(
            "streams meet in the same TUMBLE, or in none", join.parts[0].place,
            hint="write FROM TUMBLE(a, time, size) AS a JOIN TUMBLE(b, time, size) AS b ON …",
        )  # fmt: skip
    return one if isinstance(one, Fixed) else None


def _times(said: Conditions, window: Fixed | None) -> tuple[Duration, Duration]:
    source = said.sides.source
    if window is not None:
        if not said.in_window:
            hint = "add AND a.window_start = b.window_start"
            raise source.error("in windows a join says that they are the same", said.place, hint=hint)
        return -window.size, window.size
    if said.earliest is None or said.latest is None:
        names = [next(iter(mine), word) for mine, word in zip(said.sides.qualifiers, ("left", "right"), strict=True)]
        times = [event_time(flow) or "time" for flow in said.sides.flows]
        left, right = (f"{name}.{time}" for name, time in zip(names, times, strict=True))
        raise source.error(
            "a join of streams says how far apart the times of its events may be, before and after", said.place,
            hint=f"add AND {right} BETWEEN {left} - INTERVAL 1 HOUR AND {left}, with spans that fit",
        )  # fmt: skip
    if said.earliest > said.latest:
        raise source.error(
            "no times lie within these bounds", said.place, hint="BETWEEN goes from the earlier to the later"
        )
    return said.earliest, said.latest


def _gives(query: sql.Select, sides: Sides, said: Conditions) -> tuple[tuple[str, int, str], ...]:
    """The columns that come out, as the select list says."""
    right = next(iter(sides.qualifiers[1]), "right")
    if query.items is None:
        return all_of(*sides.flows, said.pairs, f"{right}_")
    found: dict[str, tuple[str, int, str]] = {}
    for item in query.items:
        name, side, own = _given(item, sides, said)
        if name.lower() in found:
            raise sides.source.error(f"the name «{name}» stands twice", item.alias or item.expression)
        found[name.lower()] = name, side, own
    return tuple(found.values())


def _given(item: sql.Item, sides: Sides, said: Conditions) -> tuple[str, int, str]:
    with sides.source.at(item.expression):
        tree = parse(item.expression.text).tree
    if item.call is not None or item.inner or not isinstance(tree, exp.Column):
        raise sides.source.error(f"«{item.expression.text}» is no column of a stream", item.expression, hint=_AFTER)
    plain = len(tree.parts) == 1 and (tree.name, tree.name) in said.pairs
    side = 0 if plain else sides.of(tree, item.expression)
    schema = sides.flows[side].schema
    assert schema is not None
    with sides.source.at(item.expression):
        own = schema.find(tree.name)
    return (own if item.alias is None else item.alias.text), 2 if plain else side, own
