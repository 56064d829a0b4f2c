"""Definitions as SQL: the statements that make a stream, a view, a whole app.

>>> import penstock as ps
>>> tags = ps.stream("tags", schema="tag string")
>>> print(show(tags.group_by("tag").agg(n=ps.count()), "by_tag"))
CREATE CONTINUOUS VIEW by_tag AS
  SELECT tag, count(*) AS n
  FROM tags
  GROUP BY tag
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import DefinitionError
from penstock.model.aggregates import Paired
from penstock.model.aggregates.paired import exactness, written
from penstock.model.explode import Explode
from penstock.model.expressions import parse
from penstock.model.join import join_behind
from penstock.model.naming import valid_name
from penstock.model.stream import DEFAULT_AHEAD, DEFAULT_HORIZON, Flow, Select, Stream, Union, Where, WithTime
from penstock.model.table import TableJoin
from penstock.model.time import show_duration
from penstock.model.triggers import each, on_time
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import CountWindow, Global, Named
from penstock.sql.derived import spliced
from penstock.sql.errors import Piece
from penstock.sql.flow import event_time
from penstock.sql.show_joins import carries_watermark, show_join, undeclared_join
from penstock.sql.show_sources import metadata, show_log
from penstock.sql.words import only_python, quoted, show_aggregate, show_trigger, show_watermark, show_window, span


def show(what: View | Flow, name: str, names: Mapping[Flow, str] | None = None) -> str:
    """The statement that makes a stream or view of this name. `names` are those of streams made from others."""
    if isinstance(what, View):
        return _view(what, name, names or {})
    if isinstance(what, Stream) and (join := join_behind(what)) is not None:
        query = show_join(join, lambda flow: relation(flow, names or {}), identifier)
        return f"CREATE STREAM {identifier(name)}{_time(what)} AS\n  {query}"
    if isinstance(what, Stream):
        return _stream(what)
    return f"CREATE STREAM {identifier(name)} AS\n  {_query(what, names or {})}"


def identifier(name: str) -> str:
    """A name, in backticks where SQL would read a word of its own."""
    plain = valid_name(name) and name.isascii() and parse(f"`{name}`").text == name
    return name if plain and name.upper() not in _RESERVED else f"`{name}`"


_RESERVED = {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "EMIT", "WATERMARK", "RETIME", "UNION", "CASE", "FILTER"}


def _stream(stream: Stream) -> str:
    elsewhere = metadata(stream.log)
    lines = [
        f"{identifier(column)} {kind.upper()}"
        + (f" METADATA FROM {quoted(elsewhere[column])}" if column in elsewhere else "")
        for column, kind in stream.schema
    ]
    if stream.watermark is not None and stream.event_time is not None:
        lines.append(f"WATERMARK FOR {show_watermark(stream.event_time, stream.watermark)}")
    origin, options = ("", []) if stream.log is None else show_log(stream.log)
    options += _rules(stream)
    columns = ",\n  ".join(lines)
    text = f"CREATE STREAM {identifier(stream.name)} (\n  {columns}\n)"
    return text + (f" {origin}" if origin else "") + (f" WITH ({', '.join(options)})" if options else "")


def _time(stream: Stream) -> str:
    """The clauses for the rows of a join: their time, and how long they are kept."""
    options = _rules(stream)
    clause = f" WITH ({', '.join(options)})" if options else ""
    if stream.watermark is None or stream.event_time is None or carries_watermark(stream):
        return clause
    return f" (WATERMARK FOR {show_watermark(stream.event_time, stream.watermark)}){clause}"


def _rules(stream: Stream) -> list[str]:
    """The options that say what the events of a stream are."""
    rules = []
    if (stream.watermark is None or carries_watermark(stream)) and stream.event_time is not None:
        rules.append(f"event_time = {quoted(stream.event_time)}")
    own = ("id",) if join_behind(stream) is not None else ("id", "sign")
    rules += [f"{what} = {quoted(text)}" for what in own if (text := getattr(stream, what)) is not None]
    if stream.id_horizon != DEFAULT_HORIZON:
        rules.append(f"id_horizon = {quoted(show_duration(stream.id_horizon))}")
    if stream.max_ahead != DEFAULT_AHEAD:
        ahead = stream.max_ahead
        rules.append(f"max_ahead = {'NULL' if ahead is None else quoted(show_duration(ahead))}")
    if stream.keep is not None:
        rules.append(f"keep = {quoted(stream.keep)}")
    return rules


# Flows


def _query(flow: Flow, names: Mapping[Flow, str]) -> str:
    """The SELECT that a flow is."""
    if isinstance(flow, Union):
        return " UNION ALL ".join(
            f"({_query(part, names)})" if isinstance(part, Union) and part not in names else _query(part, names)
            for part in flow.several
        )
    columns = "*"
    if isinstance(flow, Select) and flow not in names:
        columns = ", ".join(named(text, name) for name, text in flow.columns)
        flow = flow.input
    where = ""
    if isinstance(flow, Where) and flow not in names:
        where = f" WHERE {flow.condition}"
        flow = flow.input
    lateral = ""
    if isinstance(flow, Explode) and flow not in names:
        lateral = f" {_lateral(flow)}"
        flow = flow.input
    return f"SELECT {columns} FROM {relation(flow, names)}{lateral}{where}"


def _lateral(step: Explode) -> str:
    function = "explode" if step.position is None else "posexplode"
    outer = "OUTER " if step.outer else ""
    return f"LATERAL VIEW {outer}{function}({step.expression}) AS {', '.join(map(identifier, step.made))}"


def relation(flow: Flow, names: Mapping[Flow, str]) -> str:
    """What stands after FROM for a flow."""
    if flow in names:
        return identifier(names[flow])
    if (join := undeclared_join(flow)) is not None:
        return f"({show_join(join, lambda side: relation(side, names), identifier)})"
    if isinstance(flow, Stream):
        return identifier(flow.name)
    if isinstance(flow, WithTime):
        return f"RETIME({relation(flow.input, names)}, {flow.expression})"
    if isinstance(flow, (Select, Where, Union, Explode)):
        return f"({_query(flow, names)})"
    if isinstance(flow, TableJoin) and (flow.prefix == f"{flow.table.name}_" or not flow.renames):
        word = "LEFT JOIN" if flow.how == "left" else "JOIN"
        on = " AND ".join(f"{t} = {flow.table.name}.{k}" for t, k in zip(flow.on, flow.table.key, strict=True))
        return f"(SELECT * FROM {relation(flow.input, names)} {word} {identifier(flow.table.name)} ON {on})"
    raise only_python(flow)


def named(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {identifier(name)}"


# Views


def _view(view: View, name: str, names: Mapping[Flow, str]) -> str:
    flow: Flow = view.input
    where = None
    if isinstance(flow, Where) and flow not in names:
        where, flow = flow.condition, flow.input
    windowed = not isinstance(view.windows, Global)
    keys = [named(text, key) for key, text in view.keys]
    groups = [text for _, text in view.keys]
    if windowed:
        keys, groups = [*keys, *WINDOW_COLUMNS], [*groups, *WINDOW_COLUMNS]
    calls = {name.lower(): show_aggregate(aggregate) for name, aggregate in written(view.aggregates)}
    shown = _written(view)
    items = [*keys, *(f"{_over(text, calls)} AS {identifier(name)}" for name, text in shown)]
    keep = "" if view.retention is None else f" WITH (retention = {quoted(show_duration(view.retention))})"
    lines = [f"CREATE CONTINUOUS VIEW {identifier(name)}{keep} AS", f"  SELECT {', '.join(items)}"]
    lines.append(f"  FROM {_source(view, flow, names)}")
    lines += [f"  WHERE {where}"] if where is not None else []
    lines += [f"  GROUP BY {', '.join(groups)}"] if groups else []
    lines += [f"  HAVING {_over(view.condition, calls)}"] if view.condition is not None else []
    emit = [show_trigger(view.firing)] if view.firing != (on_time() if view.windows.ends else each()) else []
    emit += [view.accumulation.upper()] if view.accumulation != "accumulating" else []
    lines += [f"  EMIT {' '.join(emit)}"] if emit else []
    lines += [f"  ALLOWED LATENESS {span(view.lateness)}"] if view.lateness else []
    return "\n".join(lines)


def _written(view: View) -> list[tuple[str, str]]:
    """What SQL says is shown: whether a pair's answer is exact stands beside it without a word."""
    shown = view.shown or tuple((name, name) for name, _ in view.aggregates)
    pairs = {exactness(name): name for name, aggregate in view.aggregates if isinstance(aggregate, Paired)}
    if not pairs:
        return list(shown)
    own = {name for name, _ in view.aggregates}
    columns: list[tuple[str, str]] = []
    for name, text in shown:
        if text in pairs and columns and columns[-1][1] == pairs[text] and exactness(columns[-1][0]) == name:
            continue
        if pairs.keys() & ({text} if text in own or text in pairs else set(parse(text).columns)):
            raise DefinitionError(
                f"SQL cannot express '{text}': a column that says what is exact stands right after its own",
                hint="select it there, or define the view in Python",
            )
        columns.append((name, text))
    left = {name for name, text in columns if name == text} if view.condition is not None else set()
    for column in pairs.keys() & set(parse(view.condition or "true").columns):
        if pairs[column] not in left:
            raise DefinitionError(
                f"SQL cannot express '{view.condition}': '{pairs[column]}' is not shown",
                hint="define the view in Python",
            )
    return columns


def _over(text: str, calls: Mapping[str, str]) -> str:
    """An expression over aggregates with their calls in the place of their names."""
    if text.lower() in calls:
        return calls[text.lower()]
    return spliced(text, Piece(text, 0, len(text)), None, calls)


def _source(view: View, flow: Flow, names: Mapping[Flow, str]) -> str:
    if isinstance(view.windows, (Global, CountWindow, Named)):
        return show_window(view.windows, relation(flow, names))
    if isinstance(flow, WithTime) and flow not in names:
        return show_window(view.windows, relation(flow.input, names), flow.expression)
    time = event_time(flow)
    if time is None:
        raise DefinitionError("SQL cannot express this view: its streams have event times of different names")
    return show_window(view.windows, relation(flow, names), time)
