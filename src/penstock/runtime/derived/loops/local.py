"""A loop without Spark, commit by commit, with what it keeps in memory: what tests compare the run on Spark with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.model.commits import Commit, Rejection
from penstock.model.intake import Intake
from penstock.model.loops import SIGN, Iteration
from penstock.runtime.derived.loops.machine import KEPT, PLACE, LoopTally, machine_of, run_around

Row = dict[str, Any]


class LocalLoop:
    """Runs a loop over commits. `kept` is what it remembers, by key."""

    def __init__(self, iteration: Iteration, name: str = "loop") -> None:
        self.iteration, self.name = iteration, name
        self.kept: dict[bytes, bytes] = {}
        self._intake = Intake(iteration.view)
        self._number = 0

    def commit(self, commit: Commit) -> tuple[list[Row], list[tuple[str, str]], LoopTally]:
        """The rows of a commit, the events that the loop rejected, and its counts."""
        self._number += 1
        refused: list[Rejection] = []
        elements = self._intake.admit(commit, refused)
        self._intake.advance(commit)
        self._intake.forget_ids()
        values = [[value[0] if value else None for value in element.aggregate_values] for element in elements]
        places = [(self._number, one.event.stream, one.event.partition, one.event.offset) for one in elements]
        return self.take(self._frame(values, places))

    def take(self, events: pl.DataFrame) -> tuple[list[Row], list[tuple[str, str]], LoopTally]:
        """The same for events on columns, with their places."""
        machine, tally = machine_of(self.iteration), LoopTally()
        run_around(machine, events, self._fetch, tally, self.name)
        for key, value in machine.memory().iter_rows():
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value
        return machine.rows().to_dicts(), tally.refused, tally

    def _fetch(self, keys: pl.Series) -> pl.DataFrame:
        entries = [(key, self.kept[key]) for key in keys.to_list() if key in self.kept]
        return pl.DataFrame(entries, schema=KEPT, orient="row")

    def _frame(self, values: list[list[Any]], places: list[tuple[Any, ...]]) -> pl.DataFrame:
        physical = {"timestamp": pl.Int64(), "date": pl.Int32()}
        kinds = (pl.Int64(), pl.String(), pl.Int32(), pl.Int64())
        columns = [
            pl.Series(name, [place[number] for place in places], dtype=kind)
            for number, (name, kind) in enumerate(zip(PLACE, kinds, strict=True))
        ]
        for number, (name, kind) in enumerate(self.iteration.event):
            column = [row[number] for row in values]
            columns.append(pl.Series(name, column, dtype=physical.get(kind, dtype(kind))).cast(dtype(kind)))
        return pl.DataFrame(columns)


@dataclass
class LoopRun:
    """What a loop did with a script: `rows` of its stream by commit, and `shown`, what its keys show at the end.

    `dead` are the events that it refused, as JSON with the reason; `rounds` how many each commit took.
    """

    rows: list[list[Row]] = field(default_factory=list)
    shown: list[Row] = field(default_factory=list)
    dead: list[tuple[str, str]] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)


def played(iteration: Iteration, commits: Iterable[Commit | None]) -> LoopRun:
    """Runs a loop over commits; None stands for a restart, of which it notices nothing."""
    local, result = LocalLoop(iteration), LoopRun()
    names = {source.name for source in iteration.input.sources}
    for commit in commits:
        if commit is None:
            continue
        events = tuple(event for event in commit.events if event.stream in names)
        rows, refused, tally = local.commit(Commit(commit.now, events, commit.fixed, commit.caught_up, commit.resumed))
        result.rows.append(rows)
        result.rounds.append(tally.rounds)
        result.dead += refused
        result.shown = shown_after(result.shown, rows)
    return result


def shown_after(shown: list[Row], rows: Iterable[Row]) -> list[Row]:
    """What is shown once rows of the stream were added and taken back, in order."""
    left = list(shown)
    for row in rows:
        values = {name: value for name, value in row.items() if name != SIGN}
        if row[SIGN] < 0:
            left.remove(values)
    for row in rows:
        if row[SIGN] > 0:
            left.append({name: value for name, value in row.items() if name != SIGN})
    return sorted(left, key=lambda row: [(value is None, value) for value in row.values()])
