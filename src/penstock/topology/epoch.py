"""One epoch of a topology, on the driver: the orders for its tasks, and what becomes of the trees that they touched.

How the tasks are run is another's concern: Spark's, or a test's. What the topology remembers between two epochs is
bytes by a part and a key, and is committed with what the epoch gives out.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

from penstock.model.time import END, SECOND, Instant, show_duration
from penstock.topology.collector import Task
from penstock.topology.components import Spout
from penstock.topology.definition import Topology
from penstock.topology.orders import Message, Orders, Outcome
from penstock.topology.trees import Tree, key_of, next_root, root_of

#: The parts of what is remembered; that of a stateful bolt is `state_part(bolt)`.
META, TASKS, OPEN, AGAIN, HEARD = "meta", "tasks", "trees", "again", "heard"
#: After how long a spout of code that had nothing is asked again.
PAUSE: Final = SECOND

#: What is to be remembered from here on, by part and key; None: forgotten.
Changes: TypeAlias = dict[tuple[str, bytes], bytes | None]


class Recall(Protocol):
    """What a topology remembers."""

    def part(self, name: str) -> Mapping[bytes, bytes]: ...


class Runner(Protocol):
    """What runs the tasks of an epoch."""

    def run(self, orders: Orders, again: Mapping[int, Tree]) -> Outcome:
        """Runs all tasks; the messages to be tried again come first. It may be called again in the same epoch."""

    def messages(self, roots: set[int]) -> Mapping[int, Message]:
        """What the events of streams were that began these trees in this epoch."""


@dataclass
class EpochResult:
    """What an epoch came to: what its tasks left behind, what is remembered, dead letters, and when more is due."""

    outcome: Outcome
    changes: Changes
    dead: list[tuple[str, str]] = field(default_factory=list)
    due: Instant = END
    counters: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Cycle:
    """An epoch of a topology, from what it remembers to what it is to remember."""

    topology: Topology
    recall: Recall
    now: Instant
    runner: Runner
    run: str = ""

    def __post_init__(self) -> None:
        meta = self.recall.part(META).get(b"meta")
        self._meta: dict[str, Any] = {"epoch": 0, "ticks": {}} if meta is None else pickle.loads(meta)
        self._open = {root_of(key): Tree.loaded(data) for key, data in self._trees(OPEN).items()}
        self._again = {root_of(key): Tree.loaded(data) for key, data in self._trees(AGAIN).items()}
        heard = self.recall.part(HEARD) if self.topology.code_spouts else {}
        self._heard: dict[Task, list[tuple[str, Any]]] = {pickle.loads(k): pickle.loads(v) for k, v in heard.items()}
        self._changes: Changes = {(HEARD, key): None for key in heard}
        self._say: dict[Task, list[tuple[str, Any]]] = {}
        self._dead: list[tuple[str, str]] = []
        self._counters: dict[str, int] = {}

    def _trees(self, part: str) -> Mapping[bytes, bytes]:
        return {} if self.topology.tracking == "none" else self.recall.part(part)

    def settled(self) -> EpochResult:
        """Runs the epoch, and says what it came to."""
        ticking, ticks = self._ticking()
        late = {root: self._timed_out(tree) for root, tree in self._open.items() if tree.deadline <= self.now}
        self._count("timed_out", len(late))
        outcome, left_out, rounds = self._rounds(self._orders(ticking))
        self._settle_trees(outcome, late, left_out)
        self._remember(outcome, ticks)
        self._count("lost", outcome.lost)
        counters = {**self._counters, **_counted(outcome)}
        notes = {"topology": {**_noted(outcome), "rounds": rounds, "pending": len(self._open)}}
        return EpochResult(outcome, self._changes, self._dead, self._due(outcome, ticks), counters, notes)

    # before

    def _ticking(self) -> tuple[frozenset[str], dict[str, Instant]]:
        """The bolts that get a tick now, and when each gets its next."""
        due, following = set(), {}
        for bolt in self.topology.bolts:
            if bolt.tick is not None:
                at = self._meta["ticks"].get(bolt.name)
                if at is not None and at <= self.now:
                    due.add(bolt.name)
                following[bolt.name] = at if at is not None and at > self.now else self.now + bolt.tick
        return frozenset(due), following

    def _orders(self, ticking: frozenset[str]) -> Orders:
        expected: dict[Task, dict[Any, int]] = {}
        for root, tree in self._again.items():
            if tree.spout in self.topology.code_spouts:
                expected.setdefault((tree.spout, tree.task), {})[tree.id] = root
        return Orders(
            self.topology,
            self._meta["epoch"] + 1,
            self.now,
            {pickle.loads(key): data for key, data in self.recall.part(TASKS).items()},
            ticking,
            {root: tree.tries for root, tree in self._again.items()},
            heard=self._heard,
            expected=expected,
            room=self.topology.max_pending - len(self._open),
            run=self.run,
        )

    # the run

    def _rounds(self, orders: Orders) -> tuple[Outcome, dict[int, str], int]:
        """What the tasks left behind. Exactly once: if a tree fails, all of it is done again as if it had not been.

        A tree that fails too often is left out, with the reason.
        """
        again = {root: tree for root, tree in self._again.items() if tree.spout in self.topology.flows}
        left_out: dict[int, str] = {}
        tries: dict[int, int] = {}
        rounds = 1
        while True:
            outcome = self.runner.run(orders, again)
            failed = {root: why for root, why in outcome.failures.items() if root not in self._open}
            if self.topology.guarantee != "exactly_once" or not failed:
                return outcome, left_out, rounds
            for root, why in failed.items():
                tries[root] = tries.get(root, 0) + 1
                if tries[root] >= self.topology.tries:
                    left_out[root] = why
            self._count("failed", len(failed))
            orders = replace(orders, attempts={**orders.attempts, **tries}, left_out=frozenset(left_out))
            rounds += 1

    # after

    def _settle_trees(self, outcome: Outcome, late: Mapping[int, str], left_out: Mapping[int, str]) -> None:
        """Trees are complete, open or failed; what failed is tried again or is a dead letter."""
        failed = {**late, **outcome.failures}
        spouts = self.topology.code_spouts
        waiting = {root for root, tree in self._again.items() if tree.spout in spouts and root not in outcome.messages}
        self._changes |= {(AGAIN, key_of(root)): None for root in self._again.keys() - waiting}
        values = dict.fromkeys((*outcome.messages, *(root for root in self._again if root not in waiting)), 0)
        values |= outcome.trees
        for root, tree in self._open.items():
            values[root] = values.get(root, 0) ^ tree.value
        trees = self._told(outcome, {root for root, value in values.items() if value} | failed.keys() | left_out.keys())
        for root, value in values.items():
            if root not in failed and root not in left_out:
                if value == 0:
                    self._complete(root, outcome)
                elif root in trees:
                    self._keep_open(root, replace(trees[root], value=value))
        for root, why in left_out.items():
            self._give_up(trees.get(root), why)
        for root, why in failed.items():
            self._fail(root, trees.get(root), why, root in late)

    def _told(self, outcome: Outcome, roots: set[int]) -> dict[int, Tree]:
        """How trees began: those that are open or are to be tried again say so, of others their spout."""
        trees = {root: tree for root, tree in (*self._again.items(), *self._open.items()) if root in roots}
        unknown = {root for root in roots if root not in trees and root not in outcome.messages}
        messages = {root: outcome.messages[root] for root in roots if root in outcome.messages and root not in trees}
        messages |= dict(self.runner.messages(unknown)) if unknown else {}
        deadline = self.now + self.topology.timeout
        return trees | {root: Tree(0, deadline, 0, *message) for root, message in messages.items()}

    def _complete(self, root: int, outcome: Outcome) -> None:
        self._count("completed", 1)
        tree = self._open.pop(root, None)
        if tree is not None:
            self._changes[OPEN, key_of(root)] = None
        message = outcome.messages.get(root)
        spout, task, id = (tree.spout, tree.task, tree.id) if tree else message[:3] if message else ("", 0, None)
        self._tell(spout, task, id, "ack")

    def _keep_open(self, root: int, tree: Tree) -> None:
        known = self._open.get(root)
        if known is None or known.value != tree.value:
            deadline = self.now + self.topology.timeout if known is None else known.deadline
            self._open[root] = replace(tree, deadline=deadline)
            self._changes[OPEN, key_of(root)] = self._open[root].dumped()

    def _fail(self, root: int, tree: Tree | None, why: str, late: bool) -> None:
        if self._open.pop(root, None) is not None:
            self._changes[OPEN, key_of(root)] = None
        if tree is None:
            return  # of a try that was given up long ago
        if not late:
            self._count("failed", 1)
        if self.topology.guarantee == "exactly_once":
            if late:  # what it did is committed
                self._tell(tree.spout, tree.task, tree.id, "ack")
            else:
                self._give_up(tree, f"{why}; it was held since an earlier epoch, which is committed")
            return
        if tree.tries + 1 >= self.topology.tries:
            self._give_up(tree, why)
            return
        if tree.spout in self.topology.code_spouts and tree.id is None:
            return
        self._count("replayed", 1)
        following = replace(tree, value=0, tries=tree.tries + 1)
        self._changes[AGAIN, key_of(next_root(root))] = following.dumped()
        self._tell(tree.spout, tree.task, tree.id, "fail")

    def _give_up(self, tree: Tree | None, why: str) -> None:
        """A message is a dead letter."""
        if tree is None:
            return
        self._count("given_up", 1)
        spout = next((one for one in self.topology.spouts if one.name == tree.spout), None)
        streams = {} if spout is None else spout.streams
        names = next((one.names for one in streams.values() if len(one.names) == len(tree.values)), ("tick",))
        content = {"from": tree.spout, **dict(zip(names, tree.values, strict=False))}
        self._dead.append((json.dumps(content, default=str, ensure_ascii=False), why))
        self._tell(tree.spout, tree.task, tree.id, "give_up")

    def _tell(self, spout: str, task: int, id: Any, what: str) -> None:
        """Reports the fate of a message to a spout of code in the next epoch, if it has a method for it."""
        spout_of = self.topology.code_spouts.get(spout)
        if spout_of is not None and id is not None:
            methods = (what, "ack") if what == "give_up" else (what,)
            if any(getattr(type(spout_of.source), name) is not getattr(Spout, name) for name in methods):
                self._say.setdefault((spout, task), []).append((what, id))

    def _timed_out(self, tree: Tree) -> str:
        return f"it was not acked within {show_duration(self.topology.timeout)}"

    # what stays

    def _remember(self, outcome: Outcome, ticks: Mapping[str, Instant]) -> None:
        for task, data in outcome.remembered.items():
            self._changes[TASKS, pickle.dumps(task)] = data
        for bolt, changes in outcome.state.items():
            self._changes |= {(state_part(bolt), key): value for key, value in changes.items()}
        for task, heard in self._say.items():
            self._changes[HEARD, pickle.dumps(task)] = pickle.dumps(heard)
        self._changes[META, b"meta"] = pickle.dumps({"epoch": self._meta["epoch"] + 1, "ticks": dict(ticks)})

    def _due(self, outcome: Outcome, ticks: Mapping[str, Instant]) -> Instant:
        due = [*ticks.values(), *(tree.deadline for tree in self._open.values())]
        flows = self.topology.flows
        replays = [data for (part, _), data in self._changes.items() if part == AGAIN and data is not None]
        if self._say or any(Tree.loaded(data).spout in flows for data in replays):
            due.append(self.now)
        for name in self.topology.code_spouts:
            metrics = outcome.metrics.get(name)
            due.append(self.now if metrics is not None and metrics.emitted else self.now + PAUSE)
        return min(due, default=END)

    def _count(self, what: str, count: int) -> None:
        if count:
            self._counters[what] = self._counters.get(what, 0) + count


def state_part(bolt: str) -> str:
    """The part of what is remembered that is the state of a bolt."""
    return f"state:{bolt}"


def _counted(outcome: Outcome) -> dict[str, int]:
    """What components did, as counters: 'component:executed'."""
    counts: dict[str, int] = {}
    for name, metrics in outcome.metrics.items():
        own_counts = {
            "executed": metrics.executed, "emitted": metrics.emitted, "acked": metrics.acked, "failed": metrics.failed,
            "microseconds": round(metrics.seconds * 1_000_000),
        }  # fmt: skip
        counts |= {f"{name}:{what}": count for what, count in own_counts.items()}
    return counts


def _noted(outcome: Outcome) -> dict[str, Any]:
    """The same for the notes of a commit, and who took longest."""
    components: dict[str, Any] = {
        name: {"executed": one.executed, "emitted": one.emitted, "failed": one.failed, "seconds": round(one.seconds, 4)}
        for name, one in outcome.metrics.items()
    }
    slowest = max(outcome.metrics.items(), key=lambda one: one[1].seconds, default=None)
    return {"components": components} | ({} if slowest is None else {"slowest": slowest[0]})
