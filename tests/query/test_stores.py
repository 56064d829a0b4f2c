"""The questions of the table have the same answers over SQLite, PostgreSQL and in test scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.model.commits import Commit, Event
from penstock.model.time import instant
from penstock.query.plan import Scan, compile_query
from penstock.query.run import shared_engine
from penstock.query.values import column
from penstock.store import Reader
from penstock.store.address import Address
from penstock.store.scan import scanning
from tests.query.asking import ANSWERS, rows_of, same
from tests.query.questions import NOW, QUESTIONS
from tests.query.record import shown
from tests.query.rows import ROWS, SCHEMAS
from tests.store.engine import StoreEngine
from tests.store.test_scan import physical


def view_of(name: str) -> ps.View:
    """A view that holds the rows of a table as they are."""
    schema = SCHEMAS[name]
    values = {column: ps.last(column) for column in schema.names if column != "id"}
    return ps.stream("s", schema=schema.ddl()).group_by("id").agg(**values)


def write(name: str, directory: Path, url: str | None) -> Reader:
    """A store that holds a table, written by a commit."""
    engine = StoreEngine(view_of(name), directory, url=url)
    rows = [dict(zip(SCHEMAS[name].names, row, strict=True)) for row in ROWS[name]]
    events = [Event("s", {n: physical(row[n], k) for n, k in SCHEMAS[name]}, 0, at) for at, row in enumerate(rows)]
    engine.commit(Commit(instant("2024-05-01"), tuple(events)))
    engine.store.close()
    return Reader(directory)


def differing(rows_of_scan: Callable[[Scan], pa.Table | pa.RecordBatchReader]) -> list[str]:
    """The questions whose answers are not the recorded ones."""
    recorded: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())
    wrong = []
    for question in QUESTIONS:
        plan = compile_query(question, SCHEMAS, now=NOW)
        rows = rows_of(shared_engine().run(plan, rows_of_scan).table)
        answer = json.loads(json.dumps(shown(question, [kind for _, kind in plan.schema], rows)))
        expected = recorded[question]
        if not same(answer["rows"], expected["rows"], near=True):
            wrong.append(f"{question}\n  {answer['rows']}\n  {expected['rows']}")
    return wrong


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_store_answers_as_recorded(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue("postgres") if kind == "postgres" else None
    with ExitStack() as stack:
        views = {}
        for name in SCHEMAS:
            url = None if server is None else f"{server.url}?schema=questions_{name}"
            if url is not None:
                Address.read(url)
            snapshot = stack.enter_context(scanning(write(name, tmp_path / name, url)))
            views[name] = snapshot, snapshot.views["v"]

        def scan(scan: Scan) -> pa.RecordBatchReader:
            snapshot, view = views[scan.view]
            return snapshot.scan(view, scan.columns, scan.filters)

        assert not differing(scan)


def test_a_script_answers_as_recorded() -> None:
    def scan(scan: Scan) -> pa.Table:
        names = SCHEMAS[scan.view].names
        rows = [dict(zip(names, row, strict=True)) for row in ROWS[scan.view]]
        if not scan.columns:
            return pa.table({"__row": pa.nulls(len(rows), pa.bool_())})
        kinds = {name: SCHEMAS[scan.view].type_of(name) for name in scan.columns}
        return pa.table({name: column([row[name] for row in rows], kind) for name, kind in kinds.items()})

    assert not differing(scan)
