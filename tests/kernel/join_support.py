"""A join of streams on the kernel for tests: commits of the model, state in memory, keys split over shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.admit import admit
from penstock.kernel.elements import elements
from penstock.kernel.hashing import hashes
from penstock.kernel.local import events_frame, model_rows
from penstock.kernel.operators.as_of import AsOfStep
from penstock.kernel.operators.base import OperatorTime, Stepped
from penstock.kernel.operators.join import JoinStep
from penstock.kernel.operators.rows import numbered, rows_in
from penstock.kernel.plan import Plan
from penstock.model.as_of_reference import reference_of
from penstock.model.commits import Commit, Event
from penstock.model.join import StreamJoin
from penstock.model.order import exact
from penstock.model.time import END, SECOND
from tests.kernel.rows_in_memory import RowsInMemory

START = 1_000_000 * SECOND
BOUNDED = ps.bounded("5 seconds", idle=None)

Rejected = tuple[str, str, int, int, str]
#: The name of a stream, and a row of it.
Named = tuple[str, dict[str, object]]
#: The name of a stream, a partition, and a row.
Placed = tuple[str, int, dict[str, object]]


@dataclass
class Answer:
    """What a commit gave, in a form that compares: rows with their signs in order, and what was rejected."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


class KernelJoin:
    """Runs a join on the kernel, commit by commit."""

    def __init__(self, join: StreamJoin, shards: int = 1, candidates: int = 1 << 22) -> None:
        self.join, self.operator = join, AsOfStep(join) if join.as_of else JoinStep(join, candidates)
        kinds = self.operator.kinds
        self.shards = [{name: RowsInMemory(kind) for name, kind in kinds.items()} for _ in range(shards)]
        self.counters: dict[str, int] = {}

    def rows(self, side: int, commit: Commit, rejected: list[Rejected]) -> pl.DataFrame:
        plan, parts = Plan(self.join.view(side)), []
        for branch in plan.branches:
            source = branch.source
            events = [event for event in commit.events if event.stream == source.name]
            admitted = admit(source, events_frame(source, events, 0), commit.now, 0)
            found = elements(plan, branch, admitted.rows)
            for frame in (admitted.dead, found.dead):
                for _, partition, offset, reason in frame.iter_rows():
                    rejected.append(("dead", source.name, partition, offset, reason))
            number = [stream.name for stream in self.join.inputs].index(source.name)
            parts.append(rows_in(plan, self.join.columns(side), found.good, number))
        return numbered(plan, pl.concat(parts))

    def commit(self, commit: Commit, before: int, after: int) -> Answer:
        answer = Answer()
        sides = [self.rows(side, commit, answer.rejected) for side in (0, 1)]
        stepped = [
            self.step(number, [self._of_shard(rows, number) for rows in sides], OperatorTime(before, after, commit.now))
            for number in range(len(self.shards))
        ]
        rows = pl.concat([one.rows for one in stepped]).sort(stepped[0].order, nulls_last=True, maintain_order=True)
        for one in stepped:
            assert one.rows.equals(one.rows.sort(one.order, nulls_last=True, maintain_order=True))
            for kind, frame in (("late", one.late), ("dead", one.dead)):
                for source, partition, offset, reason in frame.iter_rows():
                    stream = self.join.inputs[source].name
                    answer.rejected.append((kind, stream, partition, offset, reason))
        answer.rows = comparable(model_rows(rows.select(self.join.schema.names)), rows["__sign"].to_list())
        answer.rejected = sorted(set(answer.rejected))
        return answer

    def step(self, shard: int, rows: Sequence[pl.DataFrame], time: OperatorTime) -> Stepped:
        state = self.shards[shard]
        for kind in state.values():
            over = "__end" if kind.kind.by_time else "__due_mark"
            assert not kind.rows.filter(pl.col(over) <= time.before).height, "forgotten by then"
        stepped = self.operator.step(rows, state, time)
        for name, change in stepped.state.items():
            state[name].change(change)
            state[name].forget(time.after)
            assert not state[name].rows.select(state[name].kind.identity).is_duplicated().any()
        for name, count in stepped.counters.items():
            self.counters[name] = self.counters.get(name, 0) + count
        return stepped

    def _of_shard(self, rows: pl.DataFrame, shard: int) -> pl.DataFrame:
        keys = rows.select(name for name in rows.columns if name.startswith("k:"))
        return rows.filter(pl.Series(hashes(keys) % len(self.shards) == shard, dtype=pl.Boolean))

    @property
    def waiting(self) -> int:
        """How many events wait. The versions of a table stay."""
        return sum(rows.rows.height for shard in self.shards for rows in shard.values() if rows.kind.by_time)


def comparable(rows: Sequence[tuple[object, ...]], signs: Sequence[int]) -> list[tuple[object, ...]]:
    return [(sign, *map(exact, row)) for row, sign in zip(rows, signs, strict=True)]


class ReferenceJoin:
    """Runs a join on the reference, and says what the watermark was."""

    def __init__(self, join: StreamJoin) -> None:
        self.reference = reference_of(join)

    def commit(self, commit: Commit) -> tuple[Answer, int, int]:
        before = self.reference.watermark
        output = self.reference.commit(commit)
        rejected = [
            (one.kind, one.event.stream, one.event.partition, one.event.offset, one.reason) for one in output.refused
        ]
        return Answer(comparable(output.rows, output.signs), sorted(rejected)), before, self.reference.watermark


def stream(name: str, schema: str, time: str, sign: str | None = None, watermark: Any = BOUNDED) -> ps.Stream:
    return ps.stream(name, schema=schema, event_time=time, watermark=watermark, max_ahead=None, sign=sign)


def at(second: float) -> int:
    return START + round(second * SECOND)


@st.composite
def commits(draw: st.DrawFn, events: Callable[[int], st.SearchStrategy[Placed]], most: int) -> list[Commit]:
    """Commits with up to `most` events of the streams l and r; some events take back one that came before."""
    script, clock, known = [], 0, list[Placed]()
    offsets: Counter[tuple[str, int]] = Counter()
    for _ in range(draw(st.integers(1, 8))):
        epoch = []
        for _ in range(draw(st.integers(0, most))):
            name, partition, row = draw(events(clock))
            if known and draw(st.integers(0, 3)) == 0:
                name, partition, row = draw(st.sampled_from(known))
                row = {**row, "sign" if name == "l" else "change": draw(st.sampled_from([-1, -1, 1]))}
            known.append((name, partition, row))
            epoch.append(Event(name, row, partition, offsets[name, partition]))
            offsets[name, partition] += 1
        fixed = {}
        if draw(st.integers(0, 4)) == 0:
            fixed = dict.fromkeys("lr", START + (clock - draw(st.integers(0, 4))) * SECOND)
        script.append(Commit(START + clock * SECOND, tuple(epoch), fixed))
        clock += draw(st.integers(0, 6))
    return [*script, Commit(START + clock * SECOND, (), dict.fromkeys("lr", END))]


def commits_of(steps: Sequence[list[Named] | float]) -> list[Commit]:
    """A commit for each step: an epoch with its rows, or the second to which the watermark goes."""
    script, offsets = [], Counter[str]()
    for step in steps:
        if isinstance(step, list):
            rows = []
            for name, row in step:
                rows.append(Event(name, row, 0, offsets[name]))
                offsets[name] += 1
            script.append(Commit(START, tuple(rows)))
        else:
            script.append(Commit(START, (), dict.fromkeys("lr", step if step == END else at(step))))
    return script


def compared(join: StreamJoin, script: list[Commit], *kernels: KernelJoin) -> Iterator[tuple[Answer, int, int]]:
    """The answers of the reference, each compared with those of kernels, with the watermarks before and after."""
    reference = ReferenceJoin(join)
    for number, commit in enumerate(script):
        want, before, after = reference.commit(commit)
        for kernel in kernels:
            got = kernel.commit(commit, before, after)
            assert got.rows == want.rows, number
            assert got.rejected == want.rejected, number
        yield want, before, after
