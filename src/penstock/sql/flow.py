"""From queries without aggregates to the streams that they mean."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.errors import DefinitionError
from penstock.model.changes import Changes
from penstock.model.explode import Explode
from penstock.model.expressions import parse
from penstock.model.row_steps import Map
from penstock.model.stream import Flow, Select, Step, Stream, Union, WithTime, named_expressions
from penstock.sql import queries as sql
from penstock.sql.errors import Piece, Source
from penstock.sql.joins import Find, Names, qualifiers


def flow_of(source: Source, query: sql.Query, find: Find) -> Flow:
    """The stream that a query without aggregates means."""
    if isinstance(query, sql.UnionAll):
        parts = [flow_of(source, part, find) for part in query.parts]
        with source.at(query.place):
            return parts[0].union(*parts[1:])
    query, flow, windowed = read_from(source, query, find)
    _refuse_aggregation(source, query, windowed)
    flow = filtered(source, flow, query.where)
    if query.items is None:
        return flow
    query, flow = items_exploded(source, query, flow)
    assert query.items is not None
    columns = []
    for item in query.items:
        name = item.alias or Piece(plain_name(source, item), item.expression.start, item.expression.end)
        with source.at(item.expression):
            Select(flow, ((name.text, item.expression.text),))
        columns.append((name.text, item.expression.text))
    with source.at(query.place):
        return Select(flow, named_expressions((), dict(_once(source, query.items, columns)), "select"))


def _once(source: Source, items: tuple[sql.Item, ...], columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    seen: set[str] = set()
    for item, (name, _) in zip(items, columns, strict=True):
        if name.lower() in seen:
            raise source.error(f"the name '{name}' appears twice", item.alias or item.expression)
        seen.add(name.lower())
    return columns


def read_from(source: Source, query: sql.Select, find: Find) -> tuple[sql.Select, Flow, sql.Windowed | None]:
    """What a query reads: its flow, its window, and the query itself with plain names where it joins tables."""
    from penstock.sql.join_chain import join_all, timed

    of = query.source.first if isinstance(query.source, sql.Join) else query.source
    windowed = of if isinstance(of, sql.Windowed) else None
    flow = relation(source, of.input if isinstance(of, sql.Windowed) else of, find)
    names = Names({})
    if isinstance(query.source, sql.Join):
        flow, names = join_all(source, query.source, flow, find)
        if windowed is not None and windowed.time is not None:
            flow = timed(flow, names.plain(source, windowed.time).text)
    elif query.generators:
        known = [] if flow.schema is None else flow.schema.names
        names = Names({qualifier: {name.lower(): name for name in known} for qualifier in qualifiers(of, query.alias)})
    for generator in query.generators:
        flow, names = _exploded(source, generator, flow, names)
    if names.known:
        parts = {
            clause: names.put_in(source, getattr(query, clause)) for clause in ("items", "where", "group", "having")
        }
        query = replace(query, **parts, having_calls=names.put_in(source, query.having_calls))
    return query, flow, windowed


def _exploded(source: Source, generator: sql.Generator, flow: Flow, names: Names) -> tuple[Flow, Names]:
    """The flow with a row for each element, and what qualified names mean after it."""
    columns = [name.text for name in generator.names]
    position = None if generator.position is None else generator.position.text
    text = names.plain(source, generator.expression).text
    with source.at(generator.place):
        flow = Explode(flow, text, tuple(columns), generator.outer, position)
    if generator.alias is None:
        return flow, names
    own = {name.lower(): name for name in flow.made}
    return flow, Names({**names.known, generator.alias.text.lower(): own})


def items_exploded(source: Source, query: sql.Select, flow: Flow) -> tuple[sql.Select, Flow]:
    """The flow after an explode(…) in the select list, which then names the columns that it makes."""
    items: list[sql.Item] = []
    for item in query.items or ():
        if item.generator is None:
            items.append(item)
            continue
        generator, used = item.generator, flow.schema.names if flow.schema is not None else ()
        flow, _ = _exploded(source, _renamed(generator, used), flow, Names({}))
        assert isinstance(flow, Explode)
        wanted = [*([generator.position] if generator.position is not None else []), *generator.names]
        items += [
            sql.Item(replace(alias, text=f"`{name}`" if name != alias.text else name), alias)
            for name, alias in zip(flow.made, wanted, strict=True)
        ]
    return replace(query, items=tuple(items)), flow


def _renamed(generator: sql.Generator, used: Collection[str]) -> sql.Generator:
    """The same under names that no column has: `explode(tags) AS tags` takes the place of the column."""
    in_use = {name.lower() for name in used}

    def free(piece: Piece) -> Piece:
        text = piece.text
        while text.lower() in in_use:
            text += "_element"
        return replace(piece, text=text)

    position = None if generator.position is None else free(generator.position)
    return replace(generator, names=tuple(map(free, generator.names)), position=position)


def _refuse_aggregation(source: Source, query: sql.Select, windowed: sql.Windowed | None) -> None:
    if windowed is not None:
        raise source.error("a stream has no windows", windowed.place, hint="a view has: CREATE CONTINUOUS VIEW …")
    if query.grouped is not None:
        raise source.error("a stream has no GROUP BY", query.grouped, hint="a view has: CREATE CONTINUOUS VIEW …")
    if query.having is not None:
        raise source.error("a stream has no HAVING", query.having, hint="use WHERE")
    for item in query.items or ():
        if item.call is not None or item.inner:
            raise source.error(
                f"a stream has no aggregates: '{item.expression.text}'", item.expression,
                hint="a view has: CREATE CONTINUOUS VIEW …",
            )  # fmt: skip


def plain_name(source: Source, item: sql.Item) -> str:
    """The name of an item without AS: that of its column."""
    name = item.expression.text.strip("`")
    if not name.isidentifier():
        raise source.error(f"'{item.expression.text}' needs a name", item.expression, hint="write … AS name")
    return name


def relation(source: Source, node: sql.Relation, find: Find) -> Flow:
    """The stream that stands after FROM."""
    if isinstance(node, sql.Named):
        return find(node)
    if isinstance(node, sql.Nested):
        return flow_of(source, node.query, find)
    flow = relation(source, node.input, find)
    with source.at(node.time):
        return flow.with_time(node.time.text)


def filtered(source: Source, flow: Flow, condition: Piece | None) -> Flow:
    if condition is None:
        return flow
    with source.at(condition, {"aggregates go into .agg(…)": "conditions on aggregates go into HAVING"}):
        return flow.where(condition.text)


def at_time(source: Source, flow: Flow, time: Piece) -> Flow:
    """The flow with this event time: as it is, if it has just that one."""
    with source.at(time):
        if is_event_time(flow, time.text):
            return flow
        return flow.with_time(time.text)


def is_event_time(flow: Flow, text: str) -> bool:
    """Whether an expression is the event time that the events of a flow have anyway."""
    parsed = parse(text)
    if isinstance(flow, Changes):
        return flow.event_time is not None and same("window_end", text)
    if isinstance(flow, Stream):
        return flow.event_time is not None and same(flow.event_time, text)
    if isinstance(flow, Union):
        return all(is_event_time(part, text) for part in flow.several)
    if isinstance(flow, WithTime):
        return same(flow.expression, text)
    if isinstance(flow, Map) and any(name in flow.schema for name in parsed.columns):
        return False  # a column that a function made, whatever its name
    if isinstance(flow, Select):
        columns = {name.lower(): expression for name, expression in flow.columns}
        renamed = {name for name in parsed.columns if columns.get(name.lower(), name) != name}
        if not renamed:
            return is_event_time(flow.input, text)
        return text.lower() in columns and is_event_time(flow.input, columns[text.lower()])
    return isinstance(flow, Step) and is_event_time(flow.inputs[0], text)


def event_time(flow: Flow) -> str | None:
    """The name under which a flow's event time is known in SQL; None if its parts have different ones."""
    if isinstance(flow, Changes):
        return None if flow.event_time is None else "window_end"
    if isinstance(flow, Stream):
        return flow.event_time
    if isinstance(flow, WithTime):
        return flow.expression
    if isinstance(flow, Union):
        times = {event_time(part) for part in flow.several}
        return times.pop() if len(times) == 1 else None
    return event_time(flow.inputs[0])


def same(one: str, other: str) -> bool:
    """Whether two expressions are the same, however they are spelled.

    >>> same("price*2", "price * 2"), same("At", "at"), same("'A'", "'a'")
    (True, True, False)
    """
    try:
        a, b = parse(one).text, parse(other).text
    except DefinitionError:
        return False
    return a == b or (a.lower() == b.lower() and a.isidentifier())
