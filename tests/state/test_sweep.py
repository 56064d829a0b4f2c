"""The sweep removes files that hold no state any more, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.history.events.pins import needed_from, pinned
from penstock.history.events.writes import WritesInFlight
from penstock.kernel.fire import Time
from penstock.kernel.plan import Plan
from penstock.kernel.step import step
from penstock.model.time import BEGINNING
from penstock.state.compact import Merge
from penstock.state.layout import layouts
from penstock.state.segment import ALL, SegmentFile, encoded, paths
from penstock.state.segment_state import presented
from penstock.state.sweep import sweep_orphans, sweep_replaced
from penstock.store import SqliteStore
from penstock.store.lock import TakenOver
from tests.history.batch.test_swap import BY_PAGE, Driven
from tests.store.sharded import commit_step

GRACE = 600
ROWS = [("/a", 1, 1.0), ("/b", 1, 2.0)]


@pytest.fixture
def one(tmp_path: Path):
    driven = Driven(tmp_path, BY_PAGE, is_sharded=True)
    yield driven
    driven.store.close()


def still(now: int) -> Time:
    """Event time has not begun."""
    return Time(BEGINNING, BEGINNING, now, lambda _: BEGINNING)


def commit(one: Driven, now: int) -> None:
    commit_step(one.store, "v", one.deltas(one.plan, ROWS, BEGINNING), still(now))


def files(one: Driven) -> set[str]:
    folder = Path(one.store.segments_at)
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def listed(one: Driven) -> set[str]:
    view = one.store.sharded("v")
    assert view is not None
    return set(paths(view.segments))


def compact(one: Driven, now: int, name: str = "1-compacted-1") -> None:
    """All runs of the view become one."""
    view = one.store.sharded("v")
    assert view is not None
    file = SegmentFile(view.root, f"{name}.arrow")
    Merge(view.root, layouts(view.plan)["rows"], view.segments, is_oldest=True).write(file, [ALL])
    assert one.store.replace_segments("v", view.segments, file.close(), now)


def test_replaced_files_stay_for_a_grace(one):
    commit(one, 100)
    commit(one, 200)
    old = listed(one)
    compact(one, 1000)
    assert files(one) == old | listed(one)
    assert sweep_replaced(one.store, 1000 + GRACE, GRACE) == 0
    assert sweep_replaced(one.store, 1001 + GRACE, GRACE) == len(old)
    assert files(one) == listed(one)
    assert sweep_replaced(one.store, 10_000, GRACE) == 0
    assert {segment.path for segment in one.store.needed_segments()} == listed(one)
    assert [row[3] for row in one.table()] == [2, 2]


def test_a_file_goes_when_none_of_its_segments_is_needed(one):
    commit(one, 100)
    view = one.store.sharded("v")
    layout, rows = layouts(view.plan)["rows"], presented(view.plan, view.state().at(view.state().whole()), final=False)
    file = SegmentFile(view.root, "1-several.arrow")
    for number in (1, 2):
        file.add(encoded("v", layout, number, rows))
    first, second = file.close()
    assert one.store.replace_segments("v", view.segments, [first, second], 200)
    assert one.store.replace_segments("v", [first], [], 200)
    sweep_replaced(one.store, 10_000, GRACE)
    assert files(one) == {"1-several.arrow"}
    assert set(one.store.needed_segments()) == {first, second}
    assert one.store.replace_segments("v", [second], [], 300)
    sweep_replaced(one.store, 10_000, GRACE)
    assert files(one) == set()
    assert one.store.needed_segments() == []


def test_files_that_a_pin_needs_stay(one):
    commit(one, 100)
    before = listed(one)
    compact(one, 200, "1-compacted-1")
    commit(one, 300)
    pinned_files = listed(one)
    with pinned(one.store, "savepoint"):
        compact(one, 400, "1-compacted-2")
        needed = needed_from(one.store.directory, 0)
        sweep_replaced(one.store, 10_000, GRACE, needed)
        assert files(one) == pinned_files | listed(one)
        assert not files(one) & before
    sweep_replaced(one.store, 10_000, GRACE, None)
    assert files(one) == listed(one)


def test_nothing_is_removed_for_a_pin_whose_commit_is_not_known(one):
    commit(one, 100)
    compact(one, 200)
    assert sweep_replaced(one.store, 10_000, GRACE, 0) == 0
    assert len(files(one)) > len(listed(one))


def test_files_that_no_list_names_go_except_those_of_writes_in_flight(one):
    commit(one, 100)
    folder, writes = Path(one.store.segments_at), WritesInFlight()
    (folder / "spool").mkdir()
    for name in ("1-q-1-a.0.arrow", "1-q-2-b.0.arrow", "spool/1-q-1-a.0.arrow", "spool/1-q-2-b.3.arrow"):
        (folder / name).write_bytes(b"")
    (folder / "notes.txt").write_text("not ours")
    with writes.running("1-q-2-b"):
        assert sweep_orphans(one.store, writes.ids) == 2
    assert files(one) == {*listed(one), "notes.txt", "1-q-2-b.0.arrow", "spool/1-q-2-b.3.arrow"}
    assert sweep_orphans(one.store, writes.ids) == 2
    assert files(one) == {*listed(one), "notes.txt"}


def test_replaced_files_are_no_orphans(one):
    commit(one, 100)
    compact(one, 200)
    there = files(one)
    assert sweep_orphans(one.store, frozenset) == 0
    assert files(one) == there


def test_a_generation_in_the_making_keeps_its_files_until_its_process_is_gone(one):
    commit(one, 100)
    hidden = one.store.generations.hidden("v")
    one.store.generations.begin(hidden, one.plan)
    deltas = one.deltas(one.plan, ROWS, BEGINNING)
    one.store.generations.load(hidden, step(one.plan, deltas, one.store.state(hidden), still(0)))
    there = files(one)
    assert there > listed(one)
    assert sweep_orphans(one.store, frozenset) == 0
    one.store.close()  # as if it were killed
    again = SqliteStore.open(one.store.directory)
    again.lock()
    again.prepare({"v": Plan(BY_PAGE)})
    assert sweep_orphans(again, frozenset) == 1
    assert files(one) == set(paths(again.needed_segments()))
    again.close()


def test_a_process_that_was_taken_over_removes_nothing(one):
    commit(one, 100)
    compact(one, 200)
    there = files(one)
    one.store.token -= 1  # as if another process had a newer one
    with pytest.raises(TakenOver):
        sweep_replaced(one.store, 10_000, GRACE)
    assert files(one) == there
    one.store.token += 1


def test_windows_that_expire_do_not_come_back_in_an_older_version(tmp_path):
    view = ps.stream(
        "visits", schema="page string, ms int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"),
        max_ahead=None,
    ).group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms"))  # fmt: skip
    pair = [Driven(tmp_path / name, view, is_sharded=name == "segments") for name in ("tables", "segments")]
    for one in pair:
        one.commit([("/a", 1, 1.0), ("/b", 1, 31.0)], 5)  # open windows
        one.commit([], 12)  # the first one is final
        one.commit([], 40)
        time = Time(one.mark, one.mark, 500, lambda _, one=one: one.mark)
        commit_step(one.store, "v", [], time, expire=20_000_000)
    tables, segments = pair
    assert segments.table() == tables.table()
    assert [row[0] for row in tables.table()] == ["/b"]
    for one in pair:
        one.store.close()
    again = Driven(tmp_path / "segments", view)
    assert again.table() == tables_rows(tmp_path / "tables", view)
    again.store.close()


def tables_rows(directory: Path, view: ps.View) -> list[tuple]:
    one = Driven(directory, view)
    rows = one.table()
    one.store.close()
    return rows
