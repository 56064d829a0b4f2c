"""How far an app is, in figures, read from its store."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace

from penstock.cli.lag import Lag, read_lags, read_tables
from penstock.dataflow.graph import GRAPH, graph_from_json
from penstock.model.time import BEGINNING, END, SECOND, Instant, show_instant
from penstock.store import Reader
from penstock.store.base import LATE_EVENTS
from penstock.store.file import HistorySize
from penstock.store.freshness import RECENT_ARRIVALS, RECENT_DELIVERIES, Freshness, freshness
from penstock.store.long_calls import LONG_CALLS, LongCall, parsed
from penstock.store.operator_timings import LATEST_DETAILS, OperatorTiming, latest_timings
from penstock.store.spark_work import SparkWork, latest_work
from penstock.store.state_size import IN_STORE

#: Over how many seconds the rate is measured.
_RECENT = 5.0


@dataclass(frozen=True)
class Figures:
    """What a store holds at one moment; `rate` is in events a second."""

    now: Instant
    commits: int = 0
    epochs: int = 0
    counters: dict[str, dict[str, int]] = field(default_factory=dict)  # by stream and kind
    streams: dict[str, Instant] = field(default_factory=dict)
    views: dict[str, Instant] = field(default_factory=dict)
    committed: Instant | None = None
    rate: float | None = None
    lags: dict[str, Lag] = field(default_factory=dict)  # by stream
    tables: dict[str, tuple[int, str | None]] = field(default_factory=dict)  # version, and why it is stale
    history: dict[str, HistorySize] = field(default_factory=dict)  # by stream
    states: dict[str, str] = field(default_factory=dict)  # by view where its state is
    operators: dict[str, OperatorTiming] = field(default_factory=dict)  # the last step of each
    work: dict[str, SparkWork] = field(default_factory=dict)  # by stream what its last epoch started in Spark
    long_calls: tuple[LongCall, ...] = ()  # user code that makes no progress

    @property
    def behind(self) -> int | None:
        """How many events the logs hold beyond the last commits, where at least one of them tells."""
        known = [lag.behind for lag in self.lags.values() if lag.behind is not None]
        return sum(known) if known else None

    @property
    def events(self) -> int:
        return self.count("events")

    def count(self, kind: str, stream: str | None = None) -> int:
        """How many events there were, or how many of them were late, duplicate or dead."""
        return sum(of.get(kind, 0) for name, of in self.counters.items() if stream in (None, name))

    @property
    def watermark(self) -> Instant | None:
        """The watermark of the view that is furthest behind, of those that have one."""
        return min((mark for mark in self.views.values() if BEGINNING < mark < END), default=None)


def read(store: Reader, rate: float | None = None) -> Figures:
    """The current figures."""
    last, details = store.last(), store.query(LATEST_DETAILS)["details"]
    return Figures(
        now=time.time_ns() // 1000,
        commits=0 if last is None else last.number,
        epochs=store.query("SELECT coalesce(sum(epoch + 1), 0) FROM __progress").item(),
        counters=_by_stream(store.counters()),
        streams={name: saved["watermark"] for name, saved in sorted(store.trackers().items())},
        views=dict(sorted(store.view_times().items())),
        committed=None if last is None else last.now,
        rate=rate,
        lags=read_lags(store),
        tables=read_tables(store),
        history=store.history_sizes(),
        states=read_states(store),
        operators=latest_timings(details),
        work=latest_work(details),
        long_calls=tuple(call for text in store.query(LONG_CALLS)["statement"] for call in parsed(text)),
    )


def read_freshness(store: Reader, since: Instant) -> Freshness:
    """How fresh views and sinks are, by what was committed and delivered since an instant. It reads many rows."""
    arrivals, deliveries = (store.query(text, [since]).rows() for text in (RECENT_ARRIVALS, RECENT_DELIVERIES))
    graphs = store.query(GRAPH)["statement"]
    feeding = graph_from_json(graphs[0]).feeding if len(graphs) else {}
    return freshness(arrivals, deliveries, feeding, since)


def read_states(store: Reader) -> dict[str, str]:
    """Where the state of each view is."""
    sizes = store.state_sizes()
    return {name: sizes[name].text() if name in sizes else IN_STORE for name in store.views()}


def _by_stream(counters: dict[str, int]) -> dict[str, dict[str, int]]:
    by_stream: dict[str, dict[str, int]] = {}
    for name, count in counters.items():
        stream, _, kind = name.rpartition(".")
        by_stream.setdefault(stream, {})[kind] = count
    return by_stream


class Meter:
    """Reads the figures again and again, and tells the rate of the last seconds."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._seen: deque[tuple[float, int]] = deque()

    def read(self) -> Figures:
        figures, now = read(self._store), time.monotonic()
        self._seen.append((now, figures.events))
        while len(self._seen) > 2 and self._seen[1][0] < now - _RECENT:
            self._seen.popleft()
        (since, before), passed = self._seen[0], now - self._seen[0][0]
        rate = (figures.events - before) / passed if since < now else None
        return replace(figures, rate=rate)


def recent_rate(store: Reader, commits: int = 20) -> float | None:
    """Events a second over the last commits, by the clock that they recorded."""
    rows = store.query(f"SELECT now, coalesce(rows, 0) FROM __commits ORDER BY number DESC LIMIT {commits}").rows()
    counts = [count for _, count in rows]
    passed = (rows[0][0] - rows[-1][0]) / SECOND if rows else 0
    # The events of the oldest of them came before its time.
    return sum(counts[:-1]) / passed if passed > 0 and any(counts) else None


def show_mark(mark: Instant | None) -> str:
    """A watermark, as people read it.

    >>> show_mark(1_714_564_800_500_000), show_mark(None), show_mark(BEGINNING)
    ('2024-05-01T12:00:00Z', 'none yet', 'none yet')
    """
    if mark is None or mark <= BEGINNING:
        return "none yet"
    return "the end" if mark >= END else show_instant(mark - mark % SECOND)


def show_lag(mark: Instant | None, now: Instant) -> str:
    """How far a watermark is behind the clock, or ahead of it.

    >>> [show_lag(0, seconds * SECOND) for seconds in (4.26, 75, 7300, 400000)]
    ['4.3 s', '1 min 15 s', '2 h 1 min', '4 days']
    >>> show_lag(5_156_307_800_000, 0)
    '59 days ahead of the clock'
    """
    if mark is None or not BEGINNING < mark < END:
        return "–"
    seconds = (now - mark) / SECOND
    return show_seconds(seconds) if seconds >= 0 else f"{show_seconds(-seconds)} ahead of the clock"


def show_late(figures: Figures, stream: str | None = None) -> str:
    """How many events were late, and for how many views in sum: an event may be late for several.

    >>> show_late(Figures(0, counters={"orders": {"events": 9, "late": 5, "late_events": 2}}))
    '2 (5 by view)'
    >>> show_late(Figures(0, counters={"orders": {"events": 9}}))
    '0'
    """
    events, pairs = figures.count(LATE_EVENTS, stream), figures.count("late", stream)
    if pairs and not events:
        return f"{number(pairs)} by view"  # an older store, which did not count the events
    return number(events) if events == pairs else f"{number(events)} ({number(pairs)} by view)"


def show_seconds(seconds: float) -> str:
    """How long something takes, as people read it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24:,} days".replace(",", " ")


def show_delay(seconds: float) -> str:
    """The same where milliseconds count.

    >>> show_delay(0.4823), show_delay(12.34)
    ('482 ms', '12.3 s')
    """
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else show_seconds(seconds)


def show_amount(amount: int, unit: str) -> str:
    """How much an epoch takes.

    >>> show_amount(20_000, "events"), show_amount(4_200_000, "bytes"), show_amount(0, "bytes")
    ('20 000', '4.2 MB', '0.0 MB')
    """
    return f"{amount / 1e6:.1f} MB" if unit == "bytes" else number(amount)


def number(value: float | None) -> str:
    """A count with its thousands apart.

    >>> number(1234567), number(None)
    ('1 234 567', '–')
    """
    return "–" if value is None else f"{value:,.0f}".replace(",", " ")


def show_times(factor: float | None) -> str:
    """An amplification, as people read it.

    >>> show_times(2.345), show_times(None)
    ('2.3×', '–')
    """
    return "–" if factor is None else f"{factor:.1f}×"


def show_bytes(size: int) -> str:
    """A size as people read it.

    >>> show_bytes(900), show_bytes(1_536), show_bytes(5 << 30)
    ('900 B', '1.5 KB', '5.0 GB')
    """
    units = ("B", "KB", "MB", "GB", "TB")
    power = min(max(size, 1).bit_length() - 1, 49) // 10
    return f"{size / 1024**power:.1f} {units[power]}" if power else f"{size} B"
