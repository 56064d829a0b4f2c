"""An app: a set of streams, views and sinks that is run together.

>>> import penstock as ps
>>> app = ps.App("shop")
>>> orders = app.stream("orders", ps.files("orders"), schema="item string, at timestamp", event_time="at",
...                     watermark=ps.bounded("10 seconds"))
>>> app.view("by_item", orders.group_by("item").window(ps.fixed("1 minute")).agg(n=ps.count())).columns
('item', 'window_start', 'window_end', 'n', 'final')
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar, Unpack

from penstock.dataflow.alert_stream import Alert, Condition, alert
from penstock.dataflow.compile import Explanation, Graph, graph_of
from penstock.dataflow.join_stream import join_stream, joined_stream, joins_of
from penstock.dataflow.process_stream import pattern_stream, processor_stream
from penstock.errors import DefinitionError, PenstockError
from penstock.model.placement import Placement, placement
from penstock.model.stream import Flow, Stream
from penstock.model.table import Table
from penstock.model.time import Duration, duration
from penstock.model.view import View
from penstock.runtime.definition_checks import (
    check_name,
    check_row_sink,
    check_stream,
    check_view,
    made_from,
    valid_name,
)
from penstock.runtime.derived.definitions import epoch_stream, loop_stream, model_stream, topology_stream
from penstock.runtime.tables.definitions import check_reload, source_table, view_table
from penstock.sinks import Sink, check
from penstock.sources.streams import source_stream

if TYPE_CHECKING:
    from penstock.runtime.run import Run
    from penstock.start import RunOptions


class Output(Protocol):
    """What an operator gives, with the stream that its rows are in."""

    @property
    def stream(self) -> Stream: ...


Parameters = ParamSpec("Parameters")
Definition = TypeVar("Definition", bound=Stream | Table | Output)


class DefinitionMethod(Generic[Parameters, Definition]):
    """A method of an app: it calls a function with the same parameters, and adds what that defines to the app."""

    def __init__(self, define: Callable[Parameters, Definition]) -> None:
        self._define = define
        self.__doc__ = define.__doc__

    def __get__(self, app: App | None, owner: type[App]) -> Callable[Parameters, Definition]:
        if app is None:
            return self._define

        @wraps(self._define)
        def add(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Definition:
            definition = self._define(*args, **kwargs)
            if isinstance(definition, Table):
                app.take_table(definition)
            else:
                app.take_stream(definition if isinstance(definition, Stream) else definition.stream)
            return definition

        return add


class App:
    """Streams, views and sinks under their names. Definitions are added here and do nothing until the app runs."""

    def __init__(self, name: str) -> None:
        check_name(name, "an app's name")
        self.name = name
        self.streams: dict[str, Stream] = {}
        self.flows: dict[str, Flow] = {}  # streams made from others that have a name, as SQL gives them
        self.views: dict[str, View] = {}
        self.tables: dict[str, Table] = {}
        self.sinks: dict[str, tuple[str, View | Flow, Sink]] = {}
        self.batches: dict[str, Duration] = {}  # how often a view is computed from the history
        self.audits: dict[str, Duration] = {}  # how often it is audited
        self.placements: dict[str, Placement] = {}  # where a view's state lives, if the user chose
        self.alerts: dict[str, Alert] = {}
        self.from_now: set[str] = set()  # views that begin with the next epoch, whatever history there is

    # Each takes the parameters of its function, and adds what that defines.
    stream = DefinitionMethod(source_stream)
    table = DefinitionMethod(source_table)
    process = DefinitionMethod(processor_stream)
    match = DefinitionMethod(pattern_stream)
    iterate = DefinitionMethod(loop_stream)
    on_epoch = DefinitionMethod(epoch_stream)
    join = DefinitionMethod(join_stream)
    take_join = DefinitionMethod(joined_stream)
    learn = DefinitionMethod(model_stream)
    topology = DefinitionMethod(topology_stream)

    def table_of(self, view: View | str, *, name: str | None = None, reload: str | timedelta = "10 seconds") -> Table:
        """The rows of a view of this app as a table: those of its last commit when it is read.

        Its key is the view's. Where the view has windows, an event finds the row of the window that it falls into.
        """
        names = [known for known, definition in self.views.items() if view in (known, definition)]
        if len(names) != 1:
            raise DefinitionError(f"the app has no view {view!r}", hint="make it with app.view(…) first")
        return self.take_table(view_table(name or names[0], names[0], self.views[names[0]], reload))

    def take_table(self, table: Table) -> Table:
        """Adds a table that was made elsewhere."""
        self._check_free(table.name, "stream", "table")  # it may have the name of the view that it shows
        check_reload(table)
        self.tables[table.name] = table
        return table

    def take_stream(self, stream: Stream) -> Stream:
        """Adds a stream that was made elsewhere."""
        self._check_free(stream.name)
        for source in made_from(stream):
            self._take_joins(source)
        check_stream(stream, self.streams)
        self.streams[stream.name] = stream
        return stream

    def view(
        self,
        name: str,
        view: View,
        *,
        batch: str | timedelta | None = None,
        audit: str | timedelta | None = None,
        backfill: bool = True,
        state: str | None = None,
        shards: int | None = None,
    ) -> View:
        """Keeps a view up to date under a name: it becomes a table of that name.

        `batch="6 hours"` recomputes it from the history every 6 hours; late events then count too. `audit="1 day"`
        recomputes it every day and compares every row. A new view begins with all events that the history holds;
        with `backfill=False` it begins with the next epoch.

        `state`: "store" keeps the view's state in the store, "sharded" in segments that Spark's tasks merge, "auto"
        (the default) in the store until it is large. `shards` is the number of parts that it is cut into.
        """
        check_name(name, "a view's name")
        self._check_free(name, "stream", "view")
        if not isinstance(view, View):
            raise DefinitionError(f"'{name}' is not a view: {view!r}", hint="end it with .agg(…)")
        self._take_joins(view.input)
        check_view(name, view, self.streams, self.views)
        if state is not None or shards is not None:
            self.placements[name] = placement(name, state, shards)
        if batch is not None:
            self.batches[name] = _every(batch, f"a batch run of '{name}'")
        if audit is not None:
            self.audits[name] = _every(audit, f"an audit of '{name}'")
        if not backfill:
            self.from_now.add(name)
        self.views[name] = replace(view, name=name)
        return self.views[name]

    def sink(self, view: View | Flow | str, sink: Sink, *, name: str | None = None) -> Sink:
        """Delivers a view's panes: `app.sink(trending, ps.to_jsonl("panes"))`. Its progress is kept by its name.

        A stream, or what steps without state make of one, delivers its rows: `app.sink(visits.where("ms > 100"), …)`.
        """
        if isinstance(view, Flow):
            return self._row_sink(view, sink, name)
        names = [known for known, definition in self.views.items() if view in (known, definition)]
        if not names:
            raise DefinitionError(f"the app has no view {view!r}", hint="make it with app.view(…) first")
        if len(names) > 1:
            raise DefinitionError(f"the views {', '.join(names)} are the same", hint="pass the view's name")
        if not isinstance(sink, Sink):
            raise DefinitionError(f"not a sink: {sink!r}", hint="for example ps.to_jsonl('directory')")
        check(sink, self.views[names[0]])
        chosen = name or f"{names[0]}_{type(sink).__name__.lower()}"
        if not valid_name(chosen) or chosen in self.sinks:
            raise DefinitionError(f"the app cannot have another sink '{chosen}'", hint="set name='another_name'")
        self.sinks[chosen] = (names[0], self.views[names[0]], sink)
        return sink

    def alert(
        self, view: View | str, when: Condition, to: Sink | Sequence[Sink] = (), *, name: str | None = None,
    ) -> Alert:  # fmt: skip
        """Watches the rows of a view: an alert fires for a key while the condition `when` holds, and is then resolved.

        What it is now for each key becomes a view of its name; `to` gets a row when it begins to fire and one when it
        is resolved: `app.alert(trending, when="posts > 1000", to=ps.to_http("https://example.com/hooks/alerts"))`.
        A window counts until the next one has ended, so an alert goes on while one window after the other holds.
        """
        known = [known for known, kept in self.views.items() if view in (known, kept)]
        if len(known) != 1:
            raise DefinitionError(f"the app has no view {view!r}", hint="make it with app.view(…) first")
        chosen = name or f"{known[0]}_alert"
        check_name(chosen, "an alert's name")
        made = alert(chosen, known[0], self.views[known[0]], when)
        sinks = (to,) if isinstance(to, Sink) else tuple(to)
        for sink in sinks:
            check_row_sink(made.stream, sink, {**self.streams, made.stream.name: made.stream})
        self._check_free(chosen, "stream", "view")
        self.take_stream(made.stream)
        made = replace(made, view=self.view(chosen, made.view))
        for number, sink in enumerate(sinks, 1):
            self.sink(made.stream, sink, name=f"{chosen}_to" if number == 1 else f"{chosen}_to_{number}")
        self.alerts[chosen] = made
        return made

    def _row_sink(self, flow: Flow, sink: Sink, name: str | None) -> Sink:
        self._take_joins(flow)
        check_row_sink(flow, sink, self.streams)
        chosen = name or f"{'_'.join(source.name for source in flow.sources)}_{type(sink).__name__.lower()}"
        if not valid_name(chosen) or chosen in self.sinks or chosen in self.views:
            raise DefinitionError(f"the app cannot have another sink '{chosen}'", hint="set name='another_name'")
        same = [known for known, definition, _ in self.sinks.values() if definition == flow]
        self.sinks[chosen] = (same[0] if same else chosen, flow, sink)
        return sink

    def _take_joins(self, flow: Flow) -> None:
        """Adds the streams that joins of flows give, as `stream.join(…)` makes them."""
        for joined in joins_of(flow):
            if self.streams.get(joined.name) != joined:
                self.take_stream(joined)

    def _check_free(self, name: str, *kinds: str) -> None:
        """Refuses a name that the app has given to something of these kinds; without them, to anything."""
        known: dict[str, Collection[str]] = {"stream": self.streams, "view": self.views, "table": self.tables}
        for kind in kinds or known:
            if name in known[kind]:
                raise DefinitionError(f"the app has a {kind} '{name}' already", hint="choose another name")

    def graph(self) -> Graph:
        """The app as a graph: what it reads, keeps and gives, and what flows where. `print(app.explain())` shows it."""
        return graph_of(self)

    def explain(self) -> Explanation:
        """The dataflow of the app: one line for each source, table, operator, view and sink, in groups.

        In a notebook it is shown with its picture, and so is the app.
        """
        return Explanation(self.graph())

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    def start(
        self, directory: str | Path = ".penstock", *, serve: bool | int = False, **options: Unpack[RunOptions]
    ) -> Run:
        """Starts the app and returns its run, which reads on in the background: `with app.start("state") as run: …`.

        It does what `penstock run` does: views are computed and audited as often as they say, new ones begin with all
        of history, and shells find it. What shells have made in its directory runs too, but is not added to this app.
        `serve=True` serves it over HTTP at the usual port, `serve=9000` at another one, `serve=0` at any that is free.
        """
        from penstock.start import start

        return start(self, directory, serve, options)

    def run(
        self,
        directory: str | Path = ".penstock",
        *,
        serve: bool | int | None = None,
        stop_after: str | timedelta | None = None,
        until_caught_up: bool = False,
        drain: bool = False,
        **options: Unpack[RunOptions],
    ) -> None:
        """Runs the app and blocks until Ctrl-C or SIGTERM, as `penstock run` does. It stops at an epoch boundary.

        `stop_after="1 hour"` ends it after that time, `until_caught_up=True` when everything that the sources hold now
        is committed; with `drain=True` all open windows are then closed. It is served over HTTP, as `serve` says in
        `start`; where the packages of the server are not installed, it is not.
        """
        from penstock.start import run

        _refuse_old_spelling(sys._getframe(1))
        run(self, directory, serve, stop_after, until_caught_up, drain, options)


def _refuse_old_spelling(caller: FrameType) -> None:
    """Refuses `app.run(…).start()`, as earlier versions wanted it: it would block before it gets to `start`."""
    following = [one for one in dis.get_instructions(caller.f_code) if one.offset > caller.f_lasti]
    if following and following[0].argval == "start":
        raise PenstockError("app.run(…) blocks until the app ends", hint="write app.start(…) for app.run(…).start()")


def _every(period: str | timedelta, what: str) -> Duration:
    """How often: 'every 6 hours', '6 hours', 'daily', or a timedelta."""
    words = {"daily": "1 day", "hourly": "1 hour", "weekly": "7 days"}
    text = words.get(period, period.removeprefix("every ")) if isinstance(period, str) else period
    micros = duration(text)
    if micros <= 0:
        raise DefinitionError(f"{what} every {period}", hint="write for example '6 hours'")
    return micros
