"""The orders for the tasks of an epoch, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.model.time import Instant
from penstock.topology.collector import Collector, Packet, Task
from penstock.topology.definition import BoltOf, Topology

#: About how many tuples a spout of code emits in one epoch and task.
AT_ONCE = 1_000


class Message(NamedTuple):
    """What a spout emitted as a tree of its own, and the task and the id that it goes by, where it is code."""

    spout: str
    task: int
    id: Any
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Orders:
    """The orders for the tasks of an epoch: its number and time, what components remember, and what happened before.

    `attempts` says by tree how often it was tried before; what belongs to a tree in `left_out` is passed over.
    `heard` has the calls of spouts of code about their messages, `expected` the trees of those to be emitted again, and
    `room` for how many more there is.
    """

    topology: Topology
    epoch: int
    now: Instant
    remembered: Mapping[Task, bytes] = field(default_factory=dict)
    ticking: frozenset[str] = frozenset()
    attempts: Mapping[int, int] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()
    heard: Mapping[Task, Sequence[tuple[str, Any]]] = field(default_factory=dict)
    expected: Mapping[Task, Mapping[Any, int]] = field(default_factory=dict)
    room: int = AT_ONCE
    run: str = ""  # which run of the app: what was prepared for another is given up


@dataclass
class Metrics:
    """What a component did: tuples executed, emitted, acked and failed, and for how long."""

    executed: int = 0
    emitted: int = 0
    acked: int = 0
    failed: int = 0
    seconds: float = 0.0
    tasks: dict[int, int] = field(default_factory=dict)  # executed, by task

    def add(self, other: Metrics) -> None:
        for name in ("executed", "emitted", "acked", "failed", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for task, executed in other.tasks.items():
            self.tasks[task] = self.tasks.get(task, 0) + executed


@dataclass
class Outcome:
    """What tasks left behind: tuples for bolts further on, rows that leave, trees, and what is to be remembered."""

    packets: list[tuple[str, int, Packet]] = field(default_factory=list)
    rows: dict[tuple[str, str], list[tuple[Any, ...]]] = field(default_factory=dict)
    trees: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    keys: dict[str, set[bytes]] = field(default_factory=dict)
    remembered: dict[Task, bytes] = field(default_factory=dict)
    state: dict[str, dict[bytes, bytes | None]] = field(default_factory=dict)
    metrics: dict[str, Metrics] = field(default_factory=dict)
    lost: int = 0

    def add(self, other: Outcome) -> None:
        """What other tasks left behind, too."""
        self.packets += other.packets
        for output, rows in other.rows.items():
            self.rows.setdefault(output, []).extend(rows)
        for root, value in other.trees.items():
            self.trees[root] = self.trees.get(root, 0) ^ value
        for root, reason in other.failures.items():
            self.failures.setdefault(root, reason)
        self.messages |= other.messages
        for bolt, keys in other.keys.items():
            self.keys.setdefault(bolt, set()).update(keys)
        self.remembered |= other.remembered
        for bolt, changes in other.state.items():
            self.state.setdefault(bolt, {}).update(changes)
        for component, metrics in other.metrics.items():
            self.metrics.setdefault(component, Metrics()).add(metrics)
        self.lost += other.lost

    def take(self, collector: Collector, metrics: Metrics, task: int) -> Iterator[tuple[BoltOf, int, Packet]]:
        """What a task's collector has. Packets are given on, for who knows which of them stay here."""
        name = collector.component
        for stream, rows in collector.rows():
            self.rows.setdefault((name, stream), []).extend(rows)
        packets = list(collector.packets())  # which takes their ids into the trees
        for root, value in collector.trees.items():
            self.trees[root] = self.trees.get(root, 0) ^ value
        for root, reason in collector.failures.items():
            self.failures.setdefault(root, reason)
        self.messages |= {root: Message(*fields) for root, fields in collector.messages.items()}
        for bolt, keys in collector.keys.items():
            self.keys.setdefault(bolt, set()).update(keys)
        self.lost += collector.lost
        metrics.emitted, metrics.acked, metrics.failed = collector.emitted, collector.acked, collector.failed
        metrics.tasks = {task: metrics.executed}
        self.metrics.setdefault(name, Metrics()).add(metrics)
        yield from packets
