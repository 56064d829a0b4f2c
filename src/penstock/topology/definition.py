"""A topology as a value: its components, in an order in which tuples flow, and what it promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

from penstock.errors import DefinitionError
from penstock.model.stream import Flow, Stream
from penstock.model.time import Duration
from penstock.model.types import Schema
from penstock.topology.components import BasicBolt, Bolt, Component, Spout, StatefulBolt
from penstock.topology.groupings import Grouping
from penstock.topology.tuples import DEFAULT, TICK, Tuple, tuple_type

Guarantee: TypeAlias = Literal["at_most_once", "at_least_once", "exactly_once"]
GUARANTEES: Final = get_args(Guarantee)
#: What a tuple carries: nothing; the tree that is to blame when it fails; or also the ids that trees are tracked by.
Tracking: TypeAlias = Literal["none", "blame", "track"]
#: The column that tells the streams of a topology with several apart.
SIDE: Final = "side"


@dataclass(frozen=True)
class Fields:
    """The fields of a stream of a component; with types they are a schema too."""

    names: tuple[str, ...]
    schema: Schema | None


@dataclass(frozen=True)
class SpoutOf:
    """A spout: a flow of the app, or code in a number of tasks."""

    name: str
    source: Flow | Spout
    tasks: int

    @property
    def streams(self) -> dict[str, Fields]:
        if isinstance(self.source, Flow):
            assert self.source.schema is not None
            return {DEFAULT: Fields(self.source.schema.names, self.source.schema)}
        return fields_of(self.name, self.source)


@dataclass(frozen=True)
class BoltOf:
    """A bolt in a number of tasks, and what comes to it."""

    name: str
    bolt: Bolt
    tasks: int
    inputs: tuple[Grouping, ...]
    tick: Duration | None = None

    @property
    def streams(self) -> dict[str, Fields]:
        return fields_of(self.name, self.bolt)

    @property
    def is_basic(self) -> bool:
        return isinstance(self.bolt, BasicBolt)

    @property
    def is_stateful(self) -> bool:
        return isinstance(self.bolt, StatefulBolt)


@dataclass(frozen=True)
class Topology:
    """Spouts and bolts, the streams that leave it, and what holds when something fails.

    A message is dead after `tries` tries; a tree that is not complete after `timeout` has failed. A spout of code is
    not asked for more while `max_pending` of its trees are open.
    """

    name: str
    spouts: tuple[SpoutOf, ...]
    bolts: tuple[BoltOf, ...]
    outputs: tuple[tuple[str, str], ...]
    guarantee: Guarantee
    timeout: Duration
    tries: int
    max_pending: int
    options: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    @cached_property
    def components(self) -> dict[str, SpoutOf | BoltOf]:
        """Spouts and bolts by name."""
        return {**{spout.name: spout for spout in self.spouts}, **{bolt.name: bolt for bolt in self.bolts}}

    @cached_property
    def tracking(self) -> Tracking:
        """Basic bolts leave no tree open, so that only failures must be reported there."""
        if self.guarantee == "at_most_once":
            return "none"
        return "blame" if all(bolt.is_basic for bolt in self.bolts) else "track"

    @cached_property
    def levels(self) -> dict[str, int]:
        """How many exchanges lie before a component; bolts that stay local are at the level of what they take from."""
        levels = {spout.name: 0 for spout in self.spouts}
        for bolt in self.bolts:
            levels[bolt.name] = max(levels[one.source] + (0 if self.is_local(bolt, one) else 1) for one in bolt.inputs)
        return levels

    def is_local(self, bolt: BoltOf, grouping: Grouping) -> bool:
        """Whether the tuples of a grouping stay in the task that emitted them."""
        if grouping.kind != "local_or_shuffle" or len(bolt.inputs) > 1:
            return False
        return self.tasks_of(grouping.source) == bolt.tasks

    def tasks_of(self, name: str) -> int:
        """The number of tasks of a component; 0 for a spout that reads a stream."""
        return self.components[name].tasks

    def at(self, level: int) -> list[BoltOf]:
        """The bolts of a level, in the order in which they run."""
        return [bolt for bolt in self.bolts if self.levels[bolt.name] == level]

    def takers(self, source: str, stream: str) -> list[tuple[BoltOf, Grouping]]:
        """Who takes the tuples of a stream of a component."""
        return [(b, one) for b in self.bolts for one in b.inputs if (one.source, one.stream) == (source, stream)]

    @cached_property
    def types(self) -> dict[tuple[str, str], type[Tuple]]:
        """The classes of tuples, by component and stream."""
        classes = {
            (one.name, stream): tuple_type(one.name, stream, fields.names)
            for one in self.components.values()
            for stream, fields in one.streams.items()
        }
        return classes | {("__system", TICK): tuple_type("__system", TICK, ("at",))}

    @property
    def flows(self) -> dict[str, Flow]:
        """The spouts that read streams of the app."""
        return {spout.name: spout.source for spout in self.spouts if isinstance(spout.source, Flow)}

    @property
    def code_spouts(self) -> dict[str, SpoutOf]:
        """The spouts that are code."""
        return {spout.name: spout for spout in self.spouts if isinstance(spout.source, Spout)}

    @property
    def sources(self) -> tuple[Stream, ...]:
        """The streams of the app that it reads."""
        sources = {source.name: source for flow in self.flows.values() for source in flow.sources}
        return tuple(sources.values())

    def fields(self, component: str, stream: str) -> Fields:
        return self.components[component].streams[stream]

    @cached_property
    def schema(self) -> Schema:
        """The columns of the stream that it gives: with several outputs those of all, and which one a row is for."""
        if len(self.outputs) == 1:
            return self.output_schema(*self.outputs[0])
        columns = [(SIDE, "string")]
        for output in self.outputs:
            columns += [(f"{side_of(output)}_{name}", kind) for name, kind in self.output_schema(*output)]
        return Schema(tuple(columns))

    def output_schema(self, component: str, stream: str) -> Schema:
        schema = self.fields(component, stream).schema
        assert schema is not None
        return schema

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks: what it is made of, and not what was made of it."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def side_of(output: tuple[str, str]) -> str:
    """The name of an output among several: the component's, with the stream's where that is not the default."""
    component, stream = output
    return component if stream == DEFAULT else f"{component}_{stream}"


def fields_of(name: str, component: Component) -> dict[str, Fields]:
    """The streams that a component emits on, with their fields."""
    outputs = component.outputs
    if isinstance(outputs, str):
        outputs = {DEFAULT: outputs}
    if not isinstance(outputs, Mapping):
        raise DefinitionError(f"the outputs of '{name}' are {outputs!r}", hint="outputs = 'word string, n bigint'")
    return {stream: _fields(text) for stream, text in outputs.items()}


def _fields(text: str | Schema) -> Fields:
    """Fields with their types ('word string, n bigint'), or by name only ('word, n')."""
    if isinstance(text, str) and text.strip() and all(part.strip().isidentifier() for part in text.split(",")):
        names = tuple(part.strip() for part in text.split(","))
        if len(set(names)) < len(names):
            raise DefinitionError(f"a field of '{text}' is declared twice")
        return Fields(names, None)
    schema = Schema.parse(text)
    return Fields(schema.names, schema)
