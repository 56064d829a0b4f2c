"""A topology without Spark: the same classes, one task at a time, all in memory. Spark's run is compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.aggregates import last
from penstock.model.commits import Commit, Rejection
from penstock.model.intake import Intake
from penstock.model.kinds import kind_of
from penstock.model.stream import Flow
from penstock.model.time import END, Instant
from penstock.model.triggers import each
from penstock.model.view import View
from penstock.model.windows import global_window
from penstock.topology.collector import Collector, Packet, Task
from penstock.topology.definition import Topology
from penstock.topology.epoch import AGAIN, HEARD, OPEN, Changes, Cycle, EpochResult, state_part
from penstock.topology.orders import Message, Metrics, Orders, Outcome
from penstock.topology.stage import Crew, Stage
from penstock.topology.state import loads
from penstock.topology.trees import Tree, place_root


def view_of(flow: Flow) -> View:
    """A flow as the model has it: every column as an input."""
    assert flow.schema is not None
    columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(flow.schema.names))
    return View(flow, (), global_window(), columns, each())


class Memory:
    """What a topology remembers, in dictionaries."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[bytes, bytes]] = {}

    def part(self, name: str) -> Mapping[bytes, bytes]:
        return self.parts.get(name, {})

    def take(self, changes: Changes) -> None:
        for (part, key), value in changes.items():
            if value is None:
                self.parts.get(part, {}).pop(key, None)
            else:
                self.parts.setdefault(part, {})[key] = value


@dataclass
class LocalRunner:
    """Runs the tasks of one epoch, level by level; tuples of streams are `events`, by spout."""

    topology: Topology
    crew: Crew
    memory: Memory
    events: Mapping[str, list[tuple[int, tuple[Any, ...]]]]

    def run(self, orders: Orders, again: Mapping[int, Tree]) -> Outcome:
        outcome = self._spouts(orders, again)
        for level in range(max(self.topology.levels.values()) + 1):
            packets: dict[Task, list[Packet]] = {}
            later = []
            for bolt, task, packet in outcome.packets:
                if self.topology.levels[bolt] == level:
                    packets.setdefault((bolt, task), []).append(packet)
                else:
                    later.append((bolt, task, packet))
            outcome.packets = later
            stage = Stage(orders, self.crew)
            stage.bolts(level, packets, lambda task: True, self._state(level, outcome.keys))
            outcome.add(stage.outcome)
        return outcome

    def _spouts(self, orders: Orders, again: Mapping[int, Tree]) -> Outcome:
        stage = Stage(orders, self.crew)
        for name in self.topology.flows:
            rows = [(root, tree.values) for root, tree in again.items() if tree.spout == name]
            routed(orders, name, [*rows, *self.events.get(name, [])], stage.outcome)
        for spout in self.topology.code_spouts.values():
            for task in range(spout.tasks):
                stage.spout(spout, task)
        return stage.outcome

    def _state(self, level: int, keys: Mapping[str, Iterable[bytes]]) -> dict[str, dict[bytes, bytes]]:
        """The state of the keys that come to the bolts of a level."""
        states: dict[str, dict[bytes, bytes]] = {}
        for bolt in self.topology.at(level):
            if bolt.is_stateful:
                stored = self.memory.part(state_part(bolt.name))
                states[bolt.name] = {key: stored[key] for key in keys.get(bolt.name, ()) if key in stored}
        return states

    def messages(self, roots: set[int]) -> Mapping[int, Message]:
        events = ((spout, root, values) for spout, rows in self.events.items() for root, values in rows)
        return {root: Message(spout, 0, None, values) for spout, root, values in events if root in roots}


def routed(orders: Orders, spout: str, rows: Iterable[tuple[int, tuple[Any, ...]]], outcome: Outcome) -> None:
    """Events of a stream, by the trees that they begin, on their way to bolts."""
    collector, events = Collector(orders.topology, spout, 0), list(rows)
    collector.begin(orders.epoch)
    collector.forward(events)
    outcome.packets += [(b.name, t, p) for b, t, p in outcome.take(collector, Metrics(), 0)]


@dataclass
class TopologyRun:
    """What a topology did: rows that left it by component ('count', 'split.errors'), dead letters, and its metrics.

    `pending` is how many trees are open at the end; `state` what stateful bolts have, by key as bytes.
    """

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    dead: list[dict[str, Any]] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)
    metrics: dict[str, Metrics] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    epochs: int = 0


class LocalRun:
    """A topology that runs epoch by epoch in this process."""

    def __init__(self, topology: Topology) -> None:
        self.topology, self.memory, self.crew = topology, Memory(), Crew()
        self.played = TopologyRun({_named(output): [] for output in topology.outputs})
        self.due: Instant = END
        self._restarts = 0
        self._intakes = {name: Intake(view_of(flow)) for name, flow in topology.flows.items()}

    def commit(self, commit: Commit) -> EpochResult:
        """One epoch: the events of a commit, at its time."""
        events: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        for name, flow in self.topology.flows.items():
            events[name] = self._taken(name, flow, commit)
        runner = LocalRunner(self.topology, self.crew, self.memory, events)
        settled = Cycle(self.topology, self.memory, commit.now, runner, f"{self._restarts}").settled()
        self.memory.take(settled.changes)
        self.due = settled.due
        self._show(settled)
        return settled

    def _taken(self, name: str, flow: Flow, commit: Commit) -> list[tuple[int, tuple[Any, ...]]]:
        assert flow.schema is not None
        intake, names = self._intakes[name], {source.name for source in flow.sources}
        own_commit = Commit(
            commit.now, tuple(event for event in commit.events if event.stream in names), commit.fixed,
            commit.caught_up, commit.resumed,
        )  # fmt: skip
        kinds = [kind_of(kind) for _, kind in flow.schema]
        events = []
        for element in intake.admit(own_commit, self.played.refused):
            values = [value[0] if value else None for value in element.aggregate_values]
            root = place_root(name, element.event.partition, element.event.offset)
            events.append((root, tuple([kind.given(value) for kind, value in zip(kinds, values, strict=True)])))
        intake.advance(own_commit)
        return events

    def restart(self) -> None:
        """Another process takes over from what was committed."""
        self._restarts += 1

    def _show(self, settled: EpochResult) -> None:
        played = self.played
        played.epochs += 1
        for output, rows in settled.outcome.rows.items():
            schema = self.topology.output_schema(*output)
            for row in rows:
                shown = {n: kind_of(kind).given(v) for (n, kind), v in zip(schema, row, strict=True)}
                played.rows[_named(output)].append(shown)
        played.dead += [{"row": text, "reason": why} for text, why in settled.dead]
        for name, metrics in settled.outcome.metrics.items():
            played.metrics.setdefault(name, Metrics()).add(metrics)
        for what, count in settled.counters.items():
            played.counters[what] = played.counters.get(what, 0) + count
        played.pending = len(self.memory.part(OPEN))

    def state(self, bolt: str) -> dict[bytes, Any]:
        """What a stateful bolt has, by key as bytes."""
        return {key: loads(data) for key, data in self.memory.part(state_part(bolt)).items()}

    @property
    def is_quiet(self) -> bool:
        """Whether no tree is open and none is to be tried again."""
        return not any(self.memory.part(part) for part in (OPEN, AGAIN, HEARD))


def _named(output: tuple[str, str]) -> str:
    component, stream = output
    return component if stream == "default" else f"{component}.{stream}"


def play(
    topology: Topology, commits: Iterable[Commit | None], *, settle: bool = True, most: int = 1_000
) -> TopologyRun:
    """Runs a topology over commits; None stands for a restart. Then, with `settle`, until no tree is open."""
    run = LocalRun(topology)
    now: Instant = 0
    for commit in commits:
        if commit is None:
            run.restart()
        else:
            now = commit.now
            run.commit(commit)
    left = most if settle else 0
    while left and not run.is_quiet and run.due < END:
        now = max(now, run.due)
        run.commit(Commit(now))
        left -= 1
    run.crew.dismiss()
    return run.played
