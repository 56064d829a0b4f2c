"""State goes into SQLite and comes back as it was; what people read is as documented."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from penstock.store.encode import loaded, sql_type, stored
from penstock.store.present import json_of, shown, shown_type
from penstock.store.sqlite.connection import SqliteConnection as Connection
from tests.strategies import cases

UTC = datetime.UTC
NESTED = pl.List(pl.Struct({"rank": pl.Float32(), "at": pl.Int64(), "value": pl.Decimal(38, 3), "day": pl.Date()}))
SAMPLES = [
    pl.Series("x", [1, None, -128], dtype=pl.Int8),
    pl.Series("x", [2**63 - 1, None, -(2**63)], dtype=pl.Int64),
    pl.Series("x", [True, None, False]),
    pl.Series("x", [0.1, math.nan, -0.0, math.inf, None, 5e-324]),
    pl.Series("x", [0.1, math.nan, -0.0, None], dtype=pl.Float32),
    pl.Series("x", ["", "a\0b", "é'\"", None, "007"]),
    pl.Series("x", [b"", b"\0\xff", None]),
    pl.Series("x", [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    pl.Series("x", [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), None], dtype=pl.Datetime("us", "UTC")),
    pl.Series("x", [Decimal("1.10"), None, Decimal("-9999999999999999999999999999999999.99")], dtype=pl.Decimal(38, 2)),
    pl.Series("x", [Decimal("1.10"), None], dtype=pl.Decimal(5, 2)),
    pl.Series("x", [["a", None, ""], [], None], dtype=pl.List(pl.String())),
    pl.Series("x", [[1.5, math.nan, None]], dtype=pl.List(pl.Float64())),
    pl.Series(
        "x",
        [[{"rank": 0.1, "at": 2**62, "value": Decimal("1.100"), "day": datetime.date(2024, 5, 1)}], [], None],
        dtype=NESTED,
    ),
]


@pytest.fixture
def connection(tmp_path: Path):
    made = Connection(tmp_path / "t.db", writes=True)
    yield made
    made.close()


@pytest.mark.parametrize("series", SAMPLES, ids=lambda s: str(s.dtype)[:30])
@pytest.mark.parametrize("shape", ["as it is", "only nulls", "nulls first", "none"])
def test_what_is_stored_comes_back_the_same(connection: Connection, series: pl.Series, shape: str):
    nulls = pl.Series("x", [None], dtype=series.dtype).new_from_index(0, 3000)
    given = {"as it is": series, "only nulls": nulls, "nulls first": pl.concat([nulls, series]), "none": series.clear()}
    series = given[shape]
    connection.run(f"CREATE TABLE t (n INTEGER PRIMARY KEY, x {sql_type(series.dtype)})")
    rows = pl.DataFrame([pl.int_range(len(series), eager=True).alias("n"), stored(series).alias("x")])
    connection.put("t", rows, columns=rows.columns)
    connection.commit()
    assert_series_equal(loaded(connection.rows("SELECT x FROM t ORDER BY n")["x"], series.dtype), series)


SCALARS: dict[pl.DataType, st.SearchStrategy[object]] = {
    pl.Int32(): st.integers(-(2**31), 2**31 - 1),
    pl.Float64(): st.sampled_from([0.0, -0.0, math.nan, math.inf, 1.5]),
    pl.Boolean(): st.booleans(),
    pl.String(): st.sampled_from(["", "a", "\0", "é", "abc" * 30]),
    pl.Binary(): st.binary(max_size=4),
    pl.Date(): st.dates(),
    pl.Decimal(38, 2): st.integers(-(10**36), 10**36).map(lambda n: Decimal(n).scaleb(-2)),
}


@cases(150)
@given(st.data())
def test_any_lists_and_structs_come_back_the_same(data):
    names = st.sampled_from(list(SCALARS))
    kinds = {f"f{number}": kind for number, kind in enumerate(data.draw(st.lists(names, min_size=1, max_size=4)))}
    element: pl.DataType = pl.Struct(kinds)
    values: st.SearchStrategy[object] = st.fixed_dictionaries({n: st.none() | SCALARS[k] for n, k in kinds.items()})
    if data.draw(st.booleans()):
        element, values = kinds["f0"], SCALARS[kinds["f0"]]
    shape = data.draw(st.sampled_from(["list", "list of lists", "struct"]))
    kind = {"list": pl.List(element), "list of lists": pl.List(pl.List(element)), "struct": pl.Struct({"x": element})}
    lists = st.lists(st.none() | values, max_size=4)
    drawn = {"list": lists, "list of lists": st.lists(lists, max_size=2), "struct": st.builds(dict, x=values)}
    series = pl.Series("x", data.draw(st.lists(st.none() | drawn[shape], max_size=5)), dtype=kind[shape])
    cut = data.draw(st.integers(0, len(series)))
    chunked = pl.concat([series[:cut], series[cut:]], rechunk=False)
    back = loaded(stored(chunked), kind[shape])
    assert_series_equal(back, series)
    assert str(back.to_list()) == str(series.to_list())  # the sign of zero, too


@pytest.mark.parametrize(
    ("series", "kind", "expected"),
    [
        (pl.Series([datetime.datetime(2024, 5, 1, 12, tzinfo=UTC)]), "TEXT", "2024-05-01 12:00:00"),
        (pl.Series([datetime.datetime(2024, 5, 1, 12, 0, 0, 50, UTC)]), "TEXT", "2024-05-01 12:00:00.000050"),
        (pl.Series([datetime.date(2024, 5, 1)]), "TEXT", "2024-05-01"),
        (pl.Series([Decimal("1.50")], dtype=pl.Decimal(15, 2)), "REAL", 1.5),
        (pl.Series([Decimal("1.50")], dtype=pl.Decimal(16, 2)), "TEXT", "1.50"),
        (pl.Series([[1, None]]), "TEXT", "[1,null]"),
        (pl.Series([["a", 'b"']]), "TEXT", '["a","b\\""]'),
        (pl.Series([[math.nan, math.inf, 0.5]]), "TEXT", '["NaN","Infinity",0.5]'),
        (pl.Series([[]], dtype=pl.List(pl.String())), "TEXT", "[]"),
        (pl.Series([None], dtype=pl.List(pl.String())), "TEXT", None),
        (pl.Series([[{"a": 1, "b": [True]}]]), "TEXT", '[{"a":1,"b":[true]}]'),
        (pl.Series([b"\xff"]), "BLOB", b"\xff"),
        (pl.Series([0.1], dtype=pl.Float32), "FLOAT64", 0.10000000149011612),
    ],
    ids=str,
)
def test_values_are_shown_as_documented(series: pl.Series, kind: str, expected: object):
    assert shown_type(series.dtype) == kind
    assert shown(series.alias("x")).to_list() == [expected]


def test_rows_as_json_are_valid_json():
    frame = pl.DataFrame(
        {
            'a"b': ['\n\t\\"\u2028', None],
            "f": [1e300, -0.0],
            "i": [2**63 - 1, None],
            "t": [datetime.datetime(2024, 5, 1, tzinfo=UTC), None],
            "b": [b"\xff", b""],
            "yes": [True, None],
            "d": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(38, 2)),
        }
    )
    first, second = map(json.loads, json_of(frame))
    assert first == {
        'a"b': "\n\t\\\"\u2028", "f": 1e300, "i": 2**63 - 1, "t": "2024-05-01 00:00:00", "b": "/w==", "yes": True,
        "d": 1.5,
    }  # fmt: skip
    assert list(second.values()) == [None, -0.0, None, None, "", None, None]
