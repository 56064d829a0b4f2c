"""Runs a stream over a script: what its steps, joins and processors make of the events."""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.model.aggregates import last
from penstock.model.chain import Below
from penstock.model.commits import Rejection
from penstock.model.intake import Intake
from penstock.model.kinds import kind_of
from penstock.model.reference import Reference
from penstock.model.stream import Flow
from penstock.model.triggers import each
from penstock.model.view import View
from penstock.model.windows import global_window
from penstock.testing.result import StreamResult
from penstock.testing.script import TestStream


def run_stream(flow: Flow, script: TestStream) -> StreamResult:
    """The rows of a stream, commit by commit, on the reference. Operators notice nothing of a restart."""
    if flow.schema is None:
        raise DefinitionError("the columns of the stream are not known", hint="say schema=… in the transform")
    columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(flow.schema.names))
    intake = Intake(View(flow, (), global_window(), columns, each()))
    below = Below((flow,), Reference, script.fed)
    rows: list[dict[str, object]] = []
    refused: list[Rejection] = []
    commits = 0
    for commit in script.commits():
        if commit is None:
            below.restart()
            continue
        commits += 1
        own = below.commit(commit, refused)
        for element in intake.admit(own, refused):
            values = [value[0] if value else None for value in element.aggregate_values]
            row = {name: kind_of(kind).given(value) for (name, kind), value in zip(flow.schema, values, strict=True)}
            rows.append({"commit": commits, **row})
        intake.advance(own)
        intake.forget_ids()
    return StreamResult(flow, rows, tuple(refused))
