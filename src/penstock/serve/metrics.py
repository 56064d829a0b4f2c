"""Metrics for Prometheus: the app's from the store, and the server's own.

What comes from the store is the same whichever process tells it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.dataflow.graph import GRAPH, graph_from_json
from penstock.model.alert_processor import changes_of
from penstock.model.time import BEGINNING, END, SECOND
from penstock.serve.alerts import AlertNow, read_alerts
from penstock.serve.askers import Askers, Question, ResultRows
from penstock.serve.views import Catalog
from penstock.store.base import LATE_EVENTS, REFUSALS
from penstock.store.freshness import RECENT_ARRIVALS, RECENT_DELIVERIES, SPAN, Delay, freshness
from penstock.store.operator_timings import LATEST_DETAILS, latest_timings
from penstock.store.spark_work import latest_work
from penstock.store.versions import TABLES_NOW

_QUESTIONS: Final = (
    "SELECT name, value FROM __counters",
    "SELECT name, watermark FROM __views",
    "SELECT coalesce(max(number), 0), max(now) FROM __commits",
    "SELECT coalesce(sum(epoch + 1), 0) FROM __progress",
    "SELECT name, value FROM __meta WHERE name IN ('panes', 'trimmed')",
    "SELECT sink, position FROM __sinks",
    """SELECT stream, CASE WHEN removed IS NULL THEN 'listed' ELSE 'replaced' END, count(*), sum(bytes) FROM __files
    GROUP BY 1, 2""",
    "SELECT stream, bytes, again FROM __written",
    """SELECT c.stream, c.rows, c.behind, c.timings FROM __progress p JOIN __commits c ON c.number = p."commit"
    WHERE c.stream IS NOT NULL ORDER BY c.number""",
    TABLES_NOW,
    """SELECT s.owner, count(g.path), coalesce(sum(g.rows - g.gone), 0), coalesce(sum(g.length), 0) FROM __sharded s
    JOIN __views v ON v.name = s.owner LEFT JOIN __segments g ON g.owner = s.owner AND g.removed IS NULL
    AND g.kind IN ('rows', 'final') GROUP BY s.owner""",
    LATEST_DETAILS,
    "SELECT stream, snapshot FROM __trackers",
    GRAPH,
)


class Metrics:
    """The metrics of a server. `failures` tells how often each sink has failed in a row, where that is known."""

    def __init__(
        self, askers: Askers, catalog: Catalog, failures: Callable[[], Mapping[str, int]] | None = None
    ) -> None:
        self._askers, self._catalog, self._failures = askers, catalog, failures
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "penstock_http_requests", "Requests that were answered.", ("method", "route", "status"),
            registry=self._registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "penstock_http_request_seconds", "How long requests took.", ("route",), registry=self._registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.accepted = Counter(
            "penstock_ingest_events", "Events that were accepted over HTTP.", ("stream",), registry=self._registry
        )

    async def text(self, subscribers: Mapping[str, int]) -> bytes:
        """All metrics, as Prometheus reads them."""
        since = time.time_ns() // 1000 - SPAN
        recent = [Question(text, [since]) for text in (RECENT_ARRIVALS, RECENT_DELIVERIES)]
        *answers, arrivals, deliveries = await self._askers.own(*(Question(text) for text in _QUESTIONS), *recent)
        graphs = answers.pop().rows
        graph = graph_from_json(graphs[0][0]) if graphs else None
        feeding = {} if graph is None else graph.feeding
        alerts = await read_alerts(self._askers, (await self._catalog.known(fresh=True)).views, graph)
        fresh = freshness(arrivals.rows, deliveries.rows, feeding, since)
        registry = CollectorRegistry()
        delays = [_delays("view", "to the commit", fresh.views), _delays("sink", "to its delivery", fresh.sinks)]
        registry.register(_Once([*_of_store(answers), *delays, *_alerts(alerts, answers[0]), *self._own(subscribers)]))
        return generate_latest(registry) + generate_latest(self._registry)

    def _own(self, subscribers: Mapping[str, int]) -> Iterable[Metric]:
        yield _gauge("penstock_subscribers", "Clients that follow a view.", "view", subscribers)
        if self._failures is not None:
            failures = self._failures()
            yield _gauge("penstock_sink_failures", "How often a sink has failed in a row.", "sink", failures)


class _Once(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _of_store(answers: list[ResultRows]) -> Iterable[Metric]:
    counters, views, commits, epochs, meta, sinks, files, written, last_epochs, tables, segments, details, trackers = (
        one.rows for one in answers
    )
    events = CounterMetricFamily("penstock_events", "Events that were read.", labels=["stream"])
    refused = CounterMetricFamily(
        "penstock_refused", "Rows that were refused. An event is late once for each view.", labels=["stream", "kind"]
    )
    late = CounterMetricFamily("penstock_late_events", "Events late for at least one view.", labels=["stream"])
    for name, value in counters:
        stream, _, kind = name.rpartition(".")
        if kind == "events":
            events.add_metric([stream], value)
        elif kind in REFUSALS:
            refused.add_metric([stream, kind], value)
        elif kind == LATE_EVENTS:
            late.add_metric([stream], value)
    yield from (events, refused, late)
    last, at = commits[0]
    yield CounterMetricFamily("penstock_commits", "Commits of the store.", last)
    yield CounterMetricFamily("penstock_epochs", "Epochs that were committed.", epochs[0][0])
    if at is not None:
        yield GaugeMetricFamily("penstock_last_commit_timestamp_seconds", "When the last commit was.", at / SECOND)
    known = dict(meta)
    newest = known.get("panes", 0)
    yield CounterMetricFamily("penstock_panes", "Panes that have fired.", newest)
    yield GaugeMetricFamily("penstock_outbox_panes", "Panes that the outbox holds.", newest - known.get("trimmed", 0))
    yield from _watermarks(views)
    yield from _stream_lags(trackers)
    positions = dict(sinks)
    yield _gauge("penstock_sink_position", "The last pane that a sink has.", "sink", positions)
    behind = {sink: newest - position for sink, position in positions.items()}
    yield _gauge("penstock_sink_behind_panes", "Panes that a sink does not have yet.", "sink", behind)
    yield from _history(files, written)
    yield from _last_epochs(last_epochs)
    yield from _tables(tables)
    yield from _segments(segments)
    yield from _operators(details)
    yield from _work(details)


def _alerts(alerts: Sequence[AlertNow], counters: ResultRows) -> Iterable[Metric]:
    """For how many keys alerts fire, and how often they have changed."""
    firing = {one.definition.name: float(one.firing) for one in alerts}
    yield _gauge("penstock_alert_firing", "For how many keys an alert fires.", "alert", firing)
    counts = dict(counters.rows)
    changes = CounterMetricFamily("penstock_alert_changes", "How often keys began to fire or ended.", labels=["alert"])
    for name in firing:
        changes.add_metric([name], counts.get(f"{changes_of(name)}.events", 0))
    yield changes


def _delays(kind: str, end: str, delays: Mapping[str, Delay]) -> Metric:
    """The freshness of views or of sinks."""
    text = f"How long events of the last minute took from their arrival {end}."
    family = GaugeMetricFamily(f"penstock_{kind}_freshness_seconds", text, labels=[kind, "quantile"])
    for name, one in delays.items():
        family.add_metric([name, "0.5"], one.median)
        family.add_metric([name, "0.99"], one.high)
    return family


def _operators(details: list[list[Any]]) -> Iterable[Metric]:
    """The last steps of joins, processors and patterns."""
    steps = latest_timings(text for (text,) in details)
    seconds = {name: step.seconds for name, step in steps.items()}
    yield _gauge("penstock_operator_seconds", "How long an operator's last step took.", "operator", seconds)
    jobs = {name: step.jobs for name, step in steps.items()}
    yield _gauge("penstock_operator_jobs", "Spark jobs that an operator's last step started.", "operator", jobs)


def _work(details: list[list[Any]]) -> Iterable[Metric]:
    """What the last epochs of streams started in Spark."""
    epochs = latest_work(text for (text,) in details)
    jobs = {stream: work.jobs for stream, work in epochs.items()}
    yield _gauge("penstock_epoch_jobs", "Spark jobs that a stream's last epoch started.", "stream", jobs)
    stages = {stream: work.stages for stream, work in epochs.items()}
    yield _gauge("penstock_epoch_stages", "Stages of these jobs.", "stream", stages)


def _segments(segments: list[list[Any]]) -> Iterable[Metric]:
    """What views in segments take."""
    texts = (
        ("penstock_view_segments", "Segments that hold a view's rows."),
        ("penstock_view_segment_rows", "Rows in a view's segments, with versions that newer ones replaced."),
        ("penstock_view_segment_bytes", "Bytes of a view's segments."),
    )
    for place, (name, text) in enumerate(texts, 1):
        yield _gauge(name, text, "view", {row[0]: float(row[place]) for row in segments})


def _history(files: list[list[Any]], written: list[list[Any]]) -> Iterable[Metric]:
    counts = GaugeMetricFamily(
        "penstock_history_files", "Files of the history: listed, or replaced and not removed yet.",
        labels=["stream", "state"],
    )  # fmt: skip
    sizes = GaugeMetricFamily("penstock_history_bytes", "The same in bytes.", labels=["stream", "state"])
    for stream, state, count, size in files:
        counts.add_metric([stream, state], count)
        sizes.add_metric([stream, state], size)
    wrote = CounterMetricFamily(
        "penstock_history_written_bytes", "Bytes of the history that were written.", labels=["stream", "by"]
    )
    for stream, first, again in written:
        wrote.add_metric([stream, "epochs"], first)
        wrote.add_metric([stream, "compaction"], again)
    yield from (counts, sizes, wrote)


def _watermarks(views: list[list[Any]]) -> Iterable[Metric]:
    marks = {name: mark / SECOND for name, mark in views if mark is not None and BEGINNING < mark < END}
    yield _gauge("penstock_view_watermark_seconds", "A view's watermark, in seconds since 1970.", "view", marks)
    lag = {name: time.time() - mark for name, mark in marks.items()}
    yield _gauge(
        "penstock_view_lag_seconds",
        "How far a view's watermark is behind the clock; ahead of it, below zero.",
        "view",
        lag,
    )


def _stream_lags(trackers: list[list[Any]]) -> Iterable[Metric]:
    known = {name: json.loads(snapshot)["watermark"] for name, snapshot in trackers}
    lags = {name: time.time() - mark / SECOND for name, mark in known.items() if mark and BEGINNING < mark < END}
    text = "How far a stream's watermark is behind the clock; ahead of it, below zero."
    yield _gauge("penstock_stream_lag_seconds", text, "stream", lags)


def _last_epochs(epochs: list[list[Any]]) -> Iterable[Metric]:
    parts = GaugeMetricFamily(
        "penstock_epoch_seconds", "What the last epoch of a stream spent on its parts.", labels=["stream", "part"]
    )
    for stream, _, _, timings in epochs:
        for part, seconds in json.loads(timings).items():
            parts.add_metric([stream, part], seconds)
    yield parts
    rows = {stream: count or 0 for stream, count, _, _ in epochs}
    yield _gauge("penstock_epoch_events", "Events of a stream's last epoch.", "stream", rows)
    behind = {stream: events for stream, _, events, _ in epochs if events is not None}
    yield _gauge("penstock_stream_behind_events", "Events that a stream's log holds beyond.", "stream", behind)


def _tables(tables: list[list[Any]]) -> Iterable[Metric]:
    if tables:
        versions = {table: version for table, version, _ in tables}
        yield _gauge("penstock_table_version", "The version of a table that the last epoch had.", "table", versions)
        stale = {table: int(reason is not None) for table, _, reason in tables}
        yield _gauge("penstock_table_stale", "Whether a table could not be read again.", "table", stale)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
