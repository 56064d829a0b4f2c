"""Keys as bytes: equal exactly where the keys are equal as Spark groups them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.keys import encoded
from tests.strategies import cases

KINDS: dict[pl.DataType, st.SearchStrategy[object]] = {
    pl.String(): st.sampled_from(["", "a", "ab", "b", "\0", "a\0", "1", "é"]),
    pl.Binary(): st.sampled_from([b"", b"\0", b"\0\0", b"a", b"\x01"]),
    pl.Int8(): st.integers(-2, 2),
    pl.Int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    pl.Boolean(): st.booleans(),
    pl.Float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, -math.inf, 5e-324]),
    pl.Float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    pl.Date(): st.sampled_from([datetime.date(1970, 1, 1), datetime.date(2024, 5, 1), datetime.date(1, 1, 1)]),
    pl.Datetime("us", "UTC"): st.sampled_from([datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)]),
    pl.Decimal(38, 2): st.sampled_from([Decimal("0.00"), Decimal("1.10"), Decimal("-99999999999999999999.99")]),
    pl.List(pl.Int64()): st.lists(st.integers(0, 1), max_size=2),
}


def canonical(value: object) -> object:
    """A value that Python compares as Spark groups."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(value) if isinstance(value, list) else value


@cases(150)
@given(st.data())
def test_bytes_are_equal_exactly_where_keys_are(data):
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(st.none() | KINDS[kind] for kind in kinds)), min_size=1, max_size=12))
    columns = [pl.Series(f"k{number}", [row[number] for row in rows], dtype=kind) for number, kind in enumerate(kinds)]
    keys = encoded(pl.DataFrame(columns)).to_list()
    same = [tuple(map(canonical, row)) for row in rows]
    for i in range(len(rows)):
        for j in range(i):
            assert (keys[i] == keys[j]) == (same[i] == same[j]), (rows[i], rows[j])


def test_neighbouring_texts_do_not_run_into_each_other():
    frame = pl.DataFrame({"a": ["x", "xy", "", None], "b": ["yz", "z", "xyz", "xyz"]})
    assert encoded(frame).n_unique() == 4


@pytest.mark.parametrize("columns", [["k"], ["f"], ["k", "f"]])
def test_a_key_does_not_depend_on_its_neighbours_or_on_chunks(columns):
    frame = pl.DataFrame({"k": ["a", None, "b"], "f": [math.nan, -0.0, None]}).select(columns)
    alone = [encoded(frame[i : i + 1]).item() for i in range(3)]
    chunked = pl.concat([frame[:1], frame[1:]], rechunk=False)
    assert encoded(frame).to_list() == encoded(chunked).to_list() == alone


def test_bytes_stay_the_same_between_versions():
    """Stored keys must be found again: if this fails, the format has changed, and its number must."""
    frame = pl.DataFrame({"k": ["é", None], "n": pl.Series([7, None], dtype=pl.Int32), "f": [0.5, math.nan]})
    first, second = (key.hex() for key in encoded(frame))
    assert first == "0102000000010700000001000000000000e03fc3a9"
    assert second == "0000000000000000000001000000000000f87f"
