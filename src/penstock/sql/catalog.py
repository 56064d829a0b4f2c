"""What SQL knows of an app: its streams, views and sinks, and the streams made from others, which have names only here.

>>> from penstock.app import App
>>> from penstock.sql.read import parse
>>> app = App("shop")
>>> for statement in parse(\"\"\"
...     CREATE STREAM orders (item STRING, price INT) FROM FILES 'orders';
...     CREATE CONTINUOUS VIEW by_item AS SELECT item, sum(price) AS total FROM orders GROUP BY item\"\"\"):
...     define(app, statement)
>>> app.views["by_item"].columns
('item', 'window_start', 'window_end', 'total', 'final')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from penstock.app import App
from penstock.errors import unknown
from penstock.model.changes import above
from penstock.model.join import StreamJoin, join_behind
from penstock.model.stream import Flow, Stream
from penstock.model.table import Table, tables
from penstock.model.view import View
from penstock.sinks import Sink, check
from penstock.sql import statements as sql
from penstock.sql.errors import Piece, Source
from penstock.sql.flow import flow_of, is_event_time
from penstock.sql.joins import Find
from penstock.sql.options import Options
from penstock.sql.queries import Named
from penstock.sql.sinks import sink_of
from penstock.sql.stream_joins import stream_join
from penstock.sql.streams import stream_of, time_of
from penstock.sql.tables import table_of
from penstock.sql.views import view_of

#: The SQL words for values of Python's options.
_IN_SQL = {"call .retracting(), or fire once: .trigger(ps.on_close())": "add EMIT … RETRACTING, or EMIT ON CLOSE"}


def flows(app: App) -> dict[str, Flow]:
    """The streams of an app that were made from others, by name."""
    return app.flows


def define(app: App, statement: sql.Statement, *, without_log: bool = False) -> None:
    """Adds to an app what a statement makes, or removes what it drops.

    A stream without a log can be fed by scripts only; it is refused unless `without_log`.
    """
    match statement:
        case sql.CreateStream():
            _stream(app, statement, without_log)
        case sql.CreateStreamAs():
            _stream_as(app, statement)
        case sql.CreateView():
            _view(app, statement)
        case sql.CreateSink():
            _sink(app, statement)
        case sql.CreateAlert():
            _alert(app, statement)
        case sql.Drop(kind="ALERT"):
            _drop_alert(app, statement)
        case sql.Drop():
            _drop(app, statement)
        case sql.CreateTable():
            _table(app, statement, without_log)
        case _:
            word = statement.whole.text.split()[0].upper()
            raise statement.source.error(
                f"{word} is not a definition", statement.whole, hint="use CREATE and DROP statements"
            )


def finder(app: App, source: Source, target: str) -> Find:
    """How queries of an app find a stream by its name. `target` is the name of what the query is for."""

    return _Finder(app, source, target)


@dataclass(frozen=True)
class _Finder:
    app: App
    source: Source
    target: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def tables(self) -> Mapping[str, Table]:
        return self.app.tables

    @property
    def streams(self) -> set[str]:
        return {*self.app.streams, *flows(self.app), *self.app.views}

    def is_event_time(self, flow: Flow, text: str) -> bool:
        return is_event_time(flow, text)

    def join_name(self) -> str:
        """The name of the next join that is not declared: it belongs to what the query is for."""
        number = next(self.numbers)
        return f"{self.target}_join" if number == 1 else f"{self.target}_join_{number}"

    def __call__(self, named: Named, /) -> Flow:
        app, name = self.app, named.name.text
        known: dict[str, Flow] = {**app.streams, **flows(app)}
        if name in known:
            return known[name]
        if name in app.views:
            with self.source.at(named.name, _IN_SQL):
                return app.views[name].changes(name)
        if name in app.tables:
            hint = f"join a stream with it: FROM stream JOIN {name} ON …"
            raise self.source.error(f"'{name}' is a table, not a stream", named.name, hint=hint)
        raise self.source.placed(unknown("stream", name, [*known, *app.views]), named.name, {})


#: The options of a view that are not part of its definition.
_OF_APP = ("backfill", "batch", "audit", "state", "shards")


def compiled(app: App, statement: sql.CreateView) -> View:
    """The view that a statement means in an app, without adding it."""
    options = Options(statement.source, statement.options)
    place = options.place("ttl")
    if place is not None:
        raise statement.source.error(
            "a view has no ttl: how long it keeps rows is its retention", place,
            hint="write retention = '3 days'",
        )  # fmt: skip
    retention = options.take("retention").get("retention")
    options.take(*_OF_APP)
    options.nothing_left("a view")
    view = view_of(statement, finder(app, statement.source, statement.name.text))
    if retention is None:
        return view
    with options.blamed(statement.options[0].place):
        return view.retain(retention)


def _stream(app: App, statement: sql.CreateStream, without_log: bool) -> None:
    _refuse_taken(app, statement, statement.name)
    stream = stream_of(statement)
    if stream.log is None and not without_log:
        hint = "add where it comes from: FROM FILES 'directory'"
        raise statement.source.error(f"the stream '{stream.name}' has no log", statement.name, hint=hint)
    app.streams[stream.name] = stream


def _stream_as(app: App, statement: sql.CreateStreamAs) -> None:
    _refuse_taken(app, statement, statement.name)
    source, find = statement.source, finder(app, statement.source, statement.name.text)
    join = stream_join(source, statement.query, find)
    if join is not None:
        with source.at(statement.name if statement.watermark is None else statement.watermark.time):
            app.take_join(statement.name.text, join, **time_of(statement))
        return
    for piece in ([statement.watermark.time] if statement.watermark else []) + [
        option.name for option in statement.options
    ]:
        hint = "leave it out; RETIME(stream, time) gives another event time"
        raise source.error("a stream made from another has its time and its options", piece, hint=hint)
    flows(app)[statement.name.text] = flow_of(source, statement.query, find)


def _table(app: App, statement: sql.CreateTable, without_source: bool) -> None:
    _refuse_taken(app, statement, statement.name)
    table = table_of(statement)
    if table.source is None and not without_source:
        hint = "add where it comes from: FROM FILES 'directory'"
        raise statement.source.error(f"the table '{table.name}' has no source", statement.name, hint=hint)
    if table.source is None:
        app.tables[table.name] = table
        return
    with statement.source.at(statement.name):
        app.take_table(table)


def _view(app: App, statement: sql.CreateView) -> None:
    name, old = statement.name.text, None
    if statement.replace:
        old = app.views.get(name)
    if old is None:
        _refuse_taken(app, statement, statement.name)
    view = compiled(app, statement)
    with statement.source.at(statement.name):
        for _, sink in _sinks_of(app, name):
            check(sink, view)
        streams = dict(app.streams)
        app.views.pop(name, None)
        _forget_joins(app)
        options = Options(statement.source, statement.options).take(*_OF_APP)
        try:
            app.view(name, view, **options)
        except Exception:
            if old is not None:
                app.views[name] = old
            app.streams.clear()
            app.streams.update(streams)
            raise
    for sink_name, sink in _sinks_of(app, name):
        app.sinks[sink_name] = (name, view, sink)


def _sinks_of(app: App, view: str) -> list[tuple[str, Sink]]:
    return [
        (name, sink)
        for name, (of, definition, sink) in app.sinks.items()
        if of == view and isinstance(definition, View)
    ]


def _sink(app: App, statement: sql.CreateSink) -> None:
    source, of = statement.source, statement.view
    known: dict[str, Flow] = {**app.streams, **flows(app)}
    if of.text not in app.views and of.text not in known:
        raise source.placed(unknown("view or stream", of.text, [*app.views, *known]), of, {})
    if statement.name.text in app.sinks:
        raise source.error(f"the app has a sink '{statement.name.text}' already", statement.name)
    sink = sink_of(statement)
    with source.at(statement.target.kind):
        app.sink(of.text if of.text in app.views else known[of.text], sink, name=statement.name.text)


def _alert(app: App, statement: sql.CreateAlert) -> None:
    source, of = statement.source, statement.view
    if of.text not in app.views:
        raise source.placed(unknown("view", of.text, app.views), of, {})
    _refuse_taken(app, statement, statement.name)
    sinks = () if statement.sink is None else (sink_of(statement.sink),)
    with source.at(statement.when):
        app.alert(of.text, statement.when.text, sinks, name=statement.name.text)


def _drop_alert(app: App, statement: sql.Drop) -> None:
    name, source = statement.name.text, statement.source
    alert = app.alerts.get(name)
    if alert is None:
        if statement.if_exists:
            return
        raise source.placed(unknown("alert", name, app.alerts), statement.name, {})
    users = [*above(name, app.views), *(one.name for one in app.alerts.values() if one.of == name)]
    users += [
        reader for reader in _readers(app, alert.stream) if reader != name and not reader.startswith(f"{name}_to")
    ]
    if users:
        hint = f"drop {users[-1]} first"
        raise source.error(f"'{name}' is read by {', '.join(users)}", statement.name, hint=hint)
    for sink in [sink for sink, (_, flow, _) in app.sinks.items() if flow == alert.stream or flow == alert.view]:
        del app.sinks[sink]
    del app.alerts[name], app.views[name], app.streams[alert.stream.name]


def _refuse_part(app: App, statement: sql.Drop) -> None:
    """Refuses to drop what an alert is made of, and the view that it watches."""
    name, source = statement.name.text, statement.source
    for alert in app.alerts.values():
        if (statement.kind, name) in (("VIEW", alert.name), ("STREAM", alert.stream.name)):
            hint = f"DROP ALERT {alert.name}"
            raise source.error(f"'{name}' is part of the alert '{alert.name}'", statement.name, hint=hint)
        if statement.kind == "VIEW" and name == alert.of:
            hint = f"drop it first: DROP ALERT {alert.name}"
            raise source.error(f"the alert '{alert.name}' watches '{name}'", statement.name, hint=hint)


def _refuse_taken(app: App, statement: sql.Statement, name: Piece) -> None:
    places = (("stream", app.streams), ("view", app.views), ("stream", flows(app)), ("table", app.tables))
    for kind, known in places:
        if name.text in known:
            replace = kind == "view" and isinstance(statement, sql.CreateView)
            raise statement.source.error(
                f"the app has a {kind} '{name.text}' already", name,
                hint="write CREATE OR REPLACE, or choose another name" if replace else "choose another name",
            )  # fmt: skip


def _drop(app: App, statement: sql.Drop) -> None:
    name, source = statement.name.text, statement.source
    places: dict[str, tuple[dict[str, Any], ...]] = {
        "STREAM": (app.streams, flows(app)),
        "VIEW": (app.views,),
        "SINK": (app.sinks,),
        "TABLE": (app.tables,),
    }
    _refuse_part(app, statement)
    registries = [known for known in places[statement.kind] if name in known]
    if not registries:
        if statement.if_exists:
            return
        raise source.placed(
            unknown(statement.kind.lower(), name, [n for known in places[statement.kind] for n in known]),
            statement.name, {},
        )  # fmt: skip
    if statement.kind == "TABLE":
        users = _joined_with(app, name)
        if users:
            raise source.error(
                f"'{name}' is read by {', '.join(users)}", statement.name, hint=f"drop {users[-1]} first"
            )
    if statement.kind == "STREAM":
        users = _readers(app, registries[0][name])
        if users:
            raise source.error(
                f"'{name}' is read by {', '.join(users)}", statement.name, hint=f"drop {users[-1]} first"
            )
    if statement.kind == "VIEW":
        users = above(name, app.views)
        if users:
            raise source.error(
                f"'{name}' is read by {', '.join(users)}", statement.name, hint=f"drop {users[-1]} first"
            )
        for sink, _ in _sinks_of(app, name):
            del app.sinks[sink]
    del registries[0][name]
    _forget_joins(app)


def _forget_joins(app: App) -> None:
    """Removes joins that were not declared and that nothing reads any more."""
    for name, stream in reversed(list(app.streams.items())):
        if isinstance(stream.log, StreamJoin) and not _readers(app, stream):
            del app.streams[name]


def _joined_with(app: App, table: str) -> list[str]:
    """The streams, views and sinks that are joined with a table."""
    derived = [name for name, flow in flows(app).items() if table in tables(flow)]
    sinks = [name for name, (_, of, _) in app.sinks.items() if isinstance(of, Flow) and table in tables(of)]
    return [*derived, *(name for name, view in app.views.items() if table in tables(view.input)), *sinks]


def _readers(app: App, flow: Flow) -> list[str]:
    """The streams, views and sinks that read a stream."""

    def reads(other: Flow) -> bool:
        join = other.log if isinstance(other, Stream) and isinstance(other.log, StreamJoin) else None
        parts = other.inputs if join is None else join.flows
        return other == flow or any(reads(part) for part in parts)

    derived = [name for name, other in flows(app).items() if other is not flow and reads(other)]
    joins = {name: join for name, stream in app.streams.items() if (join := join_behind(stream)) is not None}
    derived += [name for name, join in joins.items() if any(reads(side) for side in join.flows)]
    sinks = [name for name, (_, of, _) in app.sinks.items() if isinstance(of, Flow) and reads(of)]
    return [*derived, *(name for name, view in app.views.items() if reads(view.input)), *sinks]
