"""Swaps of generations in segments: the same panes and tables as in the store's tables, in any number of pieces."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import penstock as ps
from penstock.kernel.fire import Time
from penstock.kernel.plan import Plan
from penstock.kernel.step import step
from penstock.model.time import BEGINNING
from penstock.model.view import View
from penstock.state.segment import paths
from penstock.state.sweep import sweep_replaced
from penstock.store import Commit, SqliteStore, StoreError
from penstock.store.generations import Origin, Scope
from penstock.store.segment_differences import compare
from penstock.store.segment_generation import GenerationFiles
from penstock.store.segment_swap import SegmentSwap
from tests.history.batch.test_swap import BY_PAGE, SECOND, VISITS, A, Driven
from tests.outbox import panes
from tests.store.sharded import table

KEYED = VISITS.group_by("page")
EARLY = ps.on_time(early=ps.each(), late=ps.each())
VIEWS = {
    "fixed": KEYED.window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms")).allow_late("5 seconds"),
    "sliding": KEYED.window(ps.sliding("20 seconds", every="10 seconds")).agg(n=ps.count(), avg=ps.avg("ms")),
    "early": KEYED.window(ps.fixed("10 seconds")).agg(n=ps.count(), people=ps.count_distinct("ms")).trigger(EARLY),
    "session": KEYED.window(ps.session("3 seconds")).agg(n=ps.count(), ms=ps.sum("ms")).trigger(EARLY),
    "counted": KEYED.window(ps.count_window(3)).agg(n=ps.count(), ms=ps.sum("ms")),
    "global": KEYED.agg(n=ps.count(), ms=ps.max("ms")).trigger(ps.each()),
    "one row": VISITS.group_by().agg(n=ps.count()).trigger(ps.each()),
    "having": KEYED.window(ps.fixed("10 seconds")).agg(n=ps.count()).having("n > 1"),
}
ACCUMULATIONS = ("accumulating", "retracting", "discarding")


def drawn(chance: random.Random, count: int, since: float = 0.0) -> list:
    return [(chance.choice("abcdefg"), chance.randrange(9), since + chance.random() * 40) for _ in range(count)]


def both(tmp_path: Path, view: View) -> tuple[Driven, Driven]:
    return Driven(tmp_path / "tables", view), Driven(tmp_path / "segments", view, is_sharded=True)


def fired(one: Driven) -> list[tuple]:
    """All panes. Those of one commit may come in any order."""
    return sorted(panes(one.store).drop("id").rows(), key=repr)


@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
@pytest.mark.parametrize("kind", VIEWS)
def test_generations_of_one_definition_give_the_same_panes_and_rows_in_tables_and_in_segments(
    tmp_path, kind, accumulation
):
    chance = random.Random(f"{kind}{accumulation}")
    pair = both(tmp_path, getattr(VIEWS[kind], accumulation)())
    rows: list = []
    for turn in range(4):
        for _ in range(2):
            more, mark = drawn(chance, 12, turn * 20), turn * 20 + chance.random() * 20
            rows += more
            for one in pair:
                one.commit(more, mark)
        past = [row for row in rows if chance.random() < 0.9] + drawn(chance, 4)
        scope = Scope(((0, (turn * 10 + 10) * SECOND),)) if kind == "fixed" and turn % 2 else Scope()
        for one in pair:
            one.swap(past, scope=scope)
        tables, segments = pair
        assert segments.table() == tables.table()
        assert fired(segments) == fired(tables)
    for one in pair:
        one.commit([], 200)
        one.store.close()
    assert fired(pair[1]) == fired(pair[0])


@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
@pytest.mark.parametrize(
    ("kind", "other"), [("fixed", "fixed"), ("fixed", "session"), ("session", "fixed"), ("fixed", "sliding")]
)
def test_generations_of_another_definition_give_the_same_panes_and_rows(tmp_path, kind, other, accumulation):
    chance = random.Random(f"{kind}{other}{accumulation}")
    pair = both(tmp_path, getattr(VIEWS[kind], accumulation)())
    rows = drawn(chance, 40)
    few = VISITS.where("ms < 6").group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms"))
    few = few if other == kind else VIEWS[other]
    for one in pair:
        one.commit(rows[:30], 15)
        one.commit(rows[30:], 25)
        one.swap(rows, getattr(few, accumulation)())
        one.commit([("a", 1, 33.0), ("b", 1, 41.0)], 60)
    tables, segments = pair
    assert segments.table() == tables.table()
    assert fired(segments) == fired(tables)
    for one in pair:
        one.store.close()
    again = Driven(segments.store.directory, segments.view)  # the list names the new segments
    assert again.table() == segments_table(again)
    again.store.close()


def test_generations_in_segments_work_with_a_store_in_postgresql(tmp_path, postgres):
    chance = random.Random(3)
    url = f"{postgres.url}?schema=g{os.getpid()}"
    pair = (
        Driven(tmp_path / "tables", BY_PAGE.retracting()),
        Driven(tmp_path / "segments", BY_PAGE.retracting(), True, url),
    )
    rows = drawn(chance, 40)
    other = KEYED.window(ps.fixed("20 seconds")).agg(n=ps.count(), top=ps.max("ms")).retracting()
    for one in pair:
        one.commit(rows, 15)
        one.swap(rows[4:])
        one.swap(rows, other)
        one.commit([("a", 1, 45.0)], 60)
    tables, segments = pair
    assert segments.table() == tables.table()
    assert fired(segments) == fired(tables)
    for one in pair:
        one.store.close()


def segments_table(one: Driven) -> list[tuple]:
    assert one.store.sharded("v") is not None
    return sorted(table(one.store, "v").rows())


def begun(one: Driven, rows: list, view: View | None = None) -> str:
    """A generation of these rows that is not swapped in."""
    plan, hidden = Plan(view or one.view), one.store.generations.hidden("v")
    one.store.generations.begin(hidden, plan)
    time = Time(BEGINNING, one.mark, 0, lambda _: one.mark)
    one.store.generations.load(hidden, step(plan, one.deltas(plan, rows, BEGINNING), one.store.state(hidden), time))
    return hidden


@pytest.mark.parametrize("other", ["same", "another definition", "another column"])
def test_a_dry_run_tells_the_same_differences_in_tables_and_in_segments(tmp_path, other):
    views = {
        "same": None,
        "another definition": VISITS.where("ms < 4").group_by("page").window(ps.fixed("10 seconds")).agg(
            n=ps.count(), ms=ps.sum("ms")
        ),
        "another column": KEYED.window(ps.fixed("10 seconds")).agg(n=ps.count(), top=ps.max("ms")),
    }  # fmt: skip
    found = []
    for one in both(tmp_path, BY_PAGE):
        one.commit(A, 11)
        one.commit([("/c", 1, 12.0)])
        hidden = begun(one, [*A[1:], ("/d", 7, 1.0), ("/c", 1, 12.0)], views[other])
        difference = one.store.generations.compare("v", hidden, Scope(), 10)
        found.append((difference, difference.rows.rows(), difference.rows.columns))
        assert one.store.generations.compare("v", hidden, Scope(), 1).rows.height == 1
        if one.store.sharded("v") is not None:
            old, new = one.store.sharded("v"), one.store.sharded(hidden)
            assert compare(old, new, Scope(), 10, largest=1).rows.rows() == difference.rows.rows()
        before = one.table()
        one.store.generations.end(hidden)
        assert one.table() == before
        one.store.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["fixed", "session", "counted", "early"])
def test_a_swap_in_many_pieces_is_the_same_as_in_one(tmp_path, kind):
    chance, one = random.Random(kind), Driven(tmp_path, VIEWS[kind].retracting(), is_sharded=True)
    rows = drawn(chance, 60)
    one.commit(rows[:40], 15)
    one.commit(rows[40:], 25)
    hidden = begun(one, [*rows[5:], *drawn(chance, 5)])
    results = []
    for largest in (1, 7, 1 << 30):
        old, new, files = one.store.sharded("v"), one.store.sharded(hidden), GenerationFiles(one.store.segments_at, 1)
        change = SegmentSwap("v", old, new, Scope(), one.mark, files, largest).rows()
        after = old.changed(change.added).state()
        results.append((sorted(change.panes.rows(), key=repr), sorted(after.whole().rows(), key=repr)))
    assert results[0] == results[1] == results[2]
    assert results[0][0]
    one.store.close()


def test_a_generation_that_is_given_up_leaves_no_files(tmp_path):
    one = Driven(tmp_path, BY_PAGE, is_sharded=True)
    one.commit(A, 5)
    listed = set(paths(one.store.needed_segments()))
    hidden = begun(one, A)
    folder = Path(one.store.segments_at)
    assert {path.name for path in folder.iterdir()} > listed
    unlisted = {path.name for path in folder.iterdir()} - listed
    assert {name.partition(".")[0] for name in unlisted} == one.store.generation_writes()
    one.store.generations.end(hidden)
    assert {path.name for path in folder.iterdir()} == listed
    assert not one.store.generation_writes()
    one.store.close()


def test_a_view_that_is_moved_into_segments_meanwhile_takes_its_generation_along(tmp_path):
    one = Driven(tmp_path, BY_PAGE.retracting())
    one.commit(A, 11)
    hidden = begun(one, [*A, ("/a", 8, 4.0)])
    one.store.shard("v", 4)
    assert one.store.generations.compare("v", hidden, Scope(), 5).change == 1
    one.store.generations.swap("v", hidden, Commit("swap", 0, view_times={"v": one.mark}), Origin("batch", 1), Scope())
    one.store.generations.end(hidden)
    assert [(row[0], row[3]) for row in one.table()] == [("/a", 3), ("/b", 1)]
    assert one.panes()[2:] == [("retract", "/a", 0, 2, 0), ("insert", "/a", 0, 3, 1)]
    one.store.close()


def test_a_view_in_segments_refuses_an_index(tmp_path):
    one = Driven(tmp_path, BY_PAGE, is_sharded=True)
    with pytest.raises(StoreError, match="'v' cannot have an index: its rows are in segments"):
        one.store.index("v", "n")
    one.store.close()


def test_a_dropped_view_leaves_segments_that_are_marked_as_removed(tmp_path):
    one = Driven(tmp_path, BY_PAGE, is_sharded=True)
    one.commit(A, 5)
    one.store.drop("v")
    assert one.store.sharded("v") is None
    assert one.store.replaced_segments(1) == one.store.needed_segments() != []
    one.store.close()
    again = SqliteStore.open(one.store.directory)
    again.lock()
    again.prepare({"v": Plan(BY_PAGE)})
    assert again.sharded("v") is None
    again.close()


def test_erased_rows_are_in_no_listed_file_after_the_next_generation(tmp_path):
    one = Driven(tmp_path, BY_PAGE, is_sharded=True)
    one.commit([("/secret", 1, 1.0), *A], 11)
    one.commit([("/open", 1, 12.0)])
    one.swap([("/secret", 1, 1.0), *A, ("/open", 1, 12.0)])
    one.store.erase("visits", "page = '/secret'", None, 0)
    one.swap([*A, ("/open", 1, 12.0)])
    folder, view = Path(one.store.segments_at), one.store.sharded("v")
    assert [row[0] for row in one.table()] == ["/a", "/b", "/open"]
    assert all(b"/secret" not in (folder / path).read_bytes() for path in paths(view.segments))
    sweep_replaced(one.store, 1, 0)
    assert {path.name for path in folder.iterdir() if path.is_file()} == set(paths(view.segments))
    one.commit([("/open", 1, 13.0)], 21)
    assert one.table()[-1][3] == 2
    one.store.close()
