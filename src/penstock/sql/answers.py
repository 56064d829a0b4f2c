"""The answers to SHOW, DESCRIBE and EXPLAIN, and what a SUBSCRIBE asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from penstock.app import App
from penstock.errors import DefinitionError, unknown
from penstock.model.expressions import Bound, bind
from penstock.model.stream import Flow, Stream
from penstock.model.types import Schema
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import CountBased
from penstock.sql import statements as sql
from penstock.sql.catalog import compiled, flows
from penstock.sql.errors import Piece
from penstock.sql.history import refuse_history
from penstock.sql.showing import show
from penstock.sql.tables import show_table
from penstock.text_table import text_table

#: What a pane has besides the columns of its view.
_PANE = (
    ("diff", "int"), ("kind", "string"), ("timing", "string"), ("index", "bigint"), ("commit", "bigint"),
    ("epoch", "bigint"),
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A small table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def __str__(self) -> str:
        return text_table([dict(zip(self.columns, row, strict=True)) for row in self.rows])


@dataclass(frozen=True)
class Subscription:
    """Who wants which panes: `where` is bound to `pane_schema` of the view."""

    view: str
    where: Bound | None
    snapshot: bool
    progress: bool


def answer(app: App, statement: sql.Statement) -> Answer:
    """The answer to a statement that asks about an app, not about its data."""
    match statement:
        case sql.Show():
            return _list(app, statement.what)
        case sql.ShowCreate():
            return _lines("statement", _created(app, statement))
        case sql.Describe():
            return _described(app, statement)
        case sql.Explain():
            return _lines("plan", _explained(app, statement))
    word = statement.whole.text.split()[0].upper()
    raise statement.source.error(f"{word} is not a statement about an app", statement.whole)


def subscription(app: App, statement: sql.Subscribe) -> Subscription:
    """What a SUBSCRIBE asks for, checked."""
    return subscribed(app.views, statement, lambda name: pane_schema(app.views[name]))


def subscribed(views: Collection[str], statement: sql.Subscribe, schema_of: Callable[[str], Schema]) -> Subscription:
    """What a SUBSCRIBE asks for of views of which only the columns of panes are known."""
    source, name = statement.source, statement.view
    if name.text not in views:
        raise source.placed(unknown("view", name.text, views), name, {})
    where = None
    if statement.where is not None:
        with source.at(statement.where):
            where = bind(statement.where.text, schema_of(name.text))
        if where.type not in (None, "boolean"):
            raise source.error(f"'{where.text}' is {where.type}, and must be boolean", statement.where)
    return Subscription(name.text, where, statement.snapshot, statement.progress)


def table_schema(view: View) -> Schema:
    """The columns of a view's table with their types."""
    bound = "bigint" if isinstance(view.windows, CountBased) else "timestamp"
    return Schema((
        *((name, view.bound(text).type or "string") for name, text in view.keys),
        ("window_start", bound), ("window_end", bound),
        *view.value_types.items(),
        ("final", "boolean"),
    ))  # fmt: skip


def pane_schema(view: View) -> Schema:
    """The columns of a view's panes with their types."""
    return with_pane(table_schema(view).columns)


def with_pane(own: tuple[tuple[str, str], ...]) -> Schema:
    """The columns of a view's table, and what a pane has besides."""
    names = {name for name, _ in own}
    return Schema((*own, *((name, kind) for name, kind in _PANE if name not in names)))


def _lines(title: str, text: str) -> Answer:
    return Answer((title,), tuple((line,) for line in text.splitlines()))


def _list(app: App, what: str) -> Answer:
    if what == "VIEWS":
        views = ((name, _shown(view, name)) for name, view in app.views.items())
        return Answer(("view", "definition"), tuple(views))
    if what == "SINKS":
        return Answer(
            ("sink", "of", "into"), tuple((n, _of(app, n), repr(sink)) for n, (_, _, sink) in app.sinks.items())
        )
    if what == "ALERTS":
        alerts = ((one.name, one.of, one.when) for one in app.alerts.values())
        return Answer(("alert", "view", "when"), tuple(alerts))
    if what == "TABLES":
        known = app.tables.values()
        tables = ((t.name, t.schema.ddl(), ", ".join(t.key), t.shown_reload, repr(t.source)) for t in known)
        return Answer(("table", "columns", "key", "reload", "from"), tuple(tables))
    streams: dict[str, Flow] = {**app.streams, **flows(app)}
    rows = [
        (name, flow.schema.ddl() if flow.schema is not None else "", _origin(flow)) for name, flow in streams.items()
    ]
    return Answer(("stream", "columns", "from"), tuple(rows))


def _of(app: App, sink: str) -> str:
    """The view or stream that a sink delivers."""
    view, definition, _ = app.sinks[sink]
    known: dict[str, Flow] = {**app.streams, **flows(app)}
    return (
        view
        if isinstance(definition, View)
        else next((name for name, flow in known.items() if flow == definition), repr(definition))
    )


def _origin(flow: Flow) -> str:
    if isinstance(flow, Stream):
        return "no log" if flow.log is None else repr(flow.log)
    return ", ".join(source.name for source in flow.sources)


def _shown(view: View, name: str) -> str:
    try:
        return " ".join(show(view, name).split("AS\n", 1)[1].split())
    except DefinitionError:
        return repr(view)


def _find(app: App, statement: sql.Statement, name: Piece) -> View | Flow:
    known: dict[str, View | Flow] = {**app.streams, **flows(app), **app.views}
    if name.text not in known:
        raise statement.source.placed(unknown("stream or view", name.text, known), name, {})
    return known[name.text]


def _created(app: App, statement: sql.ShowCreate) -> str:
    if statement.name.text in app.tables:
        with statement.source.at(statement.name):
            return show_table(app.tables[statement.name.text])
    definition = _find(app, statement, statement.name)
    names = {flow: name for name, flow in flows(app).items() if flow is not definition}
    with statement.source.at(statement.name):
        return show(definition, statement.name.text, names)


def _described(app: App, statement: sql.Describe) -> Answer:
    if statement.name.text in app.sinks:
        _, _, sink = app.sinks[statement.name.text]
        return Answer(("sink", "of", "into"), ((statement.name.text, _of(app, statement.name.text), repr(sink)),))
    if statement.name.text in app.tables:
        table = app.tables[statement.name.text]
        return Answer(("column", "type", "is"), tuple((n, k, "key" if n in table.key else "") for n, k in table.schema))
    definition = _find(app, statement, statement.name)
    if isinstance(definition, View):
        roles = dict.fromkeys((name for name, _ in definition.keys), "key")
        roles |= dict.fromkeys(WINDOW_COLUMNS, "window") | dict.fromkeys(definition.values, "value")
        rows = tuple((name, kind, roles.get(name, "")) for name, kind in table_schema(definition))
        return Answer(("column", "type", "is"), rows)
    columns = () if definition.schema is None else definition.schema.columns
    return Answer(("column", "type"), tuple(columns))


def _explained(app: App, statement: sql.Explain) -> str:
    if statement.name is not None and statement.name.text.upper() == "APP" and statement.name.text not in app.views:
        return app.explain()
    if statement.name is not None:
        definition = _find(app, statement, statement.name)
        if not isinstance(definition, View):
            raise statement.source.error(f"'{statement.name.text}' is not a view", statement.name, hint="use DESCRIBE")
        others = {name: view for name, view in app.views.items() if name != statement.name.text}
        return definition.explain(others)
    inner = statement.statement
    if isinstance(inner, sql.CreateView):
        return compiled(app, inner).explain()
    if isinstance(inner, sql.History):
        raise refuse_history(inner)
    raise statement.source.error("EXPLAIN takes APP, a view, CREATE CONTINUOUS VIEW or SELECT", statement.whole)
