"""Lines of JSON mean what they mean to Spark's own reader."""

from __future__ import annotations

import json
import math

import polars as pl
import pyarrow as pa
import pytest

from penstock.model.types import Schema
from penstock.sources.base import MALFORMED
from penstock.sources.formats.json_lines import decoded, reads

TYPES = (
    "string", "bigint", "int", "smallint", "tinyint", "double", "float", "boolean", "timestamp", "date",
    "decimal(10,2)", "decimal(38,6)", "array<int>", "array<string>", "array<array<timestamp>>", "binary",
)  # fmt: skip
pytestmark = pytest.mark.xdist_group("spark")

VALUES = [
    "null", "true", "false", "0", "-0", "1", "-1", "127", "128", "-128", "-129", "32767", "32768", "2147483647",
    "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "18446744073709551615", "123456789012345678901234567890", "1.5", "-1.5", "1.0", "1e3", "1E3", "1e400", "1e-400",
    "0.1", "NaN", "Infinity", "-Infinity", '""', '"a"', '"1"', '"1.5"', '"true"', '"null"', '"NaN"', '"Infinity"',
    '"-Infinity"', '"INF"', '"-INF"', '"+INF"', '"nan"', '"\\u00e9\\n"', '"a\\"b"', '" a "', "[]", "[1, 2]", "{}",
    '{"x": 1}', '{"x":{"y":[null]}}', '"2024-05-01"', '"2024-5-1"', '"2024-05-01T12:00:00Z"', '"2024-05-01 12:00:00"',
    '"2024-05-01T12:00:00"', '"2024-05-01T12:00:00.5Z"', '"2024-05-01T12:00:00.123456Z"',
    '"2024-05-01T12:00:00.1234567Z"', '"2024-05-01T12:00:00.123456789+02:00"', '"2024-05-01T12:00:00+02:00"',
    '"2024-05-01T12:00:00-11:30"', '"2024-05-01T12:00"', '"2024-05-01T12"', '"2024-05"', '"2024"', '"12:00:00"',
    '"2024-02-30"', '"2024-02-30T00:00:00Z"', '"2024-05-01T24:00:00Z"', '"2024-05-01T12:60:00Z"',
    '"9999-12-31T23:59:59Z"',
    '"0001-01-01T00:00:00Z"', '"1969-12-31T23:59:59.999999Z"', '"now"', '"epoch"', '"2024-05-01 12:00:00 "',
    '"x024-05-01"',
]  # fmt: skip
LINES = [
    "{}", "[]", "null", "5", '"text"', "", "   ", "{", '{"v":1', '{"v":1}}', '{"v":1} x', "{'v':1}", '{v:1}', '{"v"}',
    '{"v":}', '{"v":1,}', ' {"v" : 1 } ', '{"V":1}', '{"w":1}', '{"v":1,"w":[1,{"v":2}]}', '{"v":01}', '{"v":+1}',
    "nonsense",
    '{"v":1,"v":2}', '{"v":1, "v" : null}',
    '{"v":null,"v":2}', '{"v":1,"\\u0076":2}', '{"v":[],"v":2}', '{"\\u0076":1}',
    '{"w":{"v":1},"v":2}', '{"v":2,"w":{"v":1}}', '{"v":1, }', '{"w":[1,],"v":1}', '{"v":1,"w":",}"}', '{,"v":1}',
]  # fmt: skip
#: Where we are stricter or simpler than Spark: a line is one object as the standard has it.
OTHERWISE = {
    "[]": "an array is not an event",
    '{"v":1}}': "there is more than an object",
    '{"v":1} x': "there is more than an object",
    "{'v':1}": "names stand in double quotes",
}
#: Spark takes 128 to 255 for a tinyint and wraps, as it does with seconds that do not fit; it takes the text of a
#: number for days since 1970, and a time of day for today's.
NOT_TAKEN = {
    "tinyint": {"128"},
    "date": {'"1"'},
    "timestamp": {"9223372036854775807", "-9223372036854775808", '"12:00:00"', '"2024-05-01T12"'},
}


def plain(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def in_numbers(table: pa.Table) -> list[dict[str, object]]:
    """Rows with times as numbers: Python's own years end too early."""
    whole = {pa.timestamp("us", "UTC"): pa.int64(), pa.date32(): pa.int32()}
    columns = [column.cast(whole.get(column.type, column.type)) for column in table.columns]
    return pa.table(columns, names=table.column_names).to_pylist()


@pytest.mark.parametrize("kind", TYPES)
def test_every_value_of_every_type_is_read_as_spark_reads_it(spark, tmp_path, kind):
    schema = Schema.parse(f"n bigint, v {kind}")
    lines = [
        json.dumps({"n": n})[:-1] + f', "v": {value}}}'
        for n, value in enumerate(VALUES)
        if value not in NOT_TAKEN.get(kind, ())
    ]
    assert_same(spark, tmp_path, schema, lines)


@pytest.mark.parametrize("kind", ["string", "bigint"])
def test_every_shape_of_line_is_read_as_spark_reads_it(spark, tmp_path, kind):
    schema = Schema.parse(f"v {kind}")
    assert_same(spark, tmp_path, schema, [line for line in LINES if line not in OTHERWISE])


def test_one_bad_line_does_not_harm_its_neighbours():
    schema = Schema.parse("v bigint, t timestamp")
    lines = ['{"v":1,"t":"2024-05-01T00:00:00Z"}', "{", '{"v":"x"}', "", '{"v":4}']
    found = decoded(pl.Series(lines), schema)
    assert found["v"].to_list() == [1, None, None, 4]
    assert found[MALFORMED].to_list() == [None, "{", '{"v":"x"}', None]


def test_types_that_are_left_to_spark():
    assert all(reads(Schema.parse(f"v {kind}")) for kind in TYPES)
    assert not any(reads(Schema.parse(f"v {kind}")) for kind in ("struct<x:int>", "map<string,int>"))


def assert_same(spark, tmp_path, schema: Schema, lines: list[str]) -> None:
    file = tmp_path / "lines.json"
    file.write_text("\n".join(lines) + "\n")
    reader = spark.read.schema(f"{schema.ddl()}, `{MALFORMED}` string").option("columnNameOfCorruptRecord", MALFORMED)
    expected = in_numbers(reader.json(str(file)).toArrow())
    got = in_numbers(decoded(pl.Series(lines), schema).to_arrow())
    wrong = []
    for theirs, ours in zip(expected, got, strict=True):
        bad = theirs[MALFORMED] is not None
        if bad != (ours[MALFORMED] is not None) or (
            not bad and any(plain(theirs[name]) != plain(ours[name]) for name in schema.names)
        ):
            wrong.append(f"Spark {theirs}\n us    {ours}")
    assert not wrong, "\n".join(wrong)
