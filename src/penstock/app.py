"""An app: a set of streams, views and sinks that is run together.

>>> import penstock as ps
>>> app = ps.App("shop")
>>> orders = app.stream("orders", ps.files("orders"), schema="item string, at timestamp", event_time="at",
...                     watermark=ps.bounded("10 seconds"))
>>> app.view("by_item", orders.group_by("item").window(ps.fixed("1 minute")).agg(n=ps.count())).columns
('item', 'window_start', 'window_end', 'n', 'final')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.derived import check_inputs
from penstock.engine.join_log import JoinLog
from penstock.engine.process_log import ProcessLog
from penstock.engine.realtime import check_lane, is_lane
from penstock.engine.table_read import check_reload, view_table
from penstock.errors import DefinitionError
from penstock.logs import Files, Log
from penstock.logs.database import Database
from penstock.model.changes import Changes, check_below
from penstock.model.join import stream_join
from penstock.model.naming import valid_name
from penstock.model.pattern_processor import Give, processor_of
from penstock.model.patterns import Pattern
from penstock.model.process import Processed, process_of, processed
from penstock.model.processor import Processor
from penstock.model.rows import Rows
from penstock.model.stream import Flow, Stream, stream
from penstock.model.table import AT_START, Table, table
from penstock.model.time import Duration, duration, not_negative
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.watermarks import Watermark
from penstock.model.windows import Window
from penstock.sinks import Sink, check, check_rows

if TYPE_CHECKING:
    from penstock.engine.run import Run


class App:
    """Streams, views and sinks under their names. Definitions are added here and do nothing until the app runs."""

    def __init__(self, name: str) -> None:
        if not valid_name(name):
            raise DefinitionError(f"«{name}» cannot be an app's name", hint="use letters, digits and underscores")
        self.name = name
        self.streams: dict[str, Stream] = {}
        self.flows: dict[str, Flow] = {}  # streams made from others that have a name, as SQL gives them
        self.views: dict[str, View] = {}
        self.tables: dict[str, Table] = {}
        self.sinks: dict[str, tuple[str, View | Flow, Sink]] = {}
        self.batches: dict[str, Duration] = {}  # how often a view is computed from the master
        self.audits: dict[str, Duration] = {}  # how often it is audited
        self.from_now: set[str] = set()  # views that begin with the next epoch, whatever history there is

    def stream(
        self,
        name: str,
        log: Log,
        *,
        schema: str | Schema,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        id: str | None = None,
        id_horizon: str | timedelta = "1 day",
        max_ahead: str | timedelta | None = "1 day",
        sign: str | None = None,
        keep: str | timedelta | None = None,
    ) -> Stream:
        """A stream of this app: `penstock.stream` with a log."""
        if name in self.streams:
            raise DefinitionError(f"the app has a stream «{name}» already", hint="choose another name")
        if not isinstance(log, Log):
            raise DefinitionError(f"not a log: {log!r}", hint="for example ps.files('directory')")
        log.check(Schema.parse(schema))
        made = stream(
            name, log, schema=schema, event_time=event_time, watermark=watermark,
            id=id, id_horizon=id_horizon, max_ahead=max_ahead, sign=sign, keep=keep,
        )  # fmt: skip
        self.streams[name] = made
        return made

    def table(
        self,
        name: str,
        source: Log | Database,
        *,
        schema: str | Schema,
        key: str | Sequence[str],
        reload: str = AT_START,
        valid_from: str | None = None,
        valid_to: str | None = None,
        broadcast: bool | None = None,
    ) -> Table:
        """A table of this app, `penstock.table` with a source: `ps.files(…)` or `ps.database(…)`."""
        if not isinstance(source, (Files, Database)):
            raise DefinitionError(
                f"a table cannot be read from {source!r}",
                hint="read ps.files('folder', format='parquet') or ps.database('postgresql://…', 'SELECT …')",
            )
        made = table(
            name, source, schema=schema, key=key, reload=reload, valid_from=valid_from, valid_to=valid_to,
            broadcast=broadcast,
        )  # fmt: skip
        return self.take_table(made)

    def table_of(self, view: View | str, *, name: str | None = None, reload: str = "10 seconds") -> Table:
        """The rows of a view of this app as a table: those of its last commit when it is read.

        Its key is the view's. Where the view has windows, an event finds the row of the window that it falls into.
        """
        found = [known for known, kept in self.views.items() if view in (known, kept)]
        if len(found) != 1:
            raise DefinitionError(f"the app has no view {view!r}", hint="make it with app.view(…) first")
        return self.take_table(view_table(name or found[0], found[0], self.views[found[0]], reload))

    def take_table(self, made: Table) -> Table:
        """Adds a table that was made elsewhere."""
        if made.name in self.tables or made.name in self.streams:
            raise DefinitionError(f"the app has a stream or table «{made.name}» already", hint="choose another name")
        check_reload(made)
        self.tables[made.name] = made
        return made

    def process(
        self,
        name: str,
        flow: Flow,
        processor: type[Processor],
        *,
        by: str | Sequence[str],
        event_time: str | None = None,
        watermark: Watermark | None = None,
        allow_late: str | timedelta = "0 seconds",
        max_ahead: str | timedelta | None = "1 day",
        keep: str | timedelta | None = None,
        parts: int = 32,
    ) -> Processed:
        """What a processor makes of the events of a flow, as a stream of this name.

        `by` are its keys: column names or «expression AS name». `event_time` and `watermark` are those of the rows that
        it gives out. Events further behind the watermark than `allow_late` are refused as late. The keys are in `parts`
        parts, each the work of one task at a time; their number stays what it was when the app first ran.
        """
        if name in self.streams or name in self.views:
            raise DefinitionError(f"the app has a stream or view «{name}» already", hint="choose another name")
        keys = (by,) if isinstance(by, str) else tuple(by)
        process = process_of(flow, processor, keys, not_negative(allow_late, "allow_late"), event_time)
        if parts < 1:
            raise DefinitionError(f"a processor has at least one part, and not {parts}")
        made = stream(
            name, ProcessLog(process, parts), schema=process.schema, event_time=event_time, watermark=watermark,
            max_ahead=max_ahead, keep=keep,
        )  # fmt: skip
        check_inputs({**self.streams, name: made})
        self.streams[name] = made
        return processed(made, process)

    def join(
        self,
        name: str,
        left: Flow,
        right: Flow,
        *,
        on: str | Sequence[str],
        within: tuple[str, str] | None = None,
        window: Window | None = None,
        how: str = "inner",
        prefix: str = "",
        event_time: str | None = None,
        watermark: Watermark | None = None,
        max_ahead: str | timedelta | None = "1 day",
        keep: str | timedelta | None = None,
    ) -> Stream:
        """Two streams joined by Spark, as a stream of this name: `on="ad = ad_id", within=("-1 hour", "0 seconds")`.

        `within` bounds the right one's time less the left one's; or both must fall into the same `window`. Columns of
        the right that the left has too get names that begin with `prefix`. `how`: inner, left, right or full.
        `event_time` and `watermark` are those of the rows that come out.
        """
        if name in self.streams or name in self.views or name in self.tables:
            raise DefinitionError(f"the app has a stream or view «{name}» already", hint="choose another name")
        join = stream_join(left, right, on, within, window, how, prefix)
        made = stream(
            name, JoinLog(join), schema=join.schema, event_time=event_time, watermark=watermark, max_ahead=max_ahead,
            keep=keep,
        )  # fmt: skip
        check_inputs({**self.streams, name: made})
        self.streams[name] = made
        return made

    def match(
        self,
        name: str,
        flow: Flow,
        pattern: Pattern,
        *,
        by: str | Sequence[str],
        output: str,
        give: Give,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        allow_late: str | timedelta = "0 seconds",
        keep: str | timedelta | None = None,
    ) -> Processed:
        """The matches of a pattern in the events of each key, as a stream of this name.

        `give(key, match)` makes the rows of `output` of a match. Events are matched in the order of their times, once
        the watermark has passed them. The rest is as for `process`.
        """
        return self.process(
            name, flow, processor_of(pattern, output, give), by=by, event_time=event_time, watermark=watermark,
            allow_late=allow_late, keep=keep,
        )  # fmt: skip

    def view(
        self,
        name: str,
        view: View,
        *,
        batch: str | timedelta | None = None,
        audit: str | timedelta | None = None,
        backfill: bool = True,
    ) -> View:
        """Keeps a view up to date under a name: it becomes a table of that name.

        `batch="6 hours"` computes it anew from the master that often; late events then count too. `audit="1 day"`
        proves that often that it is what its events make of it. A new view begins with all of history, where the master
        has it; with `backfill=False` it begins with the next epoch.
        """
        if not valid_name(name):
            raise DefinitionError(f"«{name}» cannot be a view's name", hint="use letters, digits and underscores")
        if name in self.views or name in self.streams:
            raise DefinitionError(f"the app has a stream or view «{name}» already", hint="choose another name")
        if not isinstance(view, View):
            raise DefinitionError(f"«{name}» is not a view: {view!r}", hint="end it with .agg(…)")
        for source in view.input.sources:
            if isinstance(source, Changes):
                check_below({name: view}, self.views)
            elif self.streams.get(source.name) != source:
                raise DefinitionError(
                    f"the view «{name}» reads the stream «{source.name}», which is not this app's",
                    hint="make it with app.stream(…)",
                )
        if batch is not None:
            self.batches[name] = _every(batch, f"a batch run of «{name}»")
        if audit is not None:
            self.audits[name] = _every(audit, f"an audit of «{name}»")
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
        found = [known for known, kept in self.views.items() if view in (known, kept)]
        if not found:
            raise DefinitionError(f"the app has no view {view!r}", hint="make it with app.view(…) first")
        if len(found) > 1:
            raise DefinitionError(f"the views {', '.join(found)} are the same", hint="say which by its name")
        if not isinstance(sink, Sink):
            raise DefinitionError(f"not a sink: {sink!r}", hint="for example ps.to_jsonl('directory')")
        check(sink, self.views[found[0]])
        chosen = name or f"{found[0]}_{type(sink).__name__.lower()}"
        if not valid_name(chosen) or chosen in self.sinks:
            raise DefinitionError(f"the app cannot have another sink «{chosen}»", hint="say name='another_name'")
        self.sinks[chosen] = (found[0], self.views[found[0]], sink)
        return sink

    def _row_sink(self, flow: Flow, sink: Sink, name: str | None) -> Sink:
        for source in flow.sources:
            if self.streams.get(source.name) != source:
                raise DefinitionError(
                    f"the sink reads the stream «{source.name}», which is not this app's",
                    hint="make it with app.stream(…)",
                )
        if not isinstance(sink, Sink):
            raise DefinitionError(f"not a sink: {sink!r}", hint="for example ps.to_jsonl('directory')")
        check_rows(sink)
        if is_lane(sink):
            check_lane(flow, sink)
        if flow.schema is not None:
            Rows.of(flow, flow.schema)
        chosen = name or f"{'_'.join(source.name for source in flow.sources)}_{type(sink).__name__.lower()}"
        if not valid_name(chosen) or chosen in self.sinks or chosen in self.views:
            raise DefinitionError(f"the app cannot have another sink «{chosen}»", hint="say name='another_name'")
        same = [known for known, kept, _ in self.sinks.values() if kept == flow]
        self.sinks[chosen] = (same[0] if same else chosen, flow, sink)
        return sink

    def run(self, directory: str | Path = ".penstock", **options: object) -> Run:
        """Runs the app until it is stopped; see `penstock.engine.run.Run`."""
        from penstock.engine.run import Run

        return Run(self.name, self.streams, self.views, Path(directory), sinks=self.sinks, **options)  # type: ignore[arg-type]


def _every(given: str | timedelta, what: str) -> Duration:
    """How often: «every 6 hours», «6 hours», «daily», or a timedelta."""
    words = {"daily": "1 day", "hourly": "1 hour", "weekly": "7 days"}
    text = words.get(given, given.removeprefix("every ")) if isinstance(given, str) else given
    found = duration(text)
    if found <= 0:
        raise DefinitionError(f"{what} every {given}", hint="say for example '6 hours'")
    return found
