"""A stream while it is read: its Spark query, and what is known of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.runtime.queries.pace import Pace
from penstock.runtime.spark.internals import is_waiting
from penstock.sources import Follower
from penstock.store.checkpoints import Place

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def _happened() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(eq=False)
class StreamQuery:
    """The query of one stream. It may be restarted, with other columns or from the last commit on."""

    name: str
    checkpoint: Place
    pace: Pace
    follower: Follower
    columns: tuple[str, ...] = ()
    query: StreamingQuery | None = None
    #: Its source has answered in this run.
    has_answered: bool = False
    #: It is about to be restarted or dropped: none of its epochs begins.
    is_held: bool = False
    #: Spark waits for new events. What Spark says holds until the next epoch.
    is_waiting: bool = False
    #: Why its last epoch failed. Spark itself reports only that it did.
    cause: BaseException | None = None
    #: Not set while the query is being restarted: its first epoch waits until it is no longer held.
    restarted: threading.Event = field(default_factory=_happened)
    #: Who has it may stop and start the query.
    planning: threading.Lock = field(default_factory=threading.Lock)

    @property
    def part(self) -> str:
        """What it is called among the parts of a run."""
        return part(self.name)

    def ask_whether_waiting(self) -> bool:
        """Whether it has read all that its source has.

        Spark says so only between two looks at the source. A query that is starting has not looked yet.
        """
        waiting = None if self.query is None else is_waiting(self.query)
        self.is_waiting = self.is_waiting if waiting is None else waiting
        return self.is_waiting


def part(stream: str) -> str:
    """What a stream is called among the parts of a run."""
    return f"the stream '{stream}'"
