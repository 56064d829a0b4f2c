"""The reference of a model: what it predicts and learns over a script of commits, each one an epoch. No Spark.

The rows of an epoch come to the model in the same parts and in the same order as on Spark, and through the same code:
so versions are the same to the last bit where the epochs were cut the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.learning.definition import Learning
from penstock.learning.next_version import remembered
from penstock.learning.part import ORDER, dealt, keys_in, work
from penstock.learning.versions import KEY, decoded_keys, head, in_force, plain
from penstock.learning.weights import Array, Weights
from penstock.model.commits import Commit, Rejection
from penstock.model.intake import Intake
from penstock.model.kinds import kind_of
from penstock.model.time import Instant
from penstock.store.memory import REMEMBERED

Row = dict[str, Any]


class LocalMemory:
    """What a model remembers, in this process."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, bytes], bytes] = {}

    def of(self, part: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        return {key: self.values[part, key] for key in keys if (part, key) in self.values}

    def all(self, part: str | None = None) -> pl.DataFrame:
        rows = [(of, key, value) for (of, key), value in self.values.items() if part in (None, of)]
        return pl.DataFrame(rows, REMEMBERED, orient="row")

    def write(self, changes: pl.DataFrame) -> None:
        for part, key, value in changes.iter_rows():
            if value is None:
                self.values.pop((part, key), None)
            else:
                self.values[part, key] = value


@dataclass
class LearningRun:
    """What a model did: the rows of its stream, epoch by epoch, dead letters with the reason, and its memory."""

    learning: Learning
    frames: list[pl.DataFrame] = field(default_factory=list)
    dead: list[Row] = field(default_factory=list)
    memory: LocalMemory = field(default_factory=LocalMemory)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of its stream."""
        types = {name: dtype(kind) for name, kind in self.learning.schema}
        return pl.concat([pl.DataFrame(schema=types), *self.frames])

    @property
    def rows(self) -> list[Row]:
        return self.frame.to_dicts()

    @property
    def version(self) -> int:
        return head(self.memory).version

    def model(self, version: int | None = None) -> Weights:
        """A version that is kept, with all keys of its keyed parts."""
        last = head(self.memory)
        arrays: Mapping[str, Array] | None = plain(self.memory, last, last.version if version is None else version)
        keys = {}
        for part, column in self.learning.keyed.items():
            kind = self.learning.event.type_of(column)
            keys[part] = decoded_keys(self.memory.all(KEY + part)["key"].to_list(), kind).sort()
        if arrays is None and not keys:
            return Weights(self.learning.initial)
        return in_force(self.learning, self.memory, keys, version)

    def epoch(self, rows: pl.DataFrame, now: Instant) -> None:
        """One epoch: events with their places, as the history has them."""
        model, version = in_force(self.learning, self.memory, keys_in(self.learning, rows)), self.version
        updates = []
        for _, part in sorted(dealt(self.learning, rows), key=lambda pair: pair[0]):
            done = work(self.learning, model, version, part)
            self.frames.append(done.rows)
            dead_rows = done.dead.select(*self.learning.event.names, pl.col("__reason").alias("reason"))
            self.dead += dead_rows.to_dicts()
            updates += [] if done.update is None else [done.update]
        if updates:
            self.memory.write(remembered(self.learning, self.memory, model, updates, now)[1])


def learned(learning: Learning, commits: Iterable[Commit | None]) -> LearningRun:
    """Runs a model over commits; None stands for a restart, of which it notices nothing."""
    run, intake = LearningRun(learning), Intake(learning.view)
    names = {source.name for source in learning.input.sources}
    for number, commit in enumerate(commits):
        if commit is None:
            continue
        own_events = tuple(event for event in commit.events if event.stream in names)
        commit = Commit(commit.now, own_events, commit.fixed, commit.caught_up, commit.resumed)
        refused: list[Rejection] = []
        elements = intake.admit(commit, refused)
        intake.advance(commit)
        intake.forget_ids()
        run.dead += [{**one.event.row, "reason": one.reason} for one in refused if one.kind == "dead"]
        if elements:
            places = [
                (number, one.event.stream, one.event.partition, one.event.offset,
                 *(value[0] if value else None for value in one.aggregate_values))
                for one in elements
            ]  # fmt: skip
            run.epoch(_frame(learning, places), commit.now)
    return run


def _frame(learning: Learning, rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Elements of the model as rows with their places."""
    assert learning.flow.schema is not None
    places = zip(ORDER, (pl.Int64(), pl.String(), pl.Int32(), pl.Int64()), strict=True)
    columns = [pl.Series(name, [row[at] for row in rows], kind) for at, (name, kind) in enumerate(places)]
    for at, (name, kind) in enumerate(learning.flow.schema, len(ORDER)):
        values = [kind_of(kind).given(row[at]) for row in rows]
        columns.append(pl.Series(name, values, dtype(kind)))
    return pl.DataFrame(columns)
