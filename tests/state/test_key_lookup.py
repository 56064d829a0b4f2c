"""Lookups by whole key give the rows that lookups of any kind give."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.one_key import PlainKey
from penstock.model.commits import Commit, Event
from penstock.model.time import instant
from penstock.query.key_pages import KeyPages
from penstock.state import key_rows
from penstock.state.key_rows import KeyRows
from penstock.store import Commit as Record
from penstock.store import Reader, StoreError
from penstock.store.key_lookup import KeyLookups
from penstock.store.scan import Snapshot, scanning
from penstock.store.segment_lookup import SegmentQuestion, look_up
from penstock.testing import replay
from tests.kernel.test_against_reference import cut_with
from tests.state.test_read import BY_KEY, KEYS, KINDS, NOON, compact, sharded
from tests.store.conftest import Home
from tests.store.engine import NAME, StoreEngine
from tests.store.test_scan import ROWS, all_types, physical
from tests.strategies import cases, scripts, seconds, views


def keys_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    """All keys in segments, also of rows that nobody sees: times as numbers."""
    view = snapshot.views[NAME]
    table = snapshot.segment_table(view)
    frames = [
        pl.DataFrame(pl.from_arrow(mapped.batch.select(list(view.keys)))) for kind in table.kinds for mapped in kind
    ]
    rows = [row for frame in frames for row in frame.select(pl.all().to_physical()).iter_rows(named=True)]
    return list({repr(row): row for row in rows}.values())


def question(key: dict[str, Any]) -> SegmentQuestion:
    given = {name: [value] for name, value in key.items() if value is not None}
    return SegmentQuestion(NAME, given, [name for name in key if name not in given])


def varied(asked: SegmentQuestion, rows: list[list[Any]], chance: random.Random) -> Iterator[SegmentQuestion]:
    """The question in other orders, for pages, and for some windows."""
    yield replace(asked, newest=False, places=False)
    yield replace(asked, final=chance.random() < 0.5, most=chance.randint(1, 3))
    if rows:
        *_, end, start, place = chance.choice(rows)
        yield replace(asked, after=(end, start, place), newest=chance.random() < 0.5)
        operator = chance.choice(["=", "<", "<=", ">", ">="])
        yield replace(asked, bounds=[("__start", operator, start), ("__end", chance.choice(["<=", ">="]), end)])


def same_rows(directory: Path, lookups: KeyLookups, chance: random.Random) -> None:
    with scanning(Reader(directory)) as snapshot:
        for key in keys_of(snapshot):
            asked = question(key)
            expected = look_up(snapshot, asked)
            for one in [asked, *varied(asked, expected, chance)]:
                answer = lookups.answer(one)
                assert answer is not None
                assert repr(answer.rows) == repr(look_up(snapshot, one)), one
                assert answer.commit == snapshot.commit


def compare(view: ps.View, data: st.DataObject) -> None:
    script, seed = data.draw(scripts(view)), data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        replay(view, script, StoreEngine(view, directory, cut_with(seed), None, lambda: chance.choice([1, 2, 5])))
        lookups = KeyLookups(Reader(directory))
        same_rows(directory, lookups, chance)
        engine = StoreEngine(view, directory, shards=lambda: 1)
        compact(engine.store, chance, remove=True)
        engine.store.close()
        same_rows(directory, lookups, chance)
        lookups.close()


@cases(40, deep=40)
@given(views().filter(lambda view: view.keys), st.data())
def test_any_key_of_any_view_has_the_same_rows(view: ps.View, data: st.DataObject) -> None:
    compare(view, data)


@cases(15, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)).filter(lambda view: view.keys), st.data())
def test_any_key_of_sessions_has_the_same_rows(view: ps.View, data: st.DataObject) -> None:
    compare(view, data)


# types


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_each_type_is_found(tmp_path: Path, name: str) -> None:
    view = ps.stream("s", schema=f"{name} {KINDS[name]}").group_by(name).agg(rows=ps.count())
    rows = [{name: value} for value in KEYS[name]] * 2 + ([{"f": -0.0}] if name == "f" else [])
    sharded(Home(tmp_path, None), view, rows, commits=3)
    same_rows(tmp_path, KeyLookups(Reader(tmp_path)), random.Random(1))
    lookups = KeyLookups(Reader(tmp_path))
    for value in KEYS[name]:
        answer = lookups.answer(question({name: None if value is None else physical(value, KINDS[name])}))
        assert answer is not None
        assert [row[3] for row in answer.rows] == [3 if value == 0.0 and name == "f" else 2]


def test_a_value_of_each_type_is_shown_alike(tmp_path: Path) -> None:
    sharded(Home(tmp_path, None), all_types(), ROWS)
    same_rows(tmp_path, KeyLookups(Reader(tmp_path)), random.Random(1))


def test_times_in_years_that_python_does_not_know_are_shown_alike(tmp_path: Path) -> None:
    view = ps.stream("s", schema="k string, at timestamp, day date").group_by("k").agg(
        last=ps.max("at"), day=ps.max("day")
    )  # fmt: skip
    engine = StoreEngine(view, tmp_path, shards=lambda: 1)
    far = [(1 << 60, 1 << 24), (-(1 << 60), -(1 << 24)), (None, None), (1, 1)]
    events = [Event("s", {"k": f"k{n}", "at": at, "day": day}, 0, n) for n, (at, day) in enumerate(far)]
    engine.commit(Commit(instant(NOON), tuple(events)))
    engine.store.close()
    same_rows(tmp_path, KeyLookups(Reader(tmp_path)), random.Random(1))


# what is left to others


@pytest.mark.parametrize(
    "asked",
    [
        SegmentQuestion(NAME), SegmentQuestion(NAME, {"k": ["a", "b"]}), SegmentQuestion(NAME, {"k": ["a"]}, ["k"]),
        SegmentQuestion(NAME, {"k": [1]}), SegmentQuestion(NAME, {"k": ["a"], "n": [1]}),
        SegmentQuestion("other", {"k": ["a"]}),
    ],
)  # fmt: skip
def test_other_questions_are_not_answered(tmp_path: Path, asked: SegmentQuestion) -> None:
    reader = sharded(Home(tmp_path, None), BY_KEY, [{"k": "a", "n": 1}])
    assert KeyLookups(reader).answer(asked) is None


def test_a_key_with_many_rows_is_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = sharded(Home(tmp_path, None), BY_KEY, [{"k": "a", "n": 1}] * 3, commits=3)
    assert KeyLookups(reader).answer(question({"k": "a"})) is not None
    monkeypatch.setattr(key_rows, "MOST_ROWS", 2)
    assert KeyLookups(reader).answer(question({"k": "a"})) is None


def test_keys_whose_hash_is_equal_by_chance_are_told_apart(tmp_path: Path) -> None:
    reader = sharded(Home(tmp_path, None), BY_KEY, [{"k": "a", "n": 1}])
    right, other = PlainKey(("string",), ("a",)), PlainKey(("string",), ("b",))
    other.__dict__["hash"] = right.hash
    with scanning(reader) as snapshot:
        rows = KeyRows(snapshot.segment_table(snapshot.views[NAME]))
        assert len(rows.find(right)) == 1
        assert rows.find(other) == []


# commits


def test_each_lookup_sees_the_newest_commit_while_files_are_merged_and_removed(home: Home) -> None:
    engine = StoreEngine(BY_KEY, home.directory, url=home.url, shards=lambda: 2)
    chance, pages = random.Random(1), KeyPages(home.reader(), 1 << 20)
    for number in range(1, 8):
        events = [Event("s", {"k": f"k{key}", "n": 1}, 0, number * 50 + key) for key in range(50)]
        engine.commit(Commit(instant(NOON), tuple(events)))
        for _ in range(2):
            answer = pages.answer(question({"k": "k7"}))
            assert answer is not None
            (_, rows, more), (_, [[commit]], _) = answer
            assert [row[:1] + row[3:5] for row in rows] == [["k7", number, number]]
            assert (commit, more) == (number, False)
            compact(engine.store, chance, remove=True)
    engine.store.close()
    pages.close()


def test_windows_that_have_expired_are_gone(tmp_path: Path) -> None:
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
    view = stream.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count())
    engine = StoreEngine(view, tmp_path, shards=lambda: 2)
    lookups = KeyLookups(Reader(tmp_path))
    for second in (0, 20, 40, 60):
        event = Event("s", {"k": "a", "at": instant(NOON) + second * 1_000_000}, 0, second)
        engine.commit(Commit(instant(NOON) + 60_000_000, (event,)))
    before = lookups.answer(question({"k": "a"}))
    engine.store.commit(Record(kind="tick", now=0, expire={NAME: instant(NOON) + 31_000_000}))
    after = lookups.answer(question({"k": "a"}))
    engine.store.close()
    assert before is not None
    assert after is not None
    assert (len(before.rows), len(after.rows)) == (4, 2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    reader = sharded(Home(tmp_path, None), BY_KEY, [{"k": "a", "n": 1}])
    path = next((tmp_path / "state").iterdir())
    path.unlink()
    with pytest.raises(StoreError, match=path.name):
        KeyPages(reader, 1 << 20).answer(question({"k": "a"}))


def test_lookups_go_on_after_everything_was_forgotten(tmp_path: Path) -> None:
    pages = KeyPages(sharded(Home(tmp_path, None), BY_KEY, [{"k": "a", "n": 1}]), 1 << 20)
    first = pages.answer(question({"k": "a"}))
    pages.forget()
    assert pages.answer(question({"k": "a"})) == first
    pages.close()
