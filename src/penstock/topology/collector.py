"""What components emit by: tuples on their way to the tasks that they are grouped to, and acks and failures.

A tree is tracked by one number: the ids of all its tuples, each taken in by XOR when the tuple is emitted and again
when it is acked. When all are acked it is zero, however many they were and in whatever order that came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

from penstock.errors import unknown
from penstock.topology.definition import BoltOf, Topology
from penstock.topology.groupings import Grouping
from penstock.topology.outlets import Outlet, Parted, by_fields
from penstock.topology.tuples import DEFAULT, Roots, Tuple

#: A task of a component.
Task: TypeAlias = tuple[str, int]


class Packet(NamedTuple):
    """Tuples of one stream of one task, on their way to a task of a bolt."""

    source: str
    stream: str
    sender: int
    values: Sequence[tuple[Any, ...]]
    roots: Sequence[Roots] | None = None
    ids: Sequence[int] | None = None


class Collector:
    """What a task has emitted, acked and failed in an epoch."""

    def __init__(self, topology: Topology, component: str, task: int) -> None:
        self._topology, self._component, self._task = topology, component, task
        self._spoken = {stream for one, stream in topology.types if one == component}
        self._always = topology.guarantee == "exactly_once"
        self._is_spout = component in topology.code_spouts
        self.begin(0)

    def begin(self, epoch: int, basic: bool = False) -> None:
        """Nothing is emitted yet; `basic`: all that is emitted belongs to the tuple at hand."""
        self._random = Random(f"{epoch}:{self._component}:{self._task}").getrandbits
        self._basic, self._anchoring = basic, (basic or self._always) and not self._is_spout
        self.at_hand: Roots = None
        self.trees: dict[int, int] = {}
        self.failures: dict[int, str] = {}
        self.messages: dict[int, tuple[str, int, Any, tuple[Any, ...]]] = {}
        self._expected: dict[Any, int] = {}
        self.keys: dict[str, dict[bytes, None]] = {}
        self.acked = self.failed = self.lost = 0
        self._outlets = {stream: Outlet(self._component, self._topology, stream) for stream in self._spoken}
        self._turn = epoch + self._task

    # what components call

    def emit(
        self,
        values: Sequence[Any] | Mapping[str, Any],
        anchors: Tuple | Iterable[Tuple] | None = None,
        stream: str = DEFAULT,
        message_id: Any = None,
    ) -> None:
        """Emits a tuple, in the order of the fields or by their names, as one that the `anchors` led to.

        A spout gives a `message_id`: its `ack` and `fail` get it when the tree is complete or has failed.
        """
        outlet = self._outlets.get(stream)
        if outlet is None:
            raise unknown(f"output stream of '{self._component}'", stream, self._outlets)
        row = values if type(values) is tuple and len(values) == outlet.size else outlet.row(values)
        if self._anchoring and (anchors is None or self._basic):
            roots = self.at_hand
        elif self._is_spout:
            roots = self._root(row, message_id)
        else:
            roots = None if anchors is None else roots_of((anchors,) if isinstance(anchors, Tuple) else anchors)
        if outlet.exact is not None:
            outlet.leave(row)
        outlet.values.append(row)
        outlet.roots.append(roots)

    def ack(self, tup: Tuple) -> None:
        """A tuple is done with."""
        self.acked += 1
        if tup._id:
            self.flip(tup._roots, tup._id)

    def fail(self, tup: Tuple, reason: str | None = None) -> None:
        """A tuple has failed, and with it its tree: it is tried again, as the guarantee says."""
        self.failed += 1
        message = f"the bolt '{self._component}' failed a tuple" + (f": {reason}" if reason else "")
        roots = self.at_hand if self._basic else tup._roots
        if roots is None:
            self.lost += 1
        else:
            self.blame(roots, message)

    # what runs them calls

    def expect(self, roots: Mapping[Any, int]) -> None:
        """The trees of messages that a spout is to emit again, by their ids."""
        self._expected = dict(roots)

    def forward(self, rows: Iterable[tuple[int, tuple[Any, ...]]]) -> None:
        """Emits rows that begin a tree each, as a stream gives them."""
        outlet = self._outlets[DEFAULT]
        for root, row in rows:
            outlet.values.append(row)
            outlet.roots.append(root)

    def blame(self, roots: Roots, why: str) -> None:
        for root in () if roots is None else _each(roots):
            self.failures.setdefault(root, why)

    def flip(self, roots: Roots, id: int) -> None:
        trees = self.trees
        if type(roots) is int:
            trees[roots] = trees.get(roots, 0) ^ id
        elif roots is not None:
            for root in _each(roots):
                trees[root] = trees.get(root, 0) ^ id

    def new_id(self) -> int:
        return self._random(64) or 1

    def _root(self, row: tuple[Any, ...], message_id: Any) -> Roots:
        """The tree of a message that a spout emits, where it must be identified."""
        if self._topology.tracking == "none" or (message_id is None and not self._always):
            return None
        root = (self._expected.pop(message_id, None) if message_id is not None else None) or self.new_id()
        self.messages[root] = (self._component, self._task, message_id, row)
        return root

    @property
    def emitted(self) -> int:
        return sum(len(outlet.values) for outlet in self._outlets.values())

    def packets(self) -> Iterator[tuple[BoltOf, int, Packet]]:
        """All that was emitted, by the task that it is for. It is asked for once, at the end."""
        tracking = self._topology.tracking
        for stream, outlet in self._outlets.items():
            for bolt, grouping in self._topology.takers(self._component, stream) if outlet.values else ():
                for task, values, roots in self._divided(bolt, grouping, outlet):
                    if values:
                        ids = self._ids(roots) if tracking == "track" else None
                        anchors = None if tracking == "none" else roots
                        yield bolt, task, Packet(self._component, stream, self._task, values, anchors, ids)

    def _divided(self, bolt: BoltOf, grouping: Grouping, outlet: Outlet) -> Parted:
        """Tuples by the task of a bolt that they are grouped to."""
        values, roots, tasks = outlet.values, outlet.roots, bolt.tasks
        if self._topology.is_local(bolt, grouping):
            return [(self._task, values, roots)]
        if grouping.kind == "all":
            return [(task, values, roots) for task in range(tasks)]
        if grouping.kind == "global" or (tasks == 1 and not bolt.is_stateful):
            return [(0, values, roots)]
        if grouping.kind == "fields":
            names = self._topology.fields(self._component, grouping.stream).names
            keys = self.keys.setdefault(bolt.name, {}) if bolt.is_stateful else {}
            places = [names.index(name) for name in grouping.fields]
            parts, refused = by_fields(values, roots, places, tasks, keys)
            for root, why in refused:
                self.failed += 1
                self.lost += root is None
                self.blame(root, f"'{self._component}' emitted what '{bolt.name}' cannot be grouped by: {why}")
            return parts
        return [((self._turn + n) % tasks, values[n::tasks], roots[n::tasks]) for n in range(tasks)]

    def _ids(self, roots: list[Roots]) -> list[int]:
        """An id for each tuple that is part of a tree, which takes it in."""
        ids, random, trees = [], self._random, self.trees
        for root in roots:
            if root is None:
                ids.append(0)
                continue
            id = random(64) or 1
            ids.append(id)
            if type(root) is int:
                trees[root] = trees.get(root, 0) ^ id
            else:
                self.flip(root, id)
        return ids

    def rows(self) -> Iterable[tuple[str, list[tuple[Any, ...]]]]:
        """The rows that leave the topology, by stream."""
        for stream, outlet in self._outlets.items():
            if outlet.rows:
                yield stream, outlet.rows

    @property
    def component(self) -> str:
        return self._component


def roots_of(anchors: Iterable[Tuple]) -> Roots:
    """The trees that some tuples belong to."""
    roots = dict.fromkeys(root for tup in anchors if tup._roots is not None for root in _each(tup._roots))
    if not roots:
        return None
    return next(iter(roots)) if len(roots) == 1 else tuple(roots)


def _each(roots: int | tuple[int, ...]) -> tuple[int, ...]:
    return (roots,) if isinstance(roots, int) else roots
