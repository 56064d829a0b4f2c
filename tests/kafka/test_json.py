"""Values in JSON that the tasks read mean what they mean to Spark's own `from_json`."""

from __future__ import annotations

import json
import random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from penstock.model.types import Schema
from penstock.sources.base import MALFORMED, REASON
from penstock.sources.kafka.columns import messages, parsed
from penstock.sources.kafka.json import decoded_json
from tests.conformance.test_json_lines import LINES, NOT_TAKEN, OTHERWISE, VALUES, in_numbers, plain
from tests.kafka.support import DEAD, asked, at, running

#: What is not text in a column of text: here as it was written, as in files; Spark writes it anew.
WRITTEN = {"-0", "1e3", "1E3", "1e400", "1e-400", "NaN", "Infinity", "-Infinity", "[1, 2]", '{"x": 1}'}
FIELDS = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip
Message = tuple[bytes | None, bytes | None]


def both(spark, schema: Schema, given: list[Message], metadata: dict[str, str] | None = None) -> list[Any]:
    """What Spark makes of messages and what the tasks make of them, row by row."""
    log = ps.kafka("t", metadata=metadata)
    assert log.decodes(schema)
    columns = list(zip(*((key, value, 0, n, n) for n, (key, value) in enumerate(given)), strict=True))
    table = pa.table([pa.array(list(c), f.type) for c, f in zip(columns, FIELDS, strict=True)], schema=FIELDS)
    read = spark.createDataFrame(table).selectExpr(*messages(metadata or {}, schema, schema.names, several=False))
    by_spark = read
    for step in parsed("json", ",", metadata or {}, log.payload(schema), schema, schema.names):
        by_spark = by_spark.selectExpr(*step)
    frame = pl.from_arrow(read.toArrow())
    assert isinstance(frame, pl.DataFrame)
    order = ["__offset", *schema.names, MALFORMED, REASON]
    theirs = in_numbers(by_spark.select(*order).orderBy("__offset").toArrow())
    ours = in_numbers(log.decode(frame, schema).select(order).sort("__offset").to_arrow())
    return list(zip(theirs, ours, strict=True))


def differing(pairs: list[Any], schema: Schema) -> list[str]:
    """The rows of which one is malformed and the other is not, or whose values are not the same."""
    found = []
    for theirs, ours in pairs:
        bad = theirs[MALFORMED] is not None
        names = (MALFORMED, REASON) if bad else (MALFORMED, REASON, *schema.names)
        if bad and theirs[REASON] is not None and "UTF-8" in theirs[REASON]:
            names = (REASON,)  # Spark has no way to show the bytes
        if any(plain(theirs[name]) != plain(ours[name]) for name in names):
            found.append(f"Spark {theirs}\n us    {ours}")
    return found


@pytest.mark.parametrize("kind", ["string", "bigint", "double", "timestamp", "date", "boolean"])
def test_every_value_is_read_as_spark_reads_it(spark, kind):
    schema = Schema.parse(f"v {kind}")
    values = [value for value in VALUES if value not in NOT_TAKEN.get(kind, WRITTEN if kind == "string" else ())]
    pairs = both(spark, schema, [(None, f'{{"v": {value}}}'.encode()) for value in values])
    assert not differing(pairs, schema), "\n".join(differing(pairs, schema))


def test_every_shape_of_message_is_read_as_spark_reads_it(spark):
    schema = Schema.parse("v string, who string")
    shapes: list[Message] = [(b"k", line.encode()) for line in LINES if line not in OTHERWISE]
    shapes += [
        (b"gone", None), (None, None), (b"\xff", None), (b"\xff", b'{"v": "a"}'), (None, b""), (None, b" \n\t "),
        (None, b'{\n "v":\r\n "a"\n}\n'), (None, b'{"v": "\xff"}'), (None, b'{"v": "a\xc3"}'), (None, b"\xff\xfe"),
        (None, '{"v": "ä€😀"}'.encode()), (None, b'{"v": "\\u0000"}'), (None, '\ufeff{"v": "a"}'.encode()),
    ]  # fmt: skip
    pairs = both(spark, schema, shapes, {"who": "key"})
    assert not differing(pairs, schema), "\n".join(differing(pairs, schema))


def test_tombstones_are_rows_where_a_column_shows_them(spark):
    schema = Schema.parse("k string, v int, gone boolean")
    given: list[Message] = [(b"a", b'{"v": 1}'), (b"b", None), (b"\xff", None), (b"c", b"no json"), (None, None)]
    pairs = both(spark, schema, given, {"k": "key", "gone": "tombstone"})
    assert differing(pairs, schema) == []
    rows = [ours for _, ours in pairs]
    assert [(row["k"], row["v"], row["gone"]) for row in rows if row[MALFORMED] is None] == [
        ("a", 1, False), ("b", None, True), (None, None, True),
    ]  # fmt: skip
    assert [row[REASON] for row in rows if row[MALFORMED] is not None] == ["the key is not text in UTF-8", None]


def test_each_message_keeps_its_place_among_many():
    chance = random.Random(3)
    kinds = [
        lambda n: json.dumps({"v": n}).encode(),
        lambda n: json.dumps({"v": n, "w": "x" * chance.randrange(300)}).encode(),
        lambda n: b"bad",
        lambda n: None,
    ]
    values = [chance.choices(kinds, [20, 20, 1, 1])[0](n) for n in range(60_000)]
    rows = pl.DataFrame(
        {
            "__offset": range(len(values)),
            "__value": values,
            "__key": [None] * len(values),
            REASON: [None] * len(values),
        },
        schema={"__offset": pl.Int64, "__value": pl.Binary, "__key": pl.String, REASON: pl.String},
    )
    found = decoded_json(rows, Schema.parse("v bigint"))
    good = [n for n, value in enumerate(values) if value not in (b"bad", None)]
    assert found.filter(pl.col(MALFORMED).is_null()).select("__offset", "v").rows() == [(n, n) for n in good]
    assert found.filter(pl.col(REASON).is_not_null())["__offset"].to_list() == [
        n for n, value in enumerate(values) if value is None
    ]


def test_types_that_are_left_to_spark_and_columns_that_catalyst_makes(kafka, topic, state, spark):
    name = topic()
    kafka.put(name, {"k": "a", "tags": ["x", "y"], "at": at(1)}, {"k": 1}, "no json", None, key="key")
    app = ps.App("test")
    log = ps.kafka(name, servers=kafka.servers, metadata={"who": "key"})
    made = app.stream("lists", log, schema="k string, tags array<string>, who string")
    app.view("by_tags", made.group_by("tags").agg(n=ps.count()))
    made = app.stream("plain", log, schema="k string, at timestamp, who string")
    app.view("by_key", made.group_by("k", "who").agg(n=ps.count()))
    app.view("by_catalyst", made.group_by(s="soundex(k)").agg(n=ps.count()))
    code = made.transform(lambda df: df.selectExpr("upper(k) AS k"), schema="k string")
    app.view("by_code", code.group_by("k").agg(n=ps.count()))
    with running(app, state, spark) as run:
        assert sorted(n for (n,) in asked(run, "SELECT n FROM by_tags")) == [1, 1]
        assert asked(run, "SELECT k, who, n FROM by_key ORDER BY k") == [("1", "key", 1), ("a", "key", 1)]
        assert asked(run, "SELECT s, n FROM by_catalyst ORDER BY s") == [("1", 1), ("A000", 1)]
        assert asked(run, "SELECT k, n FROM by_code ORDER BY k") == [("1", 1), ("A", 1)]
        dead = asked(run, DEAD)
    assert sorted((row, offset) for _, row, _, offset in dead) == [
        ("key", 3),
        ("key", 3),
        ("no json", 2),
        ("no json", 2),
    ]
