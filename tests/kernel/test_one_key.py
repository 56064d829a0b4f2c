"""One key has the hash and the bytes that it has in a column of keys."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.expressions import dtype
from penstock.kernel.hashing import hashes
from penstock.kernel.keys import encoded
from penstock.kernel.one_key import plain_key
from tests.strategies import cases

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-(1 << 7), (1 << 7) - 1),
    "smallint": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "date": st.integers(-(1 << 20), 1 << 20),
    "timestamp": st.integers(-(1 << 62), 1 << 62),
    "boolean": st.booleans(),
    "float": st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan"), float("inf")]),
    "double": st.floats() | st.sampled_from([0.0, -0.0, float("nan"), float("inf")]),
    "string": st.text(max_size=20),
    "binary": st.binary(max_size=20),
}
PARTS = st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), st.none() | VALUES[kind]))


def column(name: str, kind: str, value: Any) -> pl.Series:
    whole = {"timestamp": pl.Int64(), "date": pl.Int32()}.get(kind)
    return pl.Series(name, [value], dtype=whole or dtype(kind)).cast(dtype(kind))


@cases(300)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_hash_and_bytes_are_those_of_a_column(parts: list[tuple[str, Any]]) -> None:
    key = plain_key([kind for kind, _ in parts], [value for _, value in parts])
    frame = pl.DataFrame([column(f"c{number}", *part) for number, part in enumerate(parts)])
    assert key is not None
    assert key.hash == int(hashes(frame)[0])
    assert key.encoded == encoded(frame).item()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1 << 31), ("tinyint", -129), ("bigint", 1.0), ("bigint", True), ("boolean", 1), ("double", 1),
        ("float", 1e300), ("string", b"a"), ("string", "\ud800"), ("string", "a" * 2000), ("binary", "a"),
        ("decimal(5,2)", "1.00"), ("array<int>", [1]), ("array<int>", None),
    ],
)  # fmt: skip
def test_what_is_no_value_of_a_scalar_type_has_no_plain_key(kind: str, value: Any) -> None:
    assert plain_key([kind], [value]) is None
