"""An app: a set of streams, views and sinks that is run together.

>>> import penstock as ps
>>> app = ps.App("shop")
>>> orders = app.stream("orders", ps.files("orders"), schema="item string, at timestamp", event_time="at",
...                     watermark=ps.bounded("10 seconds"))
>>> app.view("by_item", orders.group_by("item").window(ps.fixed("1 minute")).agg(n=ps.count())).columns
('item', 'window_start', 'window_end', 'n', 'final')
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import DefinitionError, unknown
from penstock.learning.definition import learning_of
from penstock.learning.model import Model
from penstock.model.changes import Changes, check_below
from penstock.model.epochs import Epochs
from penstock.model.join import StreamJoin, stream_join
from penstock.model.loops import SIGN, FrameLoop, Loop, Until, iteration
from penstock.model.naming import valid_name
from penstock.model.pattern_processor import Give, processor_of
from penstock.model.patterns import Pattern
from penstock.model.placement import Placement, placement
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
from penstock.runtime.derived.base import check_inputs
from penstock.runtime.derived.epochs import OnEpoch, epochs_stream
from penstock.runtime.derived.joins.source import DISK, MEMORY, JoinSource
from penstock.runtime.derived.learning.source import LearnerSource
from penstock.runtime.derived.loops.source import LoopSource
from penstock.runtime.derived.processors.source import ProcessorSource
from penstock.runtime.derived.topologies.source import TopologySource
from penstock.runtime.queries.realtime import check_lane, is_lane
from penstock.runtime.tables.read import check_reload, view_table
from penstock.sinks import Sink, check, check_rows
from penstock.sources import Files, Source
from penstock.sources.database import Database
from penstock.topology.builder import TopologyBuilder
from penstock.topology.definition import Guarantee
from penstock.topology.streams import Flowing, flowing

if TYPE_CHECKING:
    from penstock.runtime.run import Run


_log = logging.getLogger("penstock")


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
        self.placements: dict[str, Placement] = {}  # where a view's state lives, if the user chose
        self.from_now: set[str] = set()  # views that begin with the next epoch, whatever history there is

    def stream(
        self,
        name: str,
        log: Source,
        *,
        schema: str | Schema,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        id: str | None = None,
        id_horizon: str | timedelta = "1 day",
        max_ahead: str | timedelta | None = "1 day",
        sign: str | None = None,
        keep: str | timedelta | None = None,
        epoch: str | Epochs | None = None,
    ) -> Stream:
        """A stream of this app: `penstock.stream` with a log."""
        self._check_free(name)
        if not isinstance(log, Source):
            raise DefinitionError(f"not a log: {log!r}", hint="for example ps.files('directory')")
        log.check(Schema.parse(schema))
        made = stream(
            name, log, schema=schema, event_time=event_time, watermark=watermark,
            id=id, id_horizon=id_horizon, max_ahead=max_ahead, sign=sign, keep=keep, epoch=epoch,
        )  # fmt: skip
        self.streams[name] = made
        return made

    def table(
        self,
        name: str,
        source: Source | Database,
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
        self._check_free(made.name, "stream", "table")  # it may have the name of the view that it shows
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
        self._check_free(name)
        keys = (by,) if isinstance(by, str) else tuple(by)
        process = process_of(flow, processor, keys, not_negative(allow_late, "allow_late"), event_time)
        if parts < 1:
            raise DefinitionError(f"a processor has at least one part, and not {parts}")
        made = stream(
            name, ProcessorSource(process, parts), schema=process.schema, event_time=event_time, watermark=watermark,
            max_ahead=max_ahead, keep=keep,
        )  # fmt: skip
        self._take_stream(made)
        return processed(made, process)

    def iterate(
        self,
        name: str,
        flow: Flow,
        body: Loop | FrameLoop | type[Loop],
        *,
        until: Until | None = None,
        max_rounds: int | None = None,
        keep: str | timedelta | None = None,
    ) -> Stream:
        """A loop over the events of a flow, as a stream of this name: what its keys show, change by change.

        In each epoch keys send messages to one another, round by round, until none is sent, or until `until` says so
        of a round (`penstock.model.loops.Round`). An epoch that needs more than `max_rounds` goes wrong: the events
        that make it so become dead letters. Rows have a `sign`: what was shown before is taken back.
        """
        self._check_free(name)
        loop = iteration(flow, body, max_rounds, until)
        made = stream(name, LoopSource(loop), schema=loop.schema, sign=SIGN, keep=keep)
        return self._take_stream(made)

    def on_epoch(
        self,
        name: str,
        of: Stream,
        function: OnEpoch,
        *,
        output: str | None = None,
        keep: str | timedelta | None = None,
    ) -> Stream:
        """Calls a function when an epoch of a stream is over: all of it is committed, in all that is made from it.

        Epochs are the producer's, where the stream says `epoch=…`, else Penstock's own, by the number of their commit.
        The function gets an `Epoch` with its `number`. What it returns, a row of `output` or a list of rows, is a
        stream of this name with the epoch before it: that comes exactly once. The function itself is called at least
        once: where it does something elsewhere, the number tells whether it was done.
        """
        self._check_free(name)
        log, schema = epochs_stream(of, function, output)
        made = stream(name, log, schema=schema, keep=keep)
        return self._take_stream(made)

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
        state: str = DISK,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        max_ahead: str | timedelta | None = "1 day",
        keep: str | timedelta | None = None,
    ) -> Stream:
        """Two streams joined by Spark, as a stream of this name: `on="ad = ad_id", within=("-1 hour", "0 seconds")`.

        `within` bounds the right one's time less the left one's; or both must fall into the same `window`. Columns of
        the right that the left has too get names that begin with `prefix`. `how`: inner, left, right or full.
        What waits for a partner lies on disk (`state`) or, as long as it fits, in memory, which is faster.
        `event_time` and `watermark` are those of the rows that come out.
        """
        self._check_free(name)
        join = stream_join(left, right, on, within, window, how, prefix)
        return self.take_join(
            name, join, state=state, event_time=event_time, watermark=watermark, max_ahead=max_ahead, keep=keep
        )

    def take_join(
        self,
        name: str,
        join: StreamJoin,
        *,
        state: str = DISK,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        max_ahead: str | timedelta | None = "1 day",
        keep: str | timedelta | None = None,
    ) -> Stream:
        """Adds what a join gives that was made elsewhere, as a stream of this name."""
        if state not in (DISK, MEMORY):
            raise unknown("place for the state of a join", state, [DISK, MEMORY])
        made = stream(
            name, JoinSource(join, state), schema=join.schema, event_time=event_time, watermark=watermark,
            max_ahead=max_ahead, keep=keep,
        )  # fmt: skip
        return self._take_stream(made)

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

    def learn(
        self,
        name: str,
        flow: Flow,
        model: Model | type[Model],
        *,
        give: str | Sequence[str] = (),
        by: str | None = None,
        learns: str | None = None,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        max_ahead: str | timedelta | None = "1 day",
        keep: str | timedelta | None = None,
        parts: int = 8,
        versions: int = 10,
        every: int = 1000,
    ) -> Stream:
        """What a model predicts for the events of a flow, as a stream of this name; then it learns from them.

        A row of it is the columns `give` of an event, what the model predicts, and `version`: the one before the epoch.
        It learns from the events for which the condition `learns` holds, else from all, in `parts` parts: those with
        the same value of the column `by` are in the same one. The last `versions` are kept, and each `every`-th.
        """
        self._check_free(name)
        learning = learning_of(flow, model, give, by, learns=learns, parts=parts, versions=versions, every=every)
        made = stream(
            name, LearnerSource(learning), schema=learning.schema, event_time=event_time, watermark=watermark,
            max_ahead=max_ahead, keep=keep,
        )  # fmt: skip
        return self._take_stream(made)

    def topology(
        self,
        name: str,
        builder: TopologyBuilder,
        *,
        outputs: str | Sequence[str | tuple[str, str]] | None = None,
        guarantee: Guarantee = "at_least_once",
        timeout: str | timedelta = "30 seconds",
        tries: int = 3,
        max_pending: int = 100_000,
        options: Mapping[str, object] | None = None,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        max_ahead: str | timedelta | None = "1 day",
        keep: str | timedelta | None = None,
    ) -> Flowing:
        """What spouts and bolts make of streams, as a stream of this name.

        `outputs` are the bolts, or (bolt, stream), whose rows leave the topology: where none are named, those that no
        bolt takes. A message is a dead letter after `tries` tries, and has failed when its tree is not complete after
        `timeout`. `options` come to the components in their context. `event_time` and `watermark` are of the rows.
        """
        self._check_free(name)
        topology = builder.build(
            name, outputs=outputs, guarantee=guarantee, timeout=timeout, tries=tries, max_pending=max_pending,
            options=options,
        )  # fmt: skip
        made = stream(
            name, TopologySource(topology), schema=topology.schema, event_time=event_time, watermark=watermark,
            max_ahead=max_ahead, keep=keep,
        )  # fmt: skip
        self._take_stream(made)
        return flowing(made, topology)

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

        `batch="6 hours"` computes it anew from the master that often; late events then count too. `audit="1 day"`
        proves that often that it is what its events make of it. A new view begins with all of history, where the master
        has it; with `backfill=False` it begins with the next epoch.

        `state`: "store" keeps the view's state in the store, "sharded" in segments that Spark's tasks merge, "auto" (the
        default) in the store until it is large. `shards` is the number of parts that it is cut into.
        """
        if not valid_name(name):
            raise DefinitionError(f"«{name}» cannot be a view's name", hint="use letters, digits and underscores")
        self._check_free(name, "stream", "view")
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
        if state is not None or shards is not None:
            self.placements[name] = placement(name, state, shards)
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

    def _check_free(self, name: str, *kinds: str) -> None:
        """Refuses a name that the app has given to something of these kinds; without them, to anything."""
        known: dict[str, Collection[str]] = {"stream": self.streams, "view": self.views, "table": self.tables}
        for kind in kinds or known:
            if name in known[kind]:
                raise DefinitionError(f"the app has a {kind} «{name}» already", hint="choose another name")

    def _take_stream(self, made: Stream) -> Stream:
        """Adds a stream that is made from others of this app."""
        check_inputs({**self.streams, made.name: made})
        self.streams[made.name] = made
        return made

    def run(self, directory: str | Path = ".penstock", **options: object) -> Run:
        """The app, ready to run; `options` are those of `penstock.runtime.run.Run`.

        It runs as `penstock run` runs it: views are computed and audited as often as they say, new ones begin with all
        of history, and shells find it. What shells have made in its directory runs too, but is not added to this app.
        """
        from penstock.control import Live, copied

        live = Live(copied(self), directory, **options)
        for warning in live.warnings:
            _log.warning(warning)
        return live.run


def _every(given: str | timedelta, what: str) -> Duration:
    """How often: «every 6 hours», «6 hours», «daily», or a timedelta."""
    words = {"daily": "1 day", "hourly": "1 hour", "weekly": "7 days"}
    text = words.get(given, given.removeprefix("every ")) if isinstance(given, str) else given
    found = duration(text)
    if found <= 0:
        raise DefinitionError(f"{what} every {given}", hint="say for example '6 hours'")
    return found
