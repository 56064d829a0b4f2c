"""Swaps on a store that the kernel drives, without Spark: what readers see, what is corrected, what fires later."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.step import step
from penstock.model.commits import Event
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.store import Commit, SqliteStore, open_store
from penstock.store.generations import Origin, Scope
from tests.outbox import panes
from tests.store.sharded import commit_step, table

SECOND = 1_000_000
VISITS = ps.stream(
    "visits", schema="page string, ms int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"),
    max_ahead=None,
)  # fmt: skip
BY_PAGE = VISITS.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms"))
Row = tuple[str, int, float]


class Driven:
    """A view in a store, stepped by rows; a generation of it from other rows."""

    def __init__(self, directory: Path, view: View, is_sharded: bool = False, url: str | None = None) -> None:
        self.store = open_store(directory, url=url)
        self.store.lock()
        self.view, self.plan, self.mark = view, Plan(view), BEGINNING
        self.store.prepare({"v": self.plan})
        if is_sharded:
            self.store.shard("v", 4)
        self.number = 0

    def deltas(self, plan: Plan, rows: list[Row], mark: Instant) -> list[pl.DataFrame]:
        if not rows:
            return []
        events = []
        for page, ms, at in rows:
            events.append(Event("visits", {"page": page, "ms": ms, "at": round(at * SECOND)}, 0, self.number))
            self.number += 1
        admitted = admit(VISITS, events_frame(VISITS, events, 0), 0)
        return [reduce(plan, "visits", admitted.rows, mark).deltas]

    def commit(self, rows: list[Row], mark: float | None = None) -> list[pl.DataFrame]:
        """One commit of these rows, after which the watermark is there."""
        before, self.mark = self.mark, self.mark if mark is None else round(mark * SECOND)
        deltas = self.deltas(self.plan, rows, before)
        time = Time(before, self.mark, 0, lambda _: self.mark)
        commit_step(self.store, "v", deltas, time)
        return deltas

    def swap(self, rows: list[Row], view: View | None = None, scope: Scope = Scope(), **given: str) -> None:  # noqa: B008
        """A generation of these rows takes the place of the view."""
        plan = Plan(view or self.view)
        hidden = self.store.generations.hidden("v")
        self.store.generations.begin(hidden, plan)
        time = Time(BEGINNING, self.mark, 0, lambda _: self.mark)
        self.store.generations.load(
            hidden, step(plan, self.deltas(plan, rows, BEGINNING), self.store.state(hidden), time)
        )
        record = Commit("swap", 0, view_times={"v": self.mark})
        self.store.generations.swap("v", hidden, record, Origin("batch", 1), scope)
        self.store.generations.end(hidden)
        self.view, self.plan = view or self.view, self.store.state("v").plan

    def table(self) -> list[tuple]:
        return sorted(table(self.store, "v").rows())

    def panes(self) -> list[tuple]:
        """Kind, page, start in seconds, n, index of each pane."""
        found = panes(self.store)
        return [
            (
                p["kind"],
                json.loads(p["key"]).get("page"),
                p["start"] // SECOND,
                json.loads(p["values"])["n"],
                p["index"],
            )
            for p in found.iter_rows(named=True)
        ]


@pytest.fixture(params=["tables", "segments"])
def driven(tmp_path: Path, request: pytest.FixtureRequest):
    made: list[Driven] = []

    def make(view: View) -> Driven:
        made.append(Driven(tmp_path / str(len(made)), view, request.param == "segments"))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


A = [("/a", 1, 1.0), ("/a", 2, 2.0), ("/b", 4, 3.0)]


def test_a_generation_that_is_the_same_changes_nothing_and_says_nothing(driven):
    one = driven(BY_PAGE.retracting())
    one.commit(A, 5)
    one.commit([("/a", 1, 12.0)], 11)
    before, panes = one.table(), one.panes()
    one.swap([*A, ("/a", 1, 12.0)])
    assert one.table() == before
    assert one.panes() == panes
    one.commit([("/a", 1, 13.0)], 21)
    assert one.panes()[len(panes) :] == [("insert", "/a", 10, 2, 0)]  # open windows fire when their time comes


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (BY_PAGE.retracting(), [("retract", "/a", 0, 2, 0), ("insert", "/a", 0, 3, 1), ("insert", "/c", 0, 1, 0)]),
        (BY_PAGE, [("insert", "/a", 0, 3, 1), ("insert", "/c", 0, 1, 0)]),
        (BY_PAGE.discarding(), []),
        (BY_PAGE.trigger(ps.never()), []),
    ],
)
def test_late_events_are_counted_and_corrected_once(driven, view, expected):
    one = driven(view)
    one.commit(A, 11)
    panes = len(one.panes())
    late = [("/a", 8, 4.0), ("/c", 16, 5.0)]
    for _ in range(2):  # the second generation has nothing more to say
        one.swap([*A, *late])
        assert [(row[0], row[3], row[5]) for row in one.table()] == [("/a", 3, 1), ("/b", 1, 1), ("/c", 1, 1)]
        assert one.panes()[panes:] == expected
    one.swap(A)  # and back
    assert [(row[0], row[3]) for row in one.table()] == [("/a", 2), ("/b", 1)]


def test_what_an_early_pane_has_shown_is_taken_back_when_the_value_changes(driven):
    one = driven(BY_PAGE.trigger(ps.on_time(early=ps.each())).retracting())
    one.commit(A, 5)
    one.swap([*A, ("/b", 1, 1.0)])
    assert one.panes()[2:] == [("retract", "/b", 0, 1, 0), ("insert", "/b", 0, 2, 1)]
    one.commit([], 11)
    assert [pane for pane in one.panes()[4:] if pane[1] == "/b"][-1][3] == 2


def test_sessions_that_grow_together_take_the_place_of_those_that_were_apart(driven):
    view = VISITS.group_by("page").window(ps.session("5 seconds")).agg(n=ps.count()).retracting()
    one = driven(view)
    one.commit([("/a", 1, 0.0)], 6)
    one.commit([("/a", 1, 8.0)], 14)
    assert [pane[:4] for pane in one.panes()] == [("insert", "/a", 0, 1), ("insert", "/a", 8, 1)]
    one.swap([("/a", 1, 0.0), ("/a", 1, 4.0), ("/a", 1, 8.0)])
    assert [row[3] for row in one.table()] == [3]
    assert one.panes()[2:] == [
        ("retract", "/a", 0, 1, 0), ("insert", "/a", 0, 3, 0), ("retract", "/a", 8, 1, 0)
    ]  # fmt: skip


def test_count_windows_go_on_counting_after_a_swap(driven):
    view = VISITS.group_by("page").window(ps.count_window(3)).agg(n=ps.count(), ms=ps.sum("ms"))
    one = driven(view)
    one.commit(A)
    one.swap([("/a", 5, 0.5), *A])
    one.commit([("/a", 7, 9.0)])
    assert [(row[0], row[1], row[3], row[4]) for row in one.table()] == [
        ("/a", 0, 3, 8),
        ("/a", 3, 1, 7),
        ("/b", 0, 1, 4),
    ]


def test_only_the_windows_in_scope_are_replaced(driven):
    one = driven(BY_PAGE)
    one.commit([("/a", 1, 1.0), ("/a", 1, 31.0)], 50)
    one.swap([("/a", 1, 31.0), ("/a", 1, 32.0)], scope=Scope(((30 * SECOND, 40 * SECOND),)))
    assert [row[3] for row in one.table()] == [1, 2]


def test_another_definition_of_the_same_columns_corrects_what_stood(driven):
    one = driven(BY_PAGE.retracting())
    one.commit(A, 11)
    one.commit([("/a", 1, 12.0)])
    few = VISITS.where("ms < 4").group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms"))
    one.swap([*A, ("/a", 1, 12.0)], few.retracting())
    assert one.panes()[2:] == [("retract", "/b", 0, 1, 0)]
    one.commit([("/a", 1, 13.0), ("/b", 9, 13.0)], 21)
    assert one.panes()[3:] == [("insert", "/a", 10, 2, 0)]
    assert one.store.views()["v"] == repr(few.retracting())


def test_another_definition_with_other_columns_begins_without_a_word(driven):
    one = driven(BY_PAGE)
    one.commit(A, 11)
    if one.store.sharded("v") is None:
        one.store.index("v", "n")
    other = VISITS.group_by("page").window(ps.fixed("20 seconds")).agg(top=ps.max("ms"))
    one.swap(A, other)
    assert [(row[0], row[3]) for row in one.table()] == [("/a", 2), ("/b", 4)]
    entry = next(entry for entry in one.store.catalog() if entry.name == "v")
    assert dict(entry.columns)["top"] == "int"


def test_a_store_that_is_locked_again_has_no_half_made_generation(tmp_path):
    one = Driven(tmp_path, BY_PAGE)
    one.commit(A, 5)
    one.store.generations.begin(one.store.generations.hidden("v"), one.plan)
    hidden = "SELECT count(*) FROM sqlite_schema WHERE instr(name, '~') > 0"
    assert one.store.query(hidden).item() > 0
    one.store.close()
    again = SqliteStore.open(one.store.directory)
    again.lock()
    assert again.query(hidden).item() == 0
    assert again.query("SELECT count(*) FROM v").item() == 2
    again.close()
