"""When the events of a commit arrived at their source, and when sinks delivered it. Nothing is decided by them.

The ages of an epoch's events are a small histogram: its buckets grow by an eighth of a power of two, about 9 %.

>>> ages = Ages.of([5, 400, 405]) + Ages.of([400])
>>> ages.events, [round(age) for age, _ in ages.items()]
(4, [5, 412])
>>> Ages.parsed(ages.text()) == ages
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.model.time import SECOND, Instant

if TYPE_CHECKING:
    from penstock.store.connection import Connection

#: The number of buckets between an age and twice that age.
STEPS: Final = 8
#: How long arrivals and deliveries are kept.
KEPT: Final = 600 * SECOND
#: The number of commits between two trims.
_TRIM_EVERY: Final = 100

ARRIVAL_TABLES: Final = (
    """CREATE TABLE __arrivals ("commit" INTEGER PRIMARY KEY, stream TEXT NOT NULL, now INTEGER NOT NULL,
       written INTEGER NOT NULL, ages TEXT NOT NULL)""",
    """CREATE TABLE __deliveries (sink TEXT NOT NULL, "commit" INTEGER NOT NULL, at INTEGER NOT NULL,
       PRIMARY KEY (sink, "commit")) WITHOUT ROWID""",
)


@dataclass(frozen=True)
class Ages:
    """How many events had which age, in milliseconds, when their epoch began: counts by the number of a bucket."""

    counts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, milliseconds: Iterable[float], events: int = 1) -> Ages:
        """Of some ages, each with its number of events. One that is below zero counts as zero: clocks differ."""
        counts: dict[int, int] = {}
        for age in milliseconds if events else ():
            bucket = bucket_of(age)
            counts[bucket] = counts.get(bucket, 0) + events
        return cls(counts)

    @property
    def events(self) -> int:
        return sum(self.counts.values())

    def items(self) -> Iterator[tuple[float, int]]:
        """Each age, the middle of its bucket, with its number of events."""
        for bucket, count in sorted(self.counts.items()):
            yield (2 ** (bucket / STEPS) + 2 ** ((bucket + 1) / STEPS)) / 2 - 1, count

    def later(self, milliseconds: float) -> Ages:
        """The ages of the same events some time later."""
        return sum((Ages.of([age + milliseconds], count) for age, count in self.items()), Ages())

    def __add__(self, other: Ages) -> Ages:
        counts = dict(self.counts)
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Ages(counts)

    def text(self) -> str:
        """As the store and tasks write it."""
        return json.dumps(dict(self.counts), separators=(",", ":"))

    @classmethod
    def parsed(cls, text: str) -> Ages:
        return cls({int(bucket): count for bucket, count in json.loads(text).items()})


def bucket_of(age: float) -> int:
    """The bucket of an age in milliseconds."""
    return math.floor(STEPS * math.log2(1 + max(age, 0.0)))


@dataclass(frozen=True)
class Arrivals:
    """The ages of a commit's events at its `now`. The clock says when the commit is written."""

    ages: Ages
    clock: Callable[[], Instant] = field(compare=False)


@dataclass(frozen=True)
class DeliveryTime:
    """A sink had delivered a commit at this time."""

    sink: str
    commit: int
    at: Instant


def write_arrivals(connection: Connection, number: int, stream: str, now: Instant, arrivals: Arrivals) -> None:
    """Records the ages of a commit's events, and the time. It is called when all else of the commit is written."""
    sql = "INSERT INTO __arrivals VALUES (?1, ?2, ?3, ?4, ?5)"
    connection.run(sql, [number, stream, now, arrivals.clock(), arrivals.ages.text()])
    if number % _TRIM_EVERY == 0:
        connection.run("DELETE FROM __arrivals WHERE written < ?1", [now - KEPT])
        connection.run("DELETE FROM __deliveries WHERE at < ?1", [now - KEPT])


def write_deliveries(connection: Connection, deliveries: Collection[DeliveryTime]) -> None:
    """Records deliveries. Of a commit in several batches the last one counts."""
    sql = 'INSERT INTO __deliveries VALUES (?1, ?2, ?3) ON CONFLICT (sink, "commit") DO UPDATE SET at = excluded.at'
    for one in deliveries:
        connection.run(sql, [one.sink, one.commit, one.at])


#: The ages of commits that a derived stream has read, and their time. Of an older commit only its time is known.
_READ: Final = """SELECT a.now AS at, a.ages, c.now, c.rows FROM __epochs e JOIN __commits c ON c.number = e."commit"
    LEFT JOIN __arrivals a ON a."commit" = e."commit" WHERE e.stream = ?1 AND e."commit" > ?2 AND e."commit" <= ?3"""


def ages_between(connection: Connection, streams: Iterable[str], after: int, through: int, now: Instant) -> Ages:
    """The ages, now, of the events that some streams had in the commits after one, up to another."""
    ages = Ages()
    for stream in streams:
        for at, text, committed, rows in connection.rows(_READ, [stream, after, through]).iter_rows():
            known = Ages.of([0.0], rows or 0) if text is None else Ages.parsed(text)
            ages += known.later((now - (committed if at is None else at)) / 1000)
    return ages


def forget_arrivals(connection: Connection, stream: str) -> None:
    """A stream is dropped."""
    connection.run("DELETE FROM __arrivals WHERE stream = ?1", [stream])
