"""Runs tasks of components for one epoch: in a Spark task, or in a test without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from penstock.errors import PenstockError
from penstock.model.time import to_datetime
from penstock.topology.collector import Collector, Packet, Task
from penstock.topology.components import BasicBolt, Bolt, Component, Context, Spout, StatefulBolt
from penstock.topology.definition import BoltOf, SpoutOf, Topology
from penstock.topology.orders import AT_ONCE, Message, Metrics, Orders, Outcome
from penstock.topology.state import PreparedComponent, State
from penstock.topology.trees import tick_root
from penstock.topology.tuples import TICK, Roots, Tuple, with_tree


class Coming(NamedTuple):
    """Tuples that come to a task: their class, values, trees, ids and tries."""

    make: type[Tuple]
    values: Sequence[tuple[Any, ...]]
    roots: Sequence[Roots] | None = None
    ids: Sequence[int] | None = None
    tried: Sequence[int] | None = None

    def pairs(self) -> Iterable[tuple[Tuple, Roots]]:
        """The tuples, each with its trees."""
        return zip(map(self.make, self.values), repeat(None) if self.roots is None else self.roots, strict=False)


class Crew:
    """Components that were made ready in this process; those of another run are let go."""

    def __init__(self) -> None:
        self._run = ""
        self._prepared: dict[Task, PreparedComponent] = {}

    def of(self, orders: Orders, name: str, task: int, tasks: int, component: Component) -> PreparedComponent:
        if orders.run != self._run:
            self.dismiss()
            self._run = orders.run
        if (name, task) not in self._prepared:
            topology = orders.topology
            context = Context(topology.name, name, task, tasks, dict(topology.options), to_datetime(orders.now))
            self._prepared[name, task] = PreparedComponent(component, Collector(topology, name, task), context)
        prepared = self._prepared[name, task]
        prepared.context.now = to_datetime(orders.now)
        return prepared

    def dismiss(self) -> None:
        """Lets go of all."""
        for prepared in self._prepared.values():
            prepared.cleanup()
        self._prepared = {}


class Stage:
    """Runs the tasks of one level that stand in one place, each bolt after those that it takes from."""

    def __init__(self, orders: Orders, crew: Crew) -> None:
        self._orders, self._crew = orders, crew
        self.outcome = Outcome()

    def spout(self, spout: SpoutOf, task: int) -> None:
        """A task of a spout of code: reports on its messages, then emits."""
        assert isinstance(spout.source, Spout)
        prepared = self._crew.of(self._orders, spout.name, task, spout.tasks, spout.source)
        before, collector = self._orders.remembered.get((spout.name, task)), prepared.collector
        begun = time.perf_counter()
        collector.begin(self._orders.epoch)
        collector.expect(self._orders.expected.get((spout.name, task), {}))
        component: Any = prepared.taken_up(before)
        component.activate()
        for what, message in self._orders.heard.get((spout.name, task), ()):
            getattr(component, what)(message)
        calls, emitted = 0, -1
        while collector.emitted > emitted and collector.emitted < min(AT_ONCE, self._orders.room):
            emitted = collector.emitted
            component.next_tuple()
            calls += 1
        component.deactivate()
        self._remember(prepared, component, (spout.name, task), before)
        metrics = Metrics(executed=calls, seconds=time.perf_counter() - begun)
        self.outcome.packets += [(b.name, t, p) for b, t, p in self.outcome.take(collector, metrics, task)]

    def bolts(
        self,
        level: int,
        packets: dict[Task, list[Packet]],
        here: Callable[[int], bool],
        state: Mapping[str, dict[bytes, bytes]] | None = None,
    ) -> None:
        """The bolts of a level: those tasks of them that are here."""
        topology = self._orders.topology
        for bolt in topology.at(level):
            for task in range(bolt.tasks):
                if here(task):
                    own_packets = packets.pop((bolt.name, task), [])
                    if own_packets or bolt.name in self._orders.ticking:
                        for taker, to, packet in self._bolt(bolt, task, own_packets, (state or {}).get(bolt.name, {})):
                            if topology.levels[taker.name] == level:
                                packets.setdefault((taker.name, to), []).append(packet)
                            else:
                                self.outcome.packets.append((taker.name, to, packet))

    def _bolt(
        self, bolt: BoltOf, task: int, packets: list[Packet], state: dict[bytes, bytes]
    ) -> Iterator[tuple[BoltOf, int, Packet]]:
        orders = self._orders
        prepared = self._crew.of(orders, bolt.name, task, bolt.tasks, bolt.bolt)
        before, collector = orders.remembered.get((bolt.name, task)), prepared.collector
        begun = time.perf_counter()
        collector.begin(orders.epoch, basic=bolt.is_basic)
        component: Any = prepared.taken_up(before)
        packets.sort(key=lambda packet: packet[:3])
        if isinstance(component, StatefulBolt):
            component.state = State(state, lambda: _keys(orders.topology, bolt, packets))
        component.activate()
        executed = 0
        run = _basic if isinstance(component, BasicBolt) else _plain
        for coming in self._coming(bolt, task, packets):
            run(component, collector, coming)
            executed += len(coming.values)
        component.deactivate()
        if isinstance(component, StatefulBolt):
            changes = component.state.changes()  # type: ignore[attr-defined]
            if changes:
                self.outcome.state.setdefault(bolt.name, {}).update(changes)
        self._remember(prepared, component, (bolt.name, task), before)
        metrics = Metrics(executed=executed, seconds=time.perf_counter() - begun)
        yield from self.outcome.take(collector, metrics, task)

    def _coming(self, bolt: BoltOf, task: int, packets: list[Packet]) -> Iterator[Coming]:
        """What comes to a task, packet by packet, and last of all a tick."""
        orders = self._orders
        for packet in packets:
            make = orders.topology.types[packet.source, packet.stream]
            yield self._tried(Coming(make, packet.values, packet.roots, packet.ids))
        if bolt.name in orders.ticking:
            root, at = None, to_datetime(orders.now)
            if orders.topology.guarantee == "exactly_once":
                root = tick_root(bolt.name, task, orders.now)
                self.outcome.messages[root] = Message(bolt.name, task, None, (at,))
            yield self._tried(Coming(orders.topology.types["__system", TICK], [(at,)], [root]))

    def _tried(self, coming: Coming) -> Coming:
        """Tuples with the number of tries of their trees, without those that are left out."""
        attempts, left_out = self._orders.attempts, self._orders.left_out
        if coming.roots is None or not (attempts or left_out):
            return coming
        places, tried = [], []
        for place, roots in enumerate(coming.roots):
            trees = () if roots is None else (roots,) if isinstance(roots, int) else roots
            if left_out.isdisjoint(trees):
                places.append(place)
                tried.append(max((attempts.get(root, 0) for root in trees), default=0))
        return Coming(
            coming.make,
            [coming.values[place] for place in places],
            [coming.roots[place] for place in places],
            None if coming.ids is None else [coming.ids[place] for place in places],
            tried,
        )

    def _remember(self, prepared: PreparedComponent, component: Component, who: Task, before: bytes | None) -> None:
        data = prepared.changed(component, before)
        if data is not None:
            self.outcome.remembered[who] = data


def _basic(bolt: BasicBolt, collector: Collector, coming: Coming) -> None:
    """Tuples of a bolt that acks by itself."""
    execute, emit, flip = bolt.execute, collector.emit, collector.flip
    failed = collector.failed
    for number, (tup, root) in enumerate(coming.pairs()):
        if coming.tried is not None:
            tup._attempt = coming.tried[number]
        collector.at_hand = root
        try:
            emitted = execute(tup, collector)
            if emitted is not None:
                for row in emitted:
                    emit(row)
        except Exception as error:  # whatever it is, it concerns this tuple
            collector.fail(tup, failure_text(error))
        else:
            if coming.ids is not None:
                flip(root, coming.ids[number])
    collector.acked += len(coming.values) - (collector.failed - failed)


def _plain(bolt: Bolt, collector: Collector, coming: Coming) -> None:
    """Tuples of a bolt that acks and fails itself."""
    for number, (tup, root) in enumerate(coming.pairs()):
        collector.at_hand = root
        id = 0 if coming.ids is None else coming.ids[number]
        with_tree(tup, root, id, 0 if coming.tried is None else coming.tried[number])
        try:
            bolt.execute(tup)
        except Exception as error:
            collector.fail(tup, failure_text(error))


def failure_text(error: Exception) -> str:
    """An exception of a user's code, in words."""
    return error.message if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"


def _keys(topology: Topology, bolt: BoltOf, packets: Iterable[Packet]) -> set[Any]:
    """The keys that the tuples of a task have, by the fields that it is grouped by."""
    keys: set[Any] = set()
    for packet in packets:
        names = topology.fields(packet.source, packet.stream).names
        for grouping in bolt.inputs:
            if (grouping.kind, grouping.source, grouping.stream) == ("fields", packet.source, packet.stream):
                keys.update(map(itemgetter(*(names.index(name) for name in grouping.fields)), packet.values))
    return keys
