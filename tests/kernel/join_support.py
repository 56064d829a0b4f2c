"""A join of streams on the kernel for tests: commits of the model, state in memory, keys split over shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

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
from penstock.model.commits import Commit
from penstock.model.join import StreamJoin
from penstock.model.order import exact
from tests.kernel.rows_in_memory import RowsInMemory

Rejected = tuple[str, str, int, int, str]


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
