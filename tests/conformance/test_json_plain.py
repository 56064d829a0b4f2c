"""Lines that Arrow parses are read as by the closer look; what it may read otherwise is left to that."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.types import Schema
from penstock.sources.base import MALFORMED
from penstock.sources.formats import json_lines
from penstock.sources.formats.json_closely import closely
from penstock.sources.formats.json_plain import plain_rows, takes
from tests.conformance.test_json_lines import LINES, TYPES, VALUES

FURTHER = [
    '"2024-05-01T12:00:00+19:00"', '"2024-05-01T12:00:00+17:59"', '"2024-05-01T12:00:00+02:99"',
    '"2024-05-01T12:00:00."', '"2024-05-01T12:00:00.Z"', '"2024-05-01t12:00:00"', '"2024-05-01T12:00:60Z"',
    '"0000-01-01T00:00:00Z"',
    '"2024-05-01T12:00:00+0200"', '"2024-05-01T12:00:00+02"', '"2024-05-01T12:00:00z"',
    '"2024-05-01T12:00:00.123456789"', '"2024-13-01T12:00:00Z"', '"0000-01-01"', '"2023-02-29"', '"2024-02-29"',
    '"\\u0000"', '"\\ud800"',
    '"\\ud83d\\ude00"', '"a\tb"', '"\\/"', '"\\x"', "-0.0", "1e308", "1.7976931348623159e308", "4.9e-324", "2e-324",
    "1E+2", "0.30000000000000004", "9007199254740993", "-", ".5", "5.", '"2024-05-01T12:00:00-00:00"',
    '"-2024-05-01T12:00:00"', '"2024-05-01  2:00:00"', '"2024-05-01T12:00:00.000000-18:00"', '"12024-05-01T12:00:00Z"',
    '"+2024-05-01T12:00:00Z"', '"2024-05-01T12:00:00 Z"',
]  # fmt: skip
SCHEMA = Schema.parse("s string, n bigint, x double, b boolean, at timestamp, d date")


def assert_same_or_left(lines: list[str], schema: Schema) -> bool:
    """Whether the lines are plain; then they are read as by the closer look."""
    rows = plain_rows("\n".join(lines).encode("utf-8", "surrogatepass"), len(lines), schema)
    if rows is None:
        return False
    looked_at = closely(pl.Series(lines), schema, blank=True)
    assert looked_at[MALFORMED].null_count() == len(lines), lines
    assert rows.equals(looked_at.select(schema.names)), lines
    return True


@pytest.mark.parametrize("kind", [kind for kind in TYPES if takes(Schema.parse(f"v {kind}"))])
def test_each_value_is_read_the_same_or_left_to_the_closer_look(kind: str):
    schema = Schema.parse(f"n bigint, v {kind}")
    plain = [value for value in [*VALUES, *FURTHER] if assert_same_or_left([f'{{"n": 1, "v": {value}}}'], schema)]
    assert "null" in plain
    assert len(plain) > 1, "some values are plain"
    for line in LINES:
        assert_same_or_left([line], Schema.parse(f"v {kind}"))


@pytest.mark.parametrize(
    ("ends", "is_plain"),
    [
        (["Z", ".5Z", ".123456Z"], True),
        (["+02:00", ".5+02:00"], True),
        (["+02:00", "-02:00"], True),
        (["", ".5"], True),
        ([".25+17:59", "+17:59"], True),
        ([".5+19:00", "+19:00"], False),
        (["Z", "+02:00"], False),
        (["Z", ""], False),
        (["+02:0\u0660", ".5+02:0\u0660"], False),
    ],
)
def test_times_with_the_same_zone_are_judged_together(ends: list[str], is_plain: bool):
    lines = [f'{{"at": "2024-05-01T12:00:00{end}"}}' for end in ends]
    assert assert_same_or_left(lines, Schema.parse("at timestamp")) == is_plain


def test_objects_that_do_not_end_with_their_lines_are_left_to_the_closer_look():
    schema = Schema.parse("v bigint")
    assert not assert_same_or_left(['{"v":1}{"v":2}'], schema)
    assert not assert_same_or_left(['{"v":1}{"v":2}', '{"w":[{}', "{}]}"], schema)
    assert not assert_same_or_left(['{"v":1}', ""], schema)
    assert assert_same_or_left(['{"w":' + "[" * 100_000 + "]" * 100_000 + ',"v":1}'], schema), "however deep"


values: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 64), 1 << 64), st.integers(-9, 9), st.floats(), st.text(max_size=6),
    st.datetimes().map(str), st.datetimes().map(lambda at: at.isoformat() + "Z"), st.dates().map(str),
    st.just([1]), st.just({}),
)  # fmt: skip
own = {
    "s": st.text(), "n": st.integers(-(1 << 63), (1 << 63) - 1), "x": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(), "at": st.datetimes().map(lambda at: at.isoformat() + "Z"), "d": st.dates().map(str),
}  # fmt: skip
fitting = st.fixed_dictionaries({}, optional={**own, "other": values})
any_object = st.dictionaries(st.sampled_from([*own, "other"]), values) | fitting


@given(st.lists(fitting, min_size=1, max_size=6), st.booleans())
@settings(deadline=None)
def test_random_objects_that_fit_are_plain(objects: list[dict[str, Any]], ascii: bool):
    some = [{name: value for name, value in one.items() if name != "other"} for one in objects]
    assert assert_same_or_left([json.dumps(one, ensure_ascii=ascii) for one in some], SCHEMA)


@given(st.lists(any_object, min_size=1, max_size=6), st.booleans())
@settings(deadline=None)
def test_random_objects_are_read_the_same_or_left(objects: list[dict[str, Any]], ascii: bool):
    assert_same_or_left([json.dumps(one, ensure_ascii=ascii) for one in objects], SCHEMA)


def test_pieces_of_both_kinds_come_together_in_order():
    schema = Schema.parse("v bigint")
    lines = [f'{{"v": {number}}}' if number % 50_000 else "nonsense" for number in range(1, 300_000)]
    rows = json_lines.decoded(pl.Series(lines), schema, blank=True)
    assert rows["v"].to_list() == [number if number % 50_000 else None for number in range(1, 300_000)]
    assert rows[MALFORMED].count() == 5
