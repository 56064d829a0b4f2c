"""Groups of streams: those that share a stateful operator. Each has an engine of its own.

Epochs and ticks of a group take turns, Spark job included. Groups overlap: only the store's transaction is global.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from penstock.errors import unknown
from penstock.model.changes import origins
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.runtime.commit.view_runtime import ViewRuntime
from penstock.runtime.derived.base import in_stages, made_from
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.feeds import Lowered

EngineMaker: TypeAlias = Callable[[Mapping[str, Stream], Mapping[str, Flow]], Engine]


def partition(streams: Mapping[str, Stream], views: Iterable[View], flows: Iterable[Flow]) -> list[tuple[str, ...]]:
    """The names of streams by group: those of one view, one flow, and a derived stream with its inputs."""
    group_of = {name: {name} for name in streams}

    def connect(names: Collection[str]) -> None:
        known = [name for name in names if name in group_of]
        union = set().union(*(group_of[name] for name in known))
        for name in union:
            group_of[name] = union

    for view in views:
        connect([source.name for source in origins(view)])
    for flow in flows:
        connect([source.name for source in flow.sources])
    for name, stream in streams.items():
        connect([name, *inputs_of(stream)])
    return list(dict.fromkeys(tuple(one for one in streams if one in group_of[name]) for name in streams))


def inputs_of(stream: Stream) -> list[str]:
    """The streams that a stream is made from."""
    return [one.name for one in made_from(stream)]


class Group:
    """Streams that share an engine. Who has the `lock` may use it; `is_live` is false once another has absorbed it."""

    def __init__(self, number: int, engine: Engine) -> None:
        self.number, self.engine = number, engine
        self.lock = threading.RLock()
        self.is_live = True

    @property
    def pool(self) -> str:
        """The pool of Spark's fair scheduler that its jobs run in."""
        return f"penstock-group-{self.number}"

    @property
    def name(self) -> str:
        return ", ".join(sorted(self.engine.registry.streams))


class Groups:
    """The groups of a run. A definition that connects some of them waits until all of these are idle."""

    def __init__(
        self, streams: Mapping[str, Stream], views: Mapping[str, View], flows: Mapping[str, Flow], engine: EngineMaker
    ) -> None:
        self._make = engine
        self._numbers = 0
        self._adding = threading.Lock()
        self._group_of: dict[str, Group] = {}
        for names in partition(streams, views.values(), flows.values()):
            own = {name: streams[name] for name in names}
            group = self._add(own, {name: flow for name, flow in flows.items() if _reads(flow.sources, own)})
            group.engine.registry.keep({name: view for name, view in views.items() if _reads(origins(view), own)})

    def _add(self, streams: Mapping[str, Stream], flows: Mapping[str, Flow]) -> Group:
        engine = self._make(streams, flows)
        with self._adding:
            self._numbers += 1
            group = Group(self._numbers, engine)
            self._group_of |= dict.fromkeys(streams, group)
        return group

    # what there is

    @property
    def all(self) -> list[Group]:
        """The groups, the oldest first."""
        return sorted(set(self._group_of.copy().values()), key=lambda group: group.number)

    @property
    def streams(self) -> dict[str, Stream]:
        streams: dict[str, Stream] = {}
        for group in self.all:
            streams |= group.engine.registry.streams
        return streams

    @property
    def views(self) -> dict[str, ViewRuntime]:
        views: dict[str, ViewRuntime] = {}
        for group in self.all:
            views |= group.engine.registry.views
        return views

    @property
    def stages(self) -> list[list[str]]:
        """The streams, those that others are made from first."""
        return in_stages(self.streams)

    def of(self, stream: str) -> Group:
        """The group of a stream."""
        if stream not in self._group_of:
            raise unknown("stream", stream, self._group_of)
        return self._group_of[stream]

    def read_through(self, stream: str) -> int | None:
        """Up to which commit all that are made from a stream have read it; None where none is."""
        group = self._group_of.get(stream)
        return None if group is None else group.engine.registry.inputs.read_through(stream)

    def streams_below(self, name: str) -> list[str]:
        """The streams that a view of this name, or a flow to sinks, reads; none where there is no such."""
        for group in self.all:
            registry = group.engine.registry
            if name in registry.views:
                return [source.name for source in origins(registry.views[name].plan.written)]
            if name in registry.flows:
                return [source.name for source in registry.flows[name].sources]
        return []

    def lowered_alone(self, name: str, view: View) -> Lowered:
        """A view as the kernel takes it, and the feeds that it reads, as if there were no other."""
        registry = self.of(view.input.sources[0].name).engine.registry
        return registry.lowered_alone(name, view, self.streams)

    # turns

    @contextmanager
    def turn(self, streams: Collection[str]) -> Iterator[Engine]:
        """The engine of these streams, while none of its epochs or ticks runs. Their groups become one.

        Locks are taken in the order of the groups' numbers, so that two who want the same do not wait for each other.
        """
        while True:
            groups = sorted({self.of(stream) for stream in streams}, key=lambda group: group.number)
            with ExitStack() as held:
                for group in groups:
                    held.enter_context(group.lock)
                if all(group.is_live for group in groups):
                    yield self._connected(groups).engine
                    return

    def _connected(self, groups: list[Group]) -> Group:
        first, *others = groups
        for other in others:
            first.engine.absorb(other.engine)
            other.is_live = False
            with self._adding:
                self._group_of |= {name: first for name, group in self._group_of.items() if group is other}
        return first

    # views and streams come and go

    def rest(self, view: str) -> None:
        """Deactivates a view: it gets no more events. Its state stays in the store."""
        with self.turn(self.streams_below(view)) as engine:
            engine.registry.rest(view)

    def add_stream(self, name: str, stream: Stream, now: Instant) -> None:
        """Adds a stream: to the group of those that it is made from, or as a group of its own."""
        inputs = [one for one in inputs_of(stream) if one in self._group_of]
        if not inputs:
            engine = self._make({}, {})
            engine.registry.add_stream(name, stream, now)
            with self._adding:
                self._numbers += 1
                self._group_of[name] = Group(self._numbers, engine)
            return
        with self.turn(inputs) as engine:
            engine.registry.add_stream(name, stream, now)
            with self._adding:
                self._group_of[name] = self._group_of[inputs[0]]

    def drop_stream(self, name: str) -> None:
        """Removes a stream. Others that shared its group go on sharing it until the next start."""
        with self.turn([name]) as engine:
            engine.registry.drop_stream(name)
            with self._adding:
                group = self._group_of.pop(name)
            group.is_live = bool(engine.registry.streams)


def _reads(sources: Iterable[Stream], streams: Mapping[str, Stream]) -> bool:
    return any(source.name in streams for source in sources)
