"""What a processor did with a script of commits, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.commits import Commit, Rejection
from penstock.model.kinds import kind_of
from penstock.model.process import Process
from penstock.model.process_reference import ProcessReference
from penstock.model.processing import OutputRow
from penstock.model.processor import Timer
from penstock.model.types import Schema

Row = dict[str, Any]


@dataclass
class ProcessRun:
    """The rows that a processor gave out, `late` and `dead` events with the reason, and what each key has at the end.

    `sides` are the rows of side outputs, by name. Rows of one key are in the order in which they were given out.
    """

    process: Process
    rows: list[Row] = field(default_factory=list)
    sides: dict[str, list[Row]] = field(default_factory=dict)
    late: list[Row] = field(default_factory=list)
    dead: list[Row] = field(default_factory=list)
    duplicates: list[Row] = field(default_factory=list)
    state: dict[Any, Row] = field(default_factory=dict)

    def add(self, output: OutputRow) -> None:
        side, values, _ = output
        row = _shown(self.process.shape.outputs.schemas[side], values)
        (self.rows if side is None else self.sides.setdefault(side, [])).append(row)

    def refuse(self, refused: Rejection) -> None:
        schema = next(one.schema for one in self.process.input.sources if one.name == refused.event.stream)
        row = _shown(schema, [refused.event.row.get(name) for name in schema.names])
        kinds = {"late": self.late, "dead": self.dead, "duplicate": self.duplicates}
        kinds[refused.kind].append({**row, "reason": refused.reason})

    def fail(self, key: Any, timer: Timer, reason: str) -> None:
        self.dead.append({"key": key, "timer": timer, "reason": reason})


def played(process: Process, commits: Iterable[Commit | None]) -> ProcessRun:
    """Runs a processor over commits on the reference; None stands for a restart, of which it notices nothing."""
    reference, history = ProcessReference(process), ProcessRun(process)
    history.sides = {name: [] for name in process.shape.outputs.schemas if name is not None}
    names = {source.name for source in process.input.sources}
    for commit in commits:
        if commit is None:
            continue
        own_events = tuple(event for event in commit.events if event.stream in names)
        result = reference.commit(replace(commit, events=own_events))
        for _, output in result.outputs:
            history.add(output)
        for refused in result.refused:
            history.refuse(refused)
        for key, timer, reason in result.failed:
            history.fail(process.shape.shown_key(key), timer, reason)
    history.state = {process.shape.shown_key(key): held for key, held in reference.state()}
    return history


def _shown(schema: Schema, values: Iterable[Any]) -> Row:
    return {name: kind_of(kind).given(value) for (name, kind), value in zip(schema, values, strict=True)}
