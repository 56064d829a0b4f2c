"""What users derive from: spouts and bolts.

    class Split(ps.BasicBolt):
        outputs = "word string"

        def execute(self, tup, collector):
            for word in tup.sentence.split():
                collector.emit((word,))

Attributes that a bolt or a spout sets on itself are remembered: they are committed with the epoch, and are there again
after a restart. What cannot be pickled (a connection, a model) is made in `prepare` or `open`, once a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import RowError
from penstock.topology.tuples import Tuple

if TYPE_CHECKING:
    from penstock.topology.collector import Collector


class FailedTuple(RowError):
    """Raised by a bolt to fail the current tuple, with a reason."""


@dataclass
class Context:
    """Where a task stands: its topology, component and number, the number of tasks, and the time of the epoch."""

    topology: str
    component: str
    task: int
    tasks: int
    options: Mapping[str, Any] = field(default_factory=dict)
    now: datetime | None = None


class Component:
    """What spouts and bolts have in common.

    `outputs` are the fields of what it emits: 'word string, n bigint', or of several streams by name.
    """

    outputs: ClassVar[str | Mapping[str, str]] = {}

    def activate(self) -> None:
        """Called before the first tuple of an epoch."""

    def deactivate(self) -> None:
        """Called after the last tuple of an epoch; it may still emit."""

    def cleanup(self) -> None:
        """Called when the process lets go of it; a process that is killed does not come to that."""


class Spout(Component):
    """A source of tuples in Python: `next_tuple` emits one or more tuples, or none."""

    def open(self, context: Context, collector: Collector) -> None:
        """Called once in a process: for what is costly to make."""

    def next_tuple(self) -> None:
        """Emits by `collector.emit(values, message_id=…)`. It is called again until it emits nothing."""
        raise NotImplementedError

    def ack(self, message_id: Any) -> None:
        """The tree of a message is complete."""

    def fail(self, message_id: Any) -> None:
        """The tree of a message has failed or timed out: emit it again."""

    def give_up(self, message_id: Any) -> None:
        """It has failed for the last time, and is a dead letter now. By default that is an ack."""
        self.ack(message_id)


class Bolt(Component):
    """Takes tuples, emits tuples, and acks or fails each that it took: now, or in a later epoch."""

    def prepare(self, context: Context, collector: Collector) -> None:
        """Called once in a process: keep the collector, make what is costly."""

    def execute(self, tup: Tuple) -> None:
        """One tuple. An exception fails it."""
        raise NotImplementedError


class BasicBolt(Bolt):
    """A bolt whose tuples are acked when `execute` returns, and whose emits are anchored to the current tuple."""

    def execute(self, tup: Tuple, collector: Collector) -> Iterable[Any] | None:  # type: ignore[override]
        """One tuple. What it yields, or returns as a list, is emitted too."""
        raise NotImplementedError


class StatefulBolt(BasicBolt):
    """A basic bolt with state by key: `self.state[tup.word] = self.state.get(tup.word, 0) + 1`.

    The keys are the values of the fields that it is grouped by; of several fields, tuples of them. The state may have
    millions of keys: an epoch reads those that its tuples have, and writes those that it changed.
    """

    state: MutableMapping[Any, Any]
