"""Expressions on columns: types, the shape of what is compiled, and failures beside values."""

from __future__ import annotations

import polars as pl
import pytest

from penstock.errors import DefinitionError
from penstock.kernel.expressions import Compiled, compile, dtype
from penstock.model.expressions import bind
from penstock.model.types import Schema

SCHEMA = Schema.parse(
    "id string, price double, quantity int, total bigint, at timestamp, day date, amount decimal(10,2)"
)


def compiled(text: str) -> Compiled:
    return compile(bind(text, SCHEMA))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tinyint", pl.Int8()),
        ("smallint", pl.Int16()),
        ("int", pl.Int32()),
        ("bigint", pl.Int64()),
        ("float", pl.Float32()),
        ("double", pl.Float64()),
        ("string", pl.String()),
        ("binary", pl.Binary()),
        ("boolean", pl.Boolean()),
        ("date", pl.Date()),
        ("timestamp", pl.Datetime("us", "UTC")),
        ("decimal(10,2)", pl.Decimal(10, 2)),
        ("array<array<int>>", pl.List(pl.List(pl.Int32()))),
        ("struct<a:int,b:array<date>>", pl.Struct({"a": pl.Int32(), "b": pl.List(pl.Date())})),
        ("map<string,double>", pl.Map(pl.String(), pl.Float64())),
    ],
)
def test_every_type_has_its_polars_type(name: str, expected: pl.DataType) -> None:
    assert dtype(name) == expected


def test_a_type_that_only_spark_has_has_none() -> None:
    with pytest.raises(DefinitionError, match="no columns of type 'interval'"):
        dtype("struct<a:interval>")


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        ("price", pl.col("price")),
        ("price > 10.5", pl.col("price") > pl.lit(10.5, dtype=pl.Float64())),
        ("quantity > 1.5", pl.col("quantity") > pl.lit(1, dtype=pl.Int32())),
        ("1.5 <= quantity", pl.col("quantity") >= pl.lit(2, dtype=pl.Int32())),
        ("id = 'a'", pl.col("id") == pl.lit("a", dtype=pl.String())),
        ("price * 2", pl.col("price") * pl.lit(2.0, dtype=pl.Float64())),
        ("id is null", pl.col("id").is_null()),
        ("upper(id)", pl.col("id").str.to_uppercase()),
        ("id like 'a%'", pl.col("id").str.starts_with(pl.lit("a", dtype=pl.String()))),
        (
            "quantity > 1 and price < 2",
            (pl.col("quantity") > pl.lit(1, pl.Int32())) & (pl.col("price") < pl.lit(2.0, pl.Float64())),
        ),
    ],
)
def test_common_expressions_are_what_one_would_write_by_hand_and_never_fail(text: str, by_hand: pl.Expr) -> None:
    assert str(compiled(text).value) == str(by_hand)
    assert compiled(text).error is None


def test_an_addition_of_a_constant_is_checked_by_one_comparison() -> None:
    both = compiled("quantity + 1")
    assert str(both.value) == str(pl.col("quantity") + pl.lit(1, dtype=pl.Int32()))
    edge = pl.col("quantity") > pl.lit(2**31 - 2, dtype=pl.Int32())
    assert str(both.error) == str(
        pl.when(edge).then(pl.lit("overflow of int")).otherwise(pl.lit(None, dtype=pl.String()))
    )


def test_a_row_that_fails_has_a_reason_and_the_others_have_values() -> None:
    both = compiled("cast(id as int) div quantity")
    frame = pl.DataFrame({"id": ["6", "x", "6", None, "x"], "quantity": [2, 2, 0, 0, None]}).cast(
        {"quantity": pl.Int32}
    )
    assert both.error is not None
    assert frame.select(both.error).to_series().to_list() == [
        None,
        "cast of string to int fails",
        "division by zero",
        None,
        None,
    ]
    assert frame.select(both.value).to_series().to_list()[0] == 3


def test_what_is_outside_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is Spark's to evaluate"):
        compiled("soundex(id)")


def test_a_division_by_a_constant_rounds_as_a_division() -> None:
    prices = [at / 7 for at in range(1000)]
    frame = pl.DataFrame({"price": prices})
    assert frame.select(compiled("price / 49").value).to_series().to_list() == [price / 49 for price in prices]


def test_rows_without_failures_have_all_the_same_length_as_the_frame() -> None:
    frame = pl.DataFrame({"quantity": [1, 2, 3]}).cast({"quantity": pl.Int32})
    for text in ("7 - if(quantity > 0, 1, 2)", "nullif(5, nullif(5, quantity))", "coalesce(5, quantity)", "5"):
        both = compiled(text)
        assert (
            frame.with_columns(value=both.value, error=pl.lit(None) if both.error is None else both.error).height == 3
        )
