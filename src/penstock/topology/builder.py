"""A topology as one writes it: spouts, bolts, and by which groupings tuples come from one to the other.

>>> import penstock as ps
>>> class Split(ps.BasicBolt):
...     outputs = "word string"
...     def execute(self, tup, collector):
...         yield from ((word,) for word in tup.sentence.split())
>>> sentences = ps.stream("sentences", schema="sentence string")
>>> builder = ps.TopologyBuilder()
>>> _ = builder.spout("sentences", sentences)
>>> _ = builder.bolt("split", Split, 2).shuffle("sentences")
>>> builder.build("words").outputs
(('split', 'default'),)
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from penstock.errors import DefinitionError, unknown
from penstock.model.by_kernel import check_by_kernel
from penstock.model.changes import Changes
from penstock.model.naming import valid_name
from penstock.model.stream import Flow
from penstock.model.time import Duration, positive
from penstock.topology.components import BasicBolt, Bolt, Component, Spout, StatefulBolt
from penstock.topology.definition import GUARANTEES, BoltOf, Fields, Guarantee, SpoutOf, Topology, fields_of
from penstock.topology.groupings import Grouping, Kind
from penstock.topology.tuples import DEFAULT

#: Default number of tasks of a component.
TASKS = 4


class BoltDeclarer:
    """A bolt on its way into a topology: what it takes, and how that is divided among its tasks."""

    def __init__(self, name: str, bolt: Bolt, tasks: int, tick: Duration | None) -> None:
        self.name, self.bolt, self.tasks, self.tick = name, bolt, tasks, tick
        self.inputs: list[Grouping] = []

    def shuffle(self, source: str, stream: str = DEFAULT) -> BoltDeclarer:
        """Evenly: each task gets as many tuples as the others."""
        return self._takes("shuffle", source, stream)

    def fields(self, source: str, *fields: str, stream: str = DEFAULT) -> BoltDeclarer:
        """Tuples with the same values of these fields come to the same task, always."""
        if not fields:
            raise DefinitionError(
                f"'{self.name}' is not grouped by any field of '{source}'", hint='.fields("x", "word")'
            )
        return self._takes("fields", source, stream, fields)

    def all(self, source: str, stream: str = DEFAULT) -> BoltDeclarer:
        """Every task gets every tuple."""
        return self._takes("all", source, stream)

    def global_(self, source: str, stream: str = DEFAULT) -> BoltDeclarer:
        """All tuples come to one task, the first."""
        return self._takes("global", source, stream)

    def local_or_shuffle(self, source: str, stream: str = DEFAULT) -> BoltDeclarer:
        """Tuples stay in the process that emitted them, where both have as many tasks; else evenly."""
        return self._takes("local_or_shuffle", source, stream)

    def _takes(self, kind: Kind, source: str, stream: str, fields: tuple[str, ...] = ()) -> BoltDeclarer:
        self.inputs.append(Grouping(kind, source, stream, fields))
        return self


class TopologyBuilder:
    """Takes spouts and bolts by name; `app.topology(name, builder)` runs what it has."""

    def __init__(self) -> None:
        self._spouts: dict[str, SpoutOf] = {}
        self._bolts: dict[str, BoltDeclarer] = {}

    def spout(self, name: str, source: Flow | Spout | type[Spout], tasks: int | None = None) -> TopologyBuilder:
        """Where tuples come from: a stream of the app, what steps make of it, or code (`Spout`) in `tasks` tasks."""
        self._check_name(name)
        if isinstance(source, Flow):
            if tasks is not None:
                raise DefinitionError(
                    f"the spout '{name}' reads a stream in as many tasks as it has files", hint="leave out the number"
                )
            _check_flow(name, source)
            self._spouts[name] = SpoutOf(name, source, 0)
            return self
        source_of = _made(name, source, Spout, "spout")
        self._spouts[name] = SpoutOf(name, source_of, _tasks(name, 1 if tasks is None else tasks))
        return self

    def bolt(
        self, name: str, bolt: Bolt | type[Bolt], tasks: int = TASKS, *, tick: str | timedelta | None = None
    ) -> BoltDeclarer:
        """A bolt in `tasks` tasks; a grouping says where its tuples come from, `tick` how often a tick tuple comes."""
        self._check_name(name)
        instance = _made(name, bolt, Bolt, "bolt")
        base = next(base for base in (StatefulBolt, BasicBolt, Bolt) if isinstance(instance, base))
        if type(instance).execute is base.execute:
            raise DefinitionError(f"the bolt '{name}' has no execute(self, tup, …)")
        every = None if tick is None else positive(tick, f"the tick of '{name}'")
        self._bolts[name] = BoltDeclarer(name, instance, _tasks(name, tasks), every)
        return self._bolts[name]

    def build(
        self,
        name: str,
        *,
        outputs: Iterable[str | tuple[str, str]] | str | None = None,
        guarantee: Guarantee = "at_least_once",
        timeout: str | timedelta = "30 seconds",
        tries: int = 3,
        max_pending: int = 100_000,
        options: Mapping[str, Any] | None = None,
    ) -> Topology:
        """The topology as a value, looked at: names, fields, groupings, and that nothing goes in circles."""
        if guarantee not in GUARANTEES:
            raise unknown("guarantee", str(guarantee), GUARANTEES)
        if tries < 1 or max_pending < 1:
            raise DefinitionError(f"'{name}': the number of attempts and of pending messages must be at least 1")
        bolts = tuple(BoltOf(b.name, b.bolt, b.tasks, tuple(b.inputs), b.tick) for b in self._bolts.values())
        if not self._spouts or not bolts:
            raise DefinitionError(
                f"the topology '{name}' has no {'bolt' if self._spouts else 'spout'}",
                hint='builder.spout("name", stream), builder.bolt("name", Bolt).shuffle("name")',
            )
        for bolt in bolts:
            self._check_inputs(bolt)
        chosen = _outputs(bolts, outputs)
        return Topology(
            name, tuple(self._spouts.values()), _sorted(bolts), chosen, guarantee, positive(timeout, "timeout"), tries,
            max_pending, tuple(sorted((options or {}).items())),
        )  # fmt: skip

    def _check_name(self, name: str) -> None:
        if not valid_name(name):
            raise DefinitionError(f"'{name}' cannot be a component's name", hint="use letters, digits and underscores")
        if name in self._spouts or name in self._bolts:
            raise DefinitionError(f"the topology has a component '{name}' already", hint="choose another name")

    def _check_inputs(self, bolt: BoltOf) -> None:
        if not bolt.inputs:
            raise DefinitionError(
                f"the bolt '{bolt.name}' takes no tuples", hint=f'builder.bolt("{bolt.name}", …).shuffle("a component")'
            )
        known = {**{spout.name: spout.streams for spout in self._spouts.values()}}
        known |= {name: fields_of(name, declared.bolt) for name, declared in self._bolts.items()}
        for grouping in bolt.inputs:
            if grouping.source not in known:
                raise unknown(f"component that '{bolt.name}' takes from", grouping.source, known)
            streams: Mapping[str, Fields] = known[grouping.source]
            if grouping.stream not in streams:
                raise unknown(f"output stream of '{grouping.source}'", grouping.stream, streams)
            for field in grouping.fields:
                if field not in streams[grouping.stream].names:
                    raise unknown(f"field of '{grouping.source}'", field, streams[grouping.stream].names)
        if isinstance(bolt.bolt, StatefulBolt) and not any(one.kind == "fields" for one in bolt.inputs):
            raise DefinitionError(
                f"the stateful bolt '{bolt.name}' needs a grouping by fields, which are the keys of its state",
                hint='.fields("component", "field"); the attributes of a plain bolt are stored too',
            )


def _check_flow(name: str, flow: Flow) -> None:
    """Refuses what a spout cannot read: its events come from the history, through steps of the kernel."""
    for source in flow.sources:
        if isinstance(source, Changes):
            raise DefinitionError(
                f"the changes of the view '{source.name}' are not kept anywhere for the spout '{name}' to read",
                hint="app.sink(view, ps.to_jsonl('panes')) keeps them, and ps.files('panes') is their log",
            )
    check_by_kernel(
        flow,
        lambda step: DefinitionError(
            f"{step.label} comes before the spout '{name}', and only Spark can run it", hint="do it in a bolt"
        ),
        lambda text: DefinitionError(
            f"'{text}' comes before the spout '{name}', and only Spark can compute it", hint="compute it in a bolt"
        ),
        DefinitionError(f"the columns of the spout '{name}' are not known", hint="select them with casts"),
    )


def _made(name: str, component: Any, base: type[Component], what: str) -> Any:
    instance = component
    if inspect.isclass(component) and issubclass(component, base):
        try:
            instance = component()
        except TypeError as error:
            message = f"the {what} '{name}' cannot be made"
            raise DefinitionError(message, detail=str(error), hint="pass an instance") from None
    if not isinstance(instance, base):
        raise DefinitionError(f"'{name}' is not a {what}: {component!r}", hint=f"derive it from ps.{base.__name__}")
    fields_of(name, instance)
    return instance


def _tasks(name: str, tasks: int) -> int:
    if not isinstance(tasks, int) or not 1 <= tasks <= 10_000:
        raise DefinitionError(f"'{name}' cannot have {tasks!r} tasks", hint="give a number, for example 4")
    return tasks


def _outputs(
    bolts: tuple[BoltOf, ...], names: Iterable[str | tuple[str, str]] | str | None
) -> tuple[tuple[str, str], ...]:
    """The streams that leave the topology: those that were named, else those that no bolt takes."""
    known = {(bolt.name, stream): fields for bolt in bolts for stream, fields in bolt.streams.items()}
    if names is None:
        taken_streams = {(one.source, one.stream) for bolt in bolts for one in bolt.inputs}
        return tuple(one for one in known if one not in taken_streams and known[one].schema is not None)
    chosen_streams: list[tuple[str, str]] = []
    for one in [names] if isinstance(names, str) else names:
        chosen = (one, DEFAULT) if isinstance(one, str) else (one[0], one[1])
        if chosen not in known:
            raise unknown("output stream of a bolt", ".".join(chosen), [".".join(name) for name in known])
        if known[chosen].schema is None:
            raise DefinitionError(
                f"the fields of '{'.'.join(chosen)}' have no types, which a stream of the app needs",
                hint="outputs = 'word string, n bigint'",
            )
        chosen_streams.append(chosen)
    return tuple(dict.fromkeys(chosen_streams))


def _sorted(bolts: tuple[BoltOf, ...]) -> tuple[BoltOf, ...]:
    """The bolts, each after those that it takes from."""
    left, done = {bolt.name: bolt for bolt in bolts}, []
    while left:
        ready = [bolt for bolt in left.values() if not any(one.source in left for one in bolt.inputs)]
        if not ready:
            raise DefinitionError(
                f"the bolts {', '.join(left)} form a cycle",
                hint="tuples must flow one way, from spouts to the last bolts",
            )
        done += ready
        for bolt in ready:
            del left[bolt.name]
    return tuple(done)
