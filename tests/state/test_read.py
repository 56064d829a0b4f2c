"""Views in segments are read like views in tables: the same rows, in the same types, for each question."""

from __future__ import annotations

import random
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.model.commits import Commit, Event
from penstock.model.time import instant
from penstock.query.ask import Questions
from penstock.state.compact import Merge
from penstock.state.layout import layouts
from penstock.state.segment import ALL, SegmentFile
from penstock.store import Commit as Record
from penstock.store import Reader, SqlStore, StoreError
from penstock.store.scan import Snapshot, scanning
from penstock.store.segment_lookup import SegmentQuestion, look_up
from penstock.store.segment_scan import from_newest
from penstock.testing import replay
from tests.kernel.test_against_reference import cut_with
from tests.store.conftest import Home
from tests.store.engine import NAME, StoreEngine
from tests.store.test_scan import ROWS, TYPES, all_types, physical
from tests.strategies import cases, scripts, seconds, views

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Condition:
    column: str
    op: str
    values: tuple[Any, ...] = ()


def table_of(snapshot: Snapshot, conditions: list[Condition]) -> pa.Table:
    view = snapshot.views[NAME]
    return snapshot.scan(view, view.schema.names, conditions).read_all()


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def where(table: pa.Table, conditions: list[Condition]) -> pa.Table:
    """The rows for which all conditions hold: scans may give more."""
    rows = table.to_pylist()
    keep = [all(_holds(row[one.column], one) for one in conditions) for row in rows]
    return table.filter(pa.array(keep, pa.bool_()))


def _holds(value: Any, condition: Condition) -> bool:
    if condition.op == "is null":
        return value is None
    if value is None:
        return False
    wanted = [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in condition.values]
    if condition.op in ("=", "in"):
        return value in wanted
    return {"<": value < wanted[0], "<=": value <= wanted[0], ">": value > wanted[0], ">=": value >= wanted[0]}[
        condition.op
    ]


def conditions_of(chance: random.Random, table: pa.Table, keys: tuple[str, ...]) -> list[Condition]:
    """Conditions that some row may fulfil."""
    conditions: list[Condition] = []
    row = chance.choice(table.to_pylist())
    for name in keys if chance.random() < 0.6 else chance.sample(keys, chance.randint(0, len(keys))):
        if row[name] is None:
            conditions.append(Condition(name, "is null"))
        elif not isinstance(row[name], float | list | dict):
            others = [other for other in (chance.choice(table.to_pylist())[name],) if other is not None]
            many = chance.random() < 0.3
            conditions.append(Condition(name, "in" if many else "=", _zoned(row[name], *(others if many else ()))))
    for name in ("window_start", "window_end"):
        if row[name] is not None and chance.random() < 0.4:
            operator = chance.choice(["=", "<", "<=", ">", ">="])
            conditions.append(Condition(name, operator, _zoned(row[name])))
    if chance.random() < 0.2:
        conditions.append(Condition("final", "=", (row["final"],)))
    return conditions


def _zoned(*values: Any) -> tuple[Any, ...]:
    return tuple(value.replace(tzinfo=UTC) if isinstance(value, datetime) else value for value in values)


def pages(snapshot: Snapshot, size: int, newest: bool, asked: SegmentQuestion | None = None) -> list[list[Any]]:
    """All rows, page by page."""
    rows: list[list[Any]] = []
    after = None
    while True:
        page = look_up(snapshot, replace(asked or SegmentQuestion(NAME), newest=newest, most=size, after=after))
        rows += page
        if len(page) < size:
            return rows
        after = tuple(page[-1][-3:])


def compact(store: SqlStore, chance: random.Random, *, remove: bool) -> None:
    """Merges some of the newest runs of each kind into one; with `remove`, the files of others go at once."""
    view = store.sharded(NAME)
    assert view is not None
    for kind, layout in layouts(view.plan).items():
        part = [segment for segment in view.segments if segment.kind == kind]
        if not part:
            continue
        runs = sorted({segment.run for segment in part})
        chosen = runs[: chance.randint(1, len(runs))]
        merged = [segment for segment in part if segment.run in chosen]
        file = SegmentFile(view.root, f"{chance.getrandbits(64)}.arrow")
        Merge(view.root, layout, tuple(merged), is_oldest=True).write(file, [ALL])
        assert store.replace_segments(NAME, merged, file.close(), 0)
    if remove:
        listed = {segment.path for segment in store.sharded(NAME).segments}  # type: ignore[union-attr]
        for path in Path(view.root).glob("*"):
            if path.name not in listed:
                path.unlink()


def compare(view: ps.View, data: st.DataObject) -> None:
    script = data.draw(scripts(view))
    seed = data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        in_table, in_segments = Path(directory) / "table", Path(directory) / "segments"
        replay(view, script, StoreEngine(view, in_table, cut_with(seed)))
        replay(view, script, StoreEngine(view, in_segments, cut_with(seed), None, lambda: chance.choice([1, 2, 5])))
        same_answers(in_table, in_segments, chance)
        engine = StoreEngine(view, in_segments, shards=lambda: 1)
        compact(engine.store, chance, remove=True)
        engine.store.close()
        same_answers(in_table, in_segments, chance)


def same_answers(in_table: Path, in_segments: Path, chance: random.Random) -> None:
    with ExitStack() as stack:
        one, other = (stack.enter_context(scanning(Reader(path))) for path in (in_table, in_segments))
        assert other.views[NAME].in_segments
        expected, got = table_of(one, []), table_of(other, [])
        assert got.schema == expected.schema
        assert rows_of(got) == rows_of(expected)
        for _ in range(5 if expected.num_rows else 0):
            conditions = conditions_of(chance, expected, one.views[NAME].keys)
            note(repr(conditions))
            assert rows_of(where(table_of(other, conditions), conditions)) == rows_of(where(expected, conditions))
        newest, oldest = pages(other, chance.randint(1, 4), True), pages(other, chance.randint(1, 4), False)
        assert repr(newest) == repr(oldest[::-1])
        assert len(newest) == expected.num_rows
        places = [tuple(row[-3:]) for row in oldest]
        assert places == sorted(set(places))
        if oldest:
            same_pages(other, oldest, chance)


def same_pages(snapshot: Snapshot, rows: list[list[Any]], chance: random.Random) -> None:
    """Pages by key and window have the rows that they should have, of all rows in their order."""
    keys = snapshot.views[NAME].keys
    chosen, size = chance.choice(rows), chance.randint(1, 4)
    texts = [name for at, name in enumerate(keys) if isinstance(chosen[at], str | int) and name in ("k", "v")]
    null = [name for at, name in enumerate(keys) if chosen[at] is None]
    asked = SegmentQuestion(NAME, {name: [chosen[keys.index(name)]] for name in texts}, null)
    wanted = [row for row in rows if all(row[keys.index(name)] == chosen[keys.index(name)] for name in [*texts, *null])]
    assert repr(pages(snapshot, size, False, asked)) == repr(wanted)
    start = chosen[-2]
    asked = SegmentQuestion(NAME, bounds=[("__start", ">=", start), ("__end", ">=", start)], final=bool(chosen[-4]))
    wanted = [row for row in rows if row[-2] >= start and bool(row[-4]) == bool(chosen[-4])]
    assert repr(pages(snapshot, size, True, asked)) == repr(wanted[::-1])


@cases(40, deep=40)
@given(views(), st.data())
def test_any_view_has_the_same_rows_in_tables_and_in_segments(view, data):
    compare(view, data)


@cases(15, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_have_the_same_rows_in_tables_and_in_segments(view, data):
    compare(view, data)


# types


def sharded(home: Home, view: ps.View, rows: list[dict[str, Any]], commits: int = 1) -> Reader:
    """A store that holds the view over these rows in segments."""
    engine = StoreEngine(view, home.directory, url=home.url, shards=lambda: 3)
    schema = view.input.sources[0].schema
    assert schema is not None
    events = [Event("s", {n: physical(row.get(n), k) for n, k in schema}, 0, at) for at, row in enumerate(rows)]
    size = -(-len(events) // commits)
    for begin in range(0, len(events), size):
        engine.commit(Commit(instant(NOON), tuple(events[begin : begin + size])))
    engine.store.close()
    return home.reader()


def test_each_type_comes_back_as_from_a_table(home: Home, tmp_path: Path) -> None:
    table = Home(tmp_path / "table", None)
    engine = StoreEngine(all_types(), table.directory)
    kinds = {"id": "int", **TYPES}
    events = [Event("s", {n: physical(row.get(n), k) for n, k in kinds.items()}, 0, at) for at, row in enumerate(ROWS)]
    engine.commit(Commit(instant(NOON), tuple(events)))
    engine.store.close()
    with scanning(table.reader()) as one, scanning(sharded(home, all_types(), ROWS)) as other:
        expected, got = table_of(one, []), table_of(other, [])
    assert got.schema == expected.schema
    assert rows_of(got) == rows_of(expected)


KEYS = {
    "f": [0.0, float("nan"), float("inf"), None], "b": [True, False, None], "raw": [b"\0", b"", None],
    "day": [(NOON + timedelta(days=n)).date() for n in range(3)], "ts": [NOON, NOON + timedelta(microseconds=1), None],
    "name": ["", "größe", None], "n": [-(1 << 63), 0, None],
}  # fmt: skip
KINDS = {
    "f": "double",
    "b": "boolean",
    "raw": "binary",
    "day": "date",
    "ts": "timestamp",
    "name": "string",
    "n": "bigint",
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_each_type_is_found(tmp_path: Path, name: str) -> None:
    view = ps.stream("s", schema=f"{name} {KINDS[name]}").group_by(name).agg(rows=ps.count())
    rows = [{name: value} for value in KEYS[name]] * 2 + ([{"f": -0.0}] if name == "f" else [])
    with scanning(sharded(Home(tmp_path, None), view, rows, commits=3)) as snapshot:
        for value in KEYS[name]:
            asked = (
                SegmentQuestion(NAME, null=[name])
                if value is None
                else SegmentQuestion(NAME, {name: [physical(value, KINDS[name])]})
            )
            count = 3 if value == 0.0 and name == "f" else 2
            assert [row[3] for row in look_up(snapshot, asked)] == [count], value


def test_a_key_that_is_a_list_has_one_row(tmp_path: Path) -> None:
    view = ps.stream("s", schema="xs array<int>").group_by("xs").agg(rows=ps.count())
    rows = [{"xs": value} for value in ([1, None], [], None, [1, 2])] * 3
    with scanning(sharded(Home(tmp_path, None), view, rows, commits=3)) as snapshot:
        found = {repr(row["xs"]): row["rows"] for row in table_of(snapshot, []).to_pylist()}
        assert len(pages(snapshot, 3, True)) == 4
    assert found == {"[1, None]": 3, "[]": 3, "None": 3, "[1, 2]": 3}


@pytest.mark.parametrize("window", [ps.fixed("10 seconds"), ps.session("5 seconds")])
def test_windows_that_have_expired_are_gone(tmp_path: Path, window: Any) -> None:
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
    view = stream.group_by("k").window(window).agg(n=ps.count())
    answers = []
    for shards in (None, lambda: 2):
        engine = StoreEngine(view, tmp_path / str(shards is None), shards=shards)
        for second in (0, 20, 40, 60):
            event = Event("s", {"k": "a", "at": instant(NOON) + second * 1_000_000}, 0, second)
            engine.commit(Commit(instant(NOON) + 60_000_000, (event,)))
        engine.store.commit(Record(kind="tick", now=0, expire={NAME: instant(NOON) + 31_000_000}))
        engine.store.close()
        with scanning(Reader(engine.directory)) as snapshot:
            answers.append(rows_of(table_of(snapshot, [])))
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2


@pytest.mark.parametrize("window", [ps.fixed("10 seconds"), ps.session("5 seconds")])
def test_an_expired_window_does_not_come_back_from_an_older_segment(tmp_path: Path, window: Any) -> None:
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
    view = stream.group_by("k").window(window).agg(n=ps.count()).allow_late("60 seconds")
    answers = []
    for shards in (None, lambda: 8):
        engine = StoreEngine(view, tmp_path / str(shards is None), shards=shards)
        for number, rows in enumerate(([("a", 0), ("a", 50)], [("b", 100), ("d", 101)], [("c", 300)])):
            events = [Event("s", {"k": k, "at": instant(NOON) + at * 1_000_000}, 0, at) for k, at in rows]
            engine.commit(Commit(instant(NOON) + (300 + number) * 1_000_000, tuple(events)))
        engine.store.commit(Record(kind="tick", now=0, expire={NAME: instant(NOON) + 40_000_000}))
        engine.store.commit(Record(kind="tick", now=0, expire={NAME: instant(NOON) + 90_000_000}))
        engine.store.close()
        with scanning(Reader(engine.directory)) as snapshot:
            answers.append(rows_of(table_of(snapshot, [])))
    assert answers[0] == answers[1]
    assert len(answers[0]) == 3


# other processes


BY_KEY = ps.stream("s", schema="k string, n bigint").group_by("k").agg(rows=ps.count(), total=ps.sum("n"))


def test_readers_see_whole_commits_while_files_are_merged_and_removed(tmp_path: Path) -> None:
    engine = StoreEngine(BY_KEY, tmp_path, shards=lambda: 2)
    keys = [f"k{number}" for number in range(50)]
    stop, problems, answers = threading.Event(), [], [0]

    def read() -> None:
        reader = Reader(tmp_path)
        questions = Questions(reader)
        try:
            while not stop.is_set():
                answer = questions.ask("SELECT count(*) AS n, min(rows) AS low, max(rows) AS high FROM v")
                row = answer.table.to_pylist()[0]
                if row["n"] and (row["n"] != 50 or row["low"] != row["high"] or row["low"] != answer.commit):
                    problems.append(f"{row} at {answer.commit}")
                page = from_newest(lambda: _one(reader))
                if page and (len(page) != 1 or page[0][0] != "k7"):
                    problems.append(repr(page))
                answers[0] += 1
        except Exception as error:
            problems.append(repr(error))
        finally:
            reader.close()

    threads = [threading.Thread(target=read) for _ in range(2)]
    chance = random.Random(1)
    for thread in threads:
        thread.start()
    number = 0
    while (number < 30 or answers[0] < 10) and not problems:
        events = [Event("s", {"k": key, "n": 1}, 0, number * 50 + at) for at, key in enumerate(keys)]
        engine.commit(Commit(instant(NOON), tuple(events)))
        compact(engine.store, chance, remove=True)
        number += 1
    stop.set()
    for thread in threads:
        thread.join()
    engine.store.close()
    assert not problems


def _one(reader: Reader) -> list[list[Any]]:
    with scanning(reader) as snapshot:
        return look_up(snapshot, SegmentQuestion(NAME, {"k": ["k7"]}))


def test_a_plain_question_to_the_database_says_what_to_do(home: Home) -> None:
    reader = sharded(home, BY_KEY, [{"k": "a", "n": 1}])
    with pytest.raises(StoreError, match="kept in segments") as raised:
        reader.query("SELECT * FROM v")
    assert "penstock query" in str(raised.value.hint)


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    reader = sharded(Home(tmp_path, None), BY_KEY, [{"k": "a", "n": 1}])
    path = next((tmp_path / "state").iterdir())
    path.write_bytes(path.read_bytes()[:100]) if damage == "cut off" else path.unlink()
    for read in (reader.check, lambda: Questions(reader).ask("SELECT * FROM v")):
        with pytest.raises(StoreError, match=path.name):
            read()
