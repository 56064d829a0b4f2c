"""Scans give the rows of views in real types, of one commit, through the store's indexes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.arrow import arrow_type
from penstock.model.commits import Commit, Event
from penstock.model.time import instant
from penstock.store import Reader
from penstock.store.scan import Snapshot, scanning
from tests.store.conftest import ONLY_SQLITE, Home
from tests.store.engine import StoreEngine

TYPES = {
    "t": "tinyint", "s": "smallint", "b": "bigint", "f": "float", "d": "double", "ok": "boolean", "name": "string",
    "raw": "binary", "day": "date", "ts": "timestamp", "price": "decimal(10,2)", "wide": "decimal(38,10)",
    "xs": "array<int>", "names": "array<string>", "prices": "array<decimal(10,2)>", "times": "array<timestamp>",
}  # fmt: skip
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "t": -128, "s": 5, "b": 2**63 - 1, "f": 0.5, "d": math.nan, "ok": True, "name": "größe \"x\"",
        "raw": b"\0\1", "day": date(2024, 5, 1), "ts": NOON + timedelta(microseconds=500_001),
        "price": Decimal("9.50"), "wide": Decimal("123456789012345678.0123456789"), "xs": [1, None],
        "names": ["x", '"\\'], "prices": [Decimal("1.50"), None], "times": [NOON, None],
    },
    {"id": 2},
    {
        "id": 3, "f": math.inf, "d": -math.inf, "ok": False, "name": "", "raw": b"", "day": date(1, 1, 1),
        "ts": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "price": Decimal("-99999999.99"),
        "wide": Decimal("-0.0000000001"), "xs": [], "names": [], "prices": [], "times": [],
    },
]  # fmt: skip


@dataclass(frozen=True)
class Condition:
    column: str
    op: str
    values: tuple[Any, ...] = ()


def physical(value: Any, kind: str) -> Any:
    """A value as the model has it."""
    if isinstance(value, list):
        return [physical(part, kind[6:-1]) for part in value]
    if isinstance(value, datetime):
        return instant(value)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def stored(home: Home, view: ps.View, rows: list[dict[str, Any]]) -> Reader:
    """A store that holds the view over these rows, written by a commit."""
    engine = StoreEngine(view, home.directory, url=home.url)
    schema = view.input.sources[0].schema
    assert schema is not None
    events = [Event("s", {n: physical(row.get(n), k) for n, k in schema}, 0, at) for at, row in enumerate(rows)]
    engine.commit(Commit(instant(NOON), tuple(events)))
    engine.store.close()
    return home.reader()


def all_types() -> ps.View:
    schema = "id int, " + ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    return ps.stream("s", schema=schema).group_by("id").agg(**{name: ps.last(name) for name in TYPES})


def utc(value: Any) -> Any:
    """A value of Arrow's, which has no zone, as the one that was written."""
    if isinstance(value, list):
        return [utc(part) for part in value]
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def test_each_type_comes_back_as_it_was_written(home: Home) -> None:
    with scanning(stored(home, all_types(), ROWS)) as snapshot:
        view = snapshot.views["v"]
        found = snapshot.scan(view, ["id", *TYPES], []).read_all()
    assert [field.type for field in found.schema][1:] == [arrow_type(kind) for kind in TYPES.values()]
    rows = sorted(({n: utc(v) for n, v in row.items()} for row in found.to_pylist()), key=lambda row: row["id"])
    for row, expected in zip(rows, ROWS, strict=True):
        for name in TYPES:
            if name == "d" and expected.get(name) is not None and math.isnan(expected[name]):
                assert math.isnan(row[name])
            else:
                assert row[name] == expected.get(name), name


def test_keys_of_times_and_decimals_are_exact_in_all_years(home: Home) -> None:
    keys = "ts timestamp, day date, price decimal(12,3)"
    view = ps.stream("s", schema=keys).group_by("ts", "day", "price").agg(n=ps.count(), last=ps.max("ts"))
    at = datetime(1, 1, 1, tzinfo=UTC)
    rows = [{"ts": at, "day": date(9999, 12, 31), "price": Decimal("-0.001")}]
    with scanning(stored(home, view, rows)) as snapshot:
        found = snapshot.scan(snapshot.views["v"], ["ts", "day", "price", "last"], []).read_all().to_pylist()
    assert [{name: utc(value) for name, value in row.items()} for row in found] == [{**rows[0], "last": at}]


def test_a_scan_without_columns_tells_how_many_rows_there_are(home: Home) -> None:
    with scanning(stored(home, all_types(), ROWS)) as snapshot:
        assert snapshot.scan(snapshot.views["v"], [], []).read_all().num_rows == 3


def test_two_scans_are_read_side_by_side(home: Home) -> None:
    with scanning(stored(home, all_types(), ROWS)) as snapshot:
        one, other = (snapshot.scan(snapshot.views["v"], ["id"], []) for _ in range(2))
        assert one.read_next_batch().num_rows + other.read_next_batch().num_rows == 6


def test_all_scans_see_the_commit_of_the_first(home: Home) -> None:
    reader = stored(home, all_types(), ROWS)
    with scanning(reader) as snapshot:
        assert snapshot.commit == 1
        engine = StoreEngine(all_types(), home.directory, url=home.url)
        engine.commit(Commit(instant(NOON), (Event("s", {"id": 9, **dict.fromkeys(TYPES)}, 0, 9),)))
        engine.store.close()
        assert snapshot.scan(snapshot.views["v"], ["id"], []).read_all().num_rows == 3
    with scanning(reader) as snapshot:
        assert snapshot.scan(snapshot.views["v"], ["id"], []).read_all().num_rows == 4


def test_the_first_batch_need_not_show_the_types(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for connection in ("sqlite.connection", "postgres.connection"):
        monkeypatch.setattr(f"penstock.store.{connection}.BATCH", 2)
    rows = [{"id": n} for n in range(4)] + [{**ROWS[0], "id": 9}]
    with scanning(stored(home, all_types(), rows)) as snapshot:
        found = snapshot.scan(snapshot.views["v"], ["name", "raw", "d", "wide"], []).read_all()
    assert found.num_rows == 5
    assert ROWS[0]["wide"] in found["wide"].to_pylist()


CONDITIONS = [
    (Condition("id", "=", (1,)), {1}),
    (Condition("id", "in", (1, 3)), {1, 3}),
    (Condition("id", ">=", (2,)), {2, 3}),
    (Condition("name", "=", ('größe "x"',)), {1}),
    (Condition("name", "is null"), {2}),
    (Condition("ok", "=", (True,)), {1}),
    (Condition("day", "=", (date(2024, 5, 1),)), {1}),
    (Condition("ts", "=", (ROWS[0]["ts"],)), {1}),
    (Condition("price", "=", (Decimal("9.5"),)), {1}),
    (Condition("price", "<", (Decimal("9.50"),)), {1, 3}),  # widened: the question checks it again
    (Condition("wide", "=", (ROWS[0]["wide"],)), {1}),
    (Condition("d", "=", (math.nan,)), {1}),
    (Condition("d", ">", (5.0,)), {1}),  # NaN is above all numbers
    (Condition("f", "<=", (0.5,)), {1}),
    (Condition("f", "=", (0.5,)), {1}),
    (Condition("raw", "=", (b"\0\1",)), {1}),
    (Condition("final", "=", (True,)), set()),
]


def test_conditions_leave_the_rows_that_match(home: Home) -> None:
    with scanning(stored(home, all_types(), ROWS)) as snapshot:
        for condition, expected in CONDITIONS:
            found = snapshot.scan(snapshot.views["v"], ["id"], [condition]).read_all()
            assert set(found["id"].to_pylist()) == expected, condition


def test_conditions_on_windows_leave_the_rows_that_match(home: Home) -> None:
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 hour"))
    rows = [{"k": "a", "at": NOON - timedelta(minutes=minutes)} for minutes in range(10)]
    with scanning(stored(home, stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count()), rows)) as snapshot:
        view = snapshot.views["v"]
        for condition, count in [
            (Condition("window_start", "=", (NOON,)), 1),
            (Condition("window_start", ">=", (NOON - timedelta(minutes=2),)), 3),
            (Condition("window_start", ">", (NOON - timedelta(minutes=2, microseconds=1),)), 3),
            (Condition("window_start", "<", (NOON,)), 9),
            (Condition("window_end", "<=", (NOON,)), 9),
            (Condition("window_end", "in", (NOON, NOON - timedelta(minutes=1))), 2),
        ]:
            assert snapshot.scan(view, [], [condition]).read_all().num_rows == count, condition


def plan_of(snapshot: Snapshot, conditions: list[Condition]) -> str:
    sql, parameters = snapshot.statement(snapshot.views["v"], [], conditions)
    frame = snapshot._connection.rows(f"EXPLAIN QUERY PLAN {sql.replace('SELECT  FROM', 'SELECT 1 FROM')}", parameters)
    return "\n".join(frame["detail"].to_list())


@ONLY_SQLITE
def test_a_key_and_a_window_are_found_by_an_index(home: Home) -> None:
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 hour"))
    windows = stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
    with scanning(stored(home, windows, [{"k": "a", "at": NOON}])) as snapshot:
        assert "USING PRIMARY KEY (__end" in plan_of(snapshot, [Condition("window_start", ">=", (NOON,))])
        assert "USING PRIMARY KEY (__end" in plan_of(snapshot, [Condition("window_end", "=", (NOON,))])


@ONLY_SQLITE
def test_a_key_of_all_time_is_found_by_the_primary_key(home: Home) -> None:
    with scanning(stored(home, all_types(), ROWS)) as snapshot:
        assert "__key=?" in plan_of(snapshot, [Condition("id", "=", (1,))])


@ONLY_SQLITE
def test_an_index_that_a_user_asked_for_is_used(home: Home) -> None:
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 hour"))
    view = stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
    reader = stored(home, view, [{"k": "a", "at": NOON}])
    engine = StoreEngine(view, home.directory, url=home.url)
    engine.store.index("v", "k")
    engine.store.close()
    with scanning(reader) as snapshot:
        assert "__by_v_k" in plan_of(snapshot, [Condition("k", "=", ("a",))])


def test_the_stores_own_tables_are_scanned_too(home: Home) -> None:
    with scanning(stored(home, all_types(), ROWS)) as snapshot:
        table = snapshot.own_tables["__commits"]
        assert snapshot.scan(table, ["number", "kind"], []).read_all().to_pylist() == [{"number": 1, "kind": "tick"}]
        assert "__view_v" not in snapshot.own_tables
        assert pa.types.is_int64(arrow_type(snapshot.own_tables["__refused"].schema.type_of("commit")))


def test_a_store_without_views_has_nothing_to_scan(home: Home) -> None:
    store = home.store()
    store.lock()
    store.close()
    with scanning(home.reader()) as snapshot:
        assert snapshot.views == {}
        assert snapshot.commit == 0


def test_a_null_key_is_found(home: Home) -> None:
    view = ps.stream("s", schema="k string, n int").group_by("k", "n").agg(c=ps.count())
    with scanning(stored(home, view, [{"k": None, "n": 1}, {"k": "", "n": 1}])) as snapshot:
        conditions = [Condition("k", "is null"), Condition("n", "=", (1,))]
        found = pl.DataFrame(pl.from_arrow(snapshot.scan(snapshot.views["v"], ["k", "n"], conditions).read_all()))
    assert found.rows() == [(None, 1)]
