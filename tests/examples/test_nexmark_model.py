"""Nexmark's queries without Spark: on the kernel, joins on the reference, against DuckDB; and the same in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from examples.nexmark import joins, queries
from examples.nexmark.app import nexmark
from examples.nexmark.events import Nexmark
from examples.nexmark.oracle import Oracle
from penstock import sql
from penstock.model.stream import Flow
from penstock.model.time import instant
from penstock.testing import TestStream, join, run
from tests.examples.answers import compare

pytestmark = pytest.mark.xdist_group("nexmark")  # they share what is made up, which takes a while

EVENTS, FILES = 3_000, 4
#: Three seconds: the watermark waits for four. Files are cut inside of it.
DISORDER = 300
NAMES = ("persons", "auctions", "bids")
#: What has an expression outside the kernel.
ON_SPARK = ("q10", "q16", "q21")
SQL = Path(queries.__file__).with_name("queries.sql")
START, END = "2015-07-15T01:00:00Z", "2015-07-15T02:00:00Z"


@dataclass
class Given:
    """The app, its events as a script, the rows of each join as a script, and what DuckDB says."""

    app: ps.App
    flows: dict[str, Flow]
    script: TestStream
    joined: dict[str, TestStream]
    oracle: Oracle


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    root = tmp_path_factory.mktemp("nexmark")
    source = Nexmark(rate=100, disorder=DISORDER)
    for _ in source.write(root, EVENTS, FILES):
        pass
    app, flows = nexmark(root)
    table = app.tables["side_input"]
    script = TestStream(*(app.streams[name] for name in NAMES), clock=START)
    script = script.table(table, *source.side_input(EVENTS).rows()).backlog()
    for number in range(FILES):
        for name in NAMES:
            script = script.add(*pl.read_ndjson(root / name / f"{number:05}.json").rows(named=True), to=name)
    script = script.watermark(END)
    return Given(app, flows, script, played(app, script), Oracle(root))


def played(app: ps.App, script: TestStream) -> dict[str, TestStream]:
    """What the joins give, on the reference, cut into three epochs."""
    found = {}
    for name in set(app.streams) - set(NAMES):
        result = join(app.streams[name], script)
        assert not result.refused
        size = -(-len(result.rows) // 3)
        found[name] = TestStream(app.streams[name], clock=START).backlog()
        for first in range(0, len(result.rows), size):
            found[name] = found[name].add(*result.rows[first : first + size])
        found[name] = found[name].watermark(END)
    return found


def script_of(given: Given, view: ps.View) -> TestStream:
    names = {source.name for source in ps.model.changes.origins(view)} & set(given.joined)
    return given.joined[names.pop()] if names else given.script


@pytest.mark.parametrize("name", [name for name in map("q{}".format, range(23)) if name not in ON_SPARK])
def test_a_query_gives_what_duckdb_gives(given: Given, name: str) -> None:
    view = given.app.views[name] if name in given.app.views else counted(given.flows[name])
    result = run(view, script_of(given, view))
    assert not result.refused
    rows = result.table
    if name not in given.app.views:
        rows = [row for row in rows for _ in range(int(str(row["times"])))]
    compare(rows, given.oracle.answer(name))


def counted(flow: Flow) -> ps.View:
    """How often each row is there."""
    assert flow.schema is not None
    return flow.group_by(*flow.schema.names).agg(times=ps.count())


def test_all_queries_are_there(given: Given) -> None:
    assert {*given.flows, *given.app.views} >= {f"q{number}" for number in range(23)}


def test_sql_defines_the_same_streams_and_views(given: Given) -> None:
    written = sql.load(SQL)
    python, flows = nexmark(Path())
    assert written.streams == {name: python.streams[name] for name in written.streams}
    assert written.flows == {name: flows[name] for name in written.flows}
    assert written.views == {name: python.views[name] for name in written.views}
    assert {*written.flows, *written.views} >= {f"q{number}" for number in range(23)} - {"q6"}


def test_a_bid_that_comes_later_than_the_watermark_waits_is_refused_unless_it_is_allowed(given: Given) -> None:
    """One bid of the first window is held back, far longer than the disorder."""
    bids = given.app.streams["bids"]
    rows = Nexmark(rate=100, disorder=DISORDER).parts(0, EVENTS)["bids"].rows(named=True)
    held, *rest = rows
    view = given.app.views["q12"]
    begun = TestStream(bids, clock=START).backlog()
    for first in range(0, len(rest), 500):
        begun = begun.add(*rest[first : first + 500])
    without, late = run(view, begun), run(view, begun.add(held))
    assert [(row["bidder"], row["reason"]) for row in late.late] == [(held["bidder"], "its window had closed")]
    assert late.table == without.table
    allowed = run(view.allow_late("1 minute"), begun.add(held))
    assert not allowed.refused
    compare(allowed.table, given.oracle.answer("q12"))


def test_a_mean_of_the_last_ten_takes_prices_back() -> None:
    entries = [joins.entry(number, 1000 + number, 10 * number) for number in range(12)]
    all_of_them: list[joins.Entry] = []
    for one in reversed(entries):
        all_of_them = joins.together(all_of_them, one)
    assert joins.mean_of_last(all_of_them) == sum(10 * number for number in range(2, 12)) / 10
    less = joins.together(all_of_them, joins.taken_back(entries[11]))
    assert joins.mean_of_last(less) == sum(10 * number for number in range(1, 11)) / 10
    assert joins.together(entries[3], joins.taken_back(entries[3])) == []


def test_an_event_depends_on_its_number_alone() -> None:
    source = Nexmark(rate=100, disorder=DISORDER)
    whole = source.parts(0, 1_000)
    for name in NAMES:
        parts = [source.parts(first, 250)[name] for first in range(0, 1_000, 250)]
        assert pl.concat(parts).equals(whole[name])
    assert instant(START) > whole["bids"]["at"].dt.epoch("us").max()
