"""Freshness: how long events of the last minute took from their arrival to the commit, and to delivery by sinks.

>>> second = 1_000_000
>>> arrivals = [(7, "orders", 10 * second, 10.2 * second, Ages.of([100, 300]).text())]
>>> fresh = freshness(arrivals, [("out", 7, 11 * second, 10 * second, 2)], {"totals": {"orders"}})
>>> fresh.views["totals"].text(), fresh.sinks["out"].text()
('0.30 s, 99 % within 0.49 s', '1.10 s, 99 % within 1.29 s')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.model.time import SECOND, Instant
from penstock.store.arrivals import Ages

#: The span of time that the figures are of.
SPAN: Final = 60 * SECOND

#: The commits of some time, and those that sinks have delivered in it; after an instant.
RECENT_ARRIVALS: Final = """SELECT "commit", stream, now, written, ages FROM __arrivals
    WHERE written > ?1 OR "commit" IN (SELECT "commit" FROM __deliveries WHERE at > ?1)"""
#: The deliveries of some time, with the time and events of the commit.
RECENT_DELIVERIES: Final = """SELECT d.sink, d."commit", d.at, c.now, c.rows FROM __deliveries d
    LEFT JOIN __commits c ON c.number = d."commit" WHERE d.at > ?1"""


@dataclass(frozen=True)
class Delay:
    """How long events took, in seconds: the median, and what 99 of 100 stay below."""

    median: float
    high: float
    events: int

    def text(self) -> str:
        return f"{self.median:.2f} s, 99 % within {self.high:.2f} s"


@dataclass(frozen=True)
class Freshness:
    """The delay of each view up to its commits, and of each sink up to its deliveries. Without events there is none."""

    views: Mapping[str, Delay] = field(default_factory=dict)
    sinks: Mapping[str, Delay] = field(default_factory=dict)


def freshness(
    arrivals: Iterable[Sequence[Any]],
    deliveries: Iterable[Sequence[Any]],
    feeding: Mapping[str, Collection[str]],
    since: Instant = 0,
) -> Freshness:
    """The figures, from rows of `RECENT_ARRIVALS` and `RECENT_DELIVERIES`; `feeding` names the streams of each view.

    A commit without events of a source, as a tick, has no ages and counts nowhere.
    """
    ages: dict[int, tuple[Instant, Ages]] = {}
    by_stream: dict[str, list[tuple[float, int]]] = {}
    for commit, stream, now, written, text in arrivals:
        ages[commit] = now, Ages.parsed(text)
        if written > since:
            by_stream.setdefault(stream, []).extend(_later(ages[commit][1], written - now))
    by_sink: dict[str, list[tuple[float, int]]] = {}
    for sink, commit, at, committed, rows in deliveries:
        # The ages of a commit that a sink has delivered long after it are gone: its own time counts.
        now, known = ages.get(commit) or (committed, Ages.of([0.0], rows or 0))
        if now is not None and known.events:
            by_sink.setdefault(sink, []).extend(_later(known, at - now))
    delays: dict[frozenset[str], Delay | None] = {}
    for streams in map(frozenset, feeding.values()):
        if streams not in delays:
            delays[streams] = delay([one for stream in streams for one in by_stream.get(stream, ())])
    views = {view: delays[frozenset(streams)] for view, streams in feeding.items()}
    return Freshness(_known(views), _known({sink: delay(some) for sink, some in sorted(by_sink.items())}))


def commit_delays(arrivals: Iterable[Sequence[Any]]) -> list[tuple[Instant, str, Delay]]:
    """When each commit was written, its stream, and how long its events took, from rows of `RECENT_ARRIVALS`."""
    delays = (
        (written, stream, delay(_later(Ages.parsed(text), written - now)))
        for _, stream, now, written, text in sorted(arrivals, key=lambda row: int(row[0]))
    )
    return [(at, stream, one) for at, stream, one in delays if one is not None]


def delay(weighted: Collection[tuple[float, int]]) -> Delay | None:
    """The quantiles of delays in milliseconds, each with a number of events."""
    ordered, total = sorted(weighted), sum(count for _, count in weighted)
    return Delay(_quantile(ordered, total, 0.5), _quantile(ordered, total, 0.99), total) if total else None


def _quantile(ordered: Iterable[tuple[float, int]], total: int, share: float) -> float:
    """The smallest delay, in seconds, that at least this share of the events does not exceed."""
    passed = 0
    for milliseconds, count in ordered:
        passed += count
        if passed >= share * total:
            return milliseconds / 1000
    raise AssertionError("no events")


def _later(ages: Ages, microseconds: float) -> list[tuple[float, int]]:
    return [(age + max(0.0, microseconds / 1000), count) for age, count in ages.items()]


def _known(delays: Mapping[str, Delay | None]) -> dict[str, Delay]:
    return {name: one for name, one in delays.items() if one is not None}
