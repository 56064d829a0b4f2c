"""Values that do not fit their column are refused with the column's name and type, in Python and in SQL."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.scripts import Script
from penstock.testing import TestStream, run

REFUSED = [
    ("tinyint", 300, "300"),
    ("smallint", -32769, "-32769"),
    ("int", 2**40, "1099511627776"),
    ("bigint", 2**63, "9223372036854775808"),
    ("int", True, "true"),
    ("int", 1.0, "1e0"),
    ("int", "7", "'7'"),
    ("int", Decimal("1.5"), "1.5"),
    ("float", 1e300, "1e300"),
    ("double", True, "true"),
    ("double", "1", "'1'"),
    ("boolean", 1, "1"),
    ("string", 1, "1"),
    ("binary", "a", "'a'"),
    ("decimal(4,2)", Decimal("100.00"), "100.00"),
    ("decimal(4,2)", Decimal("1.555"), "1.555"),
    ("decimal(4,2)", Decimal("NaN"), None),
    ("decimal(4,2)", 0.5, "5e-1"),
    ("decimal(38,0)", Decimal(10) ** 38, None),
    ("timestamp", 1.5, "1.5"),
    ("timestamp", True, "true"),
    ("timestamp", "noon", "'noon'"),
    ("timestamp", 2**63, None),
    ("date", "today", "'today'"),
    ("date", 2.5, "2.5"),
    ("date", datetime(2024, 5, 1), None),
    ("array<tinyint>", [1, 300], "array(1, 300)"),
    ("array<int>", 5, "5"),
    ("map<string,tinyint>", {"a": 300}, "map('a', 300)"),
    ("map<string,int>", {None: 1}, None),
    ("map<string,int>", [1], "array(1)"),
    ("struct<a:tinyint>", {"a": 300}, "named_struct('a', 300)"),
    ("struct<a:int>", {"b": 3}, "named_struct('b', 3)"),
]


@pytest.mark.parametrize(("kind", "value", "constant"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_with_its_column(kind, value, constant):
    stream = ps.stream("s", schema=f"k string, x {kind}")
    with pytest.raises(DefinitionError) as refused:
        TestStream(stream).add({"k": "a", "x": value})
    assert refused.value.message.startswith(f"the column 'x' is {kind}: ")
    if constant is not None:
        script = Script.of(f"CREATE STREAM s (k STRING, x {kind}); INSERT INTO s VALUES ('a', {constant})")
        (error,) = script.run().tests.values()
        assert f"the column 'x' is {kind}: " in str(error), error


KEPT = [
    ("tinyint", -128, -128),
    ("float", 0.1, 0.10000000149011612),
    ("double", 2, 2.0),
    ("decimal(4,2)", 7, Decimal("7.00")),
    ("decimal(4,2)", Decimal("-99.9"), Decimal("-99.90")),
    ("decimal(38,4)", Decimal("12345678901234567890123456789012.5"), Decimal("12345678901234567890123456789012.5000")),
    ("date", date(1970, 1, 3), 2),
    ("timestamp", "12:00:00.5", 946_728_000_500_000),
    ("array<decimal(3,1)>", (1, None), [Decimal("1.0"), None]),
    ("map<string,array<int>>", {"a": [1]}, {"a": [1]}),
    ("struct<a:int,b:map<string,int>>", (1, {"x": 2}), {"a": 1, "b": {"x": 2}}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "kept"), KEPT)
def test_a_value_that_fits_is_kept_in_the_form_of_its_type(kind, value, kept):
    ((_, row),) = TestStream(ps.stream("s", schema=f"x {kind}")).add((value,)).steps[-1].rows
    assert row["x"] == kept
    assert str(row["x"]) == str(kept)


def test_reference_and_kernel_agree_on_floats_of_32_bits_and_on_long_decimals():
    stream = ps.stream("s", schema="f float, d decimal(38,4)")
    view = stream.group_by().agg(f=ps.max("f"), d=ps.max("d"), more=ps.sum("f"))
    script = TestStream(stream).add((0.1, Decimal("1234567890123456789012345678901234.5678")), (-0.0, None))
    assert run(view, script, "reference").table == run(view, script, "kernel").table


def test_a_stream_with_maps_and_structs_can_be_tested_without_spark():
    stream = ps.stream("s", schema="k string, m map<string,int>, p struct<x:int>")
    view = stream.group_by("k").agg(n=ps.count())
    script = TestStream(stream).add(("a", {"q": 1}, {"x": 1}), ("a", None, None))
    for engine in ("reference", "kernel"):
        assert [row["n"] for row in run(view, script, engine).table] == [2]


def test_decimals_of_more_than_28_digits_are_inserted_as_they_are():
    report = Script.of(
        """CREATE STREAM s (k STRING, v DECIMAL(38, 4));
        CREATE CONTINUOUS VIEW high AS SELECT k, max(v) AS v FROM s GROUP BY k;
        INSERT INTO s VALUES ('a', -123456789012345678901234567890.1234), ('b', 123456789012345678901234567890);
        ASSERT high (k, v) EQUALS ('a', -123456789012345678901234567890.1234), ('b', 123456789012345678901234567890)"""
    ).run()
    assert report.passed, report.tests


def test_times_in_years_that_python_does_not_know_are_shown_as_numbers():
    stream = ps.stream("s", schema="at timestamp")
    result = run(stream.group_by().agg(at=ps.max("at + INTERVAL 3000000 DAYS")), TestStream(stream).add(("12:00",)))
    assert isinstance(result.table[0]["at"], int)
