"""Random input, from bytes in a file to the store, the sinks' rows and the JSON of an answer: nothing raises.

Whatever a decoder reads goes through a stream and a view on the kernel, without Spark. Each row counts or is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.admit import admit
from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.runtime.epoch.wire import as_json
from penstock.serve.accept import from_lines
from penstock.serve.errors import Answered
from penstock.sources import MALFORMED, REASON
from penstock.sources.base import EXTENT, FILE, PART, PATH, ROW
from penstock.sources.files.text import FileLines
from penstock.sources.formats.avro import AvroReader
from penstock.sources.formats.json_lines import decoded
from penstock.sources.formats.lines import LINE, MAX_LINE, SHOWN, texts
from penstock.store.present import json_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema.parse(
    "k string, v bigint, i int, t tinyint, x double, f float, b boolean, at timestamp, d date, p decimal(10,2),"
    " tags array<string>, raw binary, times array<timestamp>"
)
STREAM = ps.stream("s", schema=SCHEMA.ddl(), event_time="at", watermark=ps.bounded("1 day"), max_ahead=None)
#: DuckDB plans a query of so many columns for longer than it reads lines: there are few examples, of many lines.
EXAMPLES = 2000 if os.environ.get("PENSTOCK_DEEP") == "1" else 8
NAMES = st.sampled_from(SCHEMA.names) | st.text(max_size=5)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text()
    | st.sampled_from(
        ["\ud800", "a\0b", "9999-12-31T23:59:59Z", "294247-01-10", "-0001-01-01", "1e999", "NaN", "+1e9999"]
    )
    | st.datetimes().map(lambda at: at.isoformat())
    | st.dates().map(str)
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
objects = st.lists(st.tuples(NAMES, values), max_size=6).map(
    lambda members: "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members) + "}"
)
lines = (
    objects.map(lambda text: text.encode())
    | objects.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.tuples(objects, st.integers(0, 200), st.binary(max_size=3)).map(
        lambda cut: cut[0].encode()[: cut[1]] + cut[2] + cut[0].encode()[cut[1] :]
    )
    | st.binary(max_size=40)
)


def taken(rows: pl.DataFrame) -> None:
    """Rows as a task takes them: each is malformed, refused or counts, and can be stored and shown."""
    malformed = rows.filter(pl.col(MALFORMED).is_not_null()) if MALFORMED in rows.columns else rows.clear()
    good = rows.filter(pl.col(MALFORMED).is_null()) if MALFORMED in rows.columns else rows
    missing = [name for name in SCHEMA.names if name not in good.columns]
    assert not missing or not good.height
    if not good.height:
        return
    place = [pl.lit(0, pl.Int32).alias("__source"), pl.lit(0, pl.Int32).alias("__partition")]
    numbered = good.select(SCHEMA.names).with_row_index("__offset").cast({"__offset": pl.Int64}).with_columns(place)
    admitted = admit(STREAM, numbered, 0)
    assert admitted.rows.height + admitted.dead.height + malformed.height == rows.height
    shown = numbered.select(as_json(numbered, SCHEMA.names)).to_series()
    assert all(json.loads(text) is not None for text in shown)
    accepted = admitted.rows.select(SCHEMA.names)
    assert all("\0" not in text for text in accepted["k"].drop_nulls())
    answers = json_of(accepted)
    assert all(isinstance(json.loads(text), dict) for text in answers)


@given(st.lists(lines, max_size=30))
@settings(deadline=None, max_examples=EXAMPLES)
def test_random_lines_of_json_count_or_are_dead_letters(some: list[bytes]):
    body = b"\n".join(some)
    split = texts(body, max_line=100)
    rows = decoded(split["__line"], SCHEMA, reasons=split[REASON])
    taken(rows)
    with suppress(Answered):  # where there are no events in the body
        answer = from_lines(body, SCHEMA, keep_malformed=True, most=100)
        assert answer.malformed == answer.rows[MALFORMED].count()


fields = (
    st.text(max_size=8)
    | st.sampled_from(['"', '""', '"a,b"', "\\", "a\0b", "\u2028", "#", "1e999", "NaN", "-0.0", "9999-12-31", "\ufeff"])
    | st.integers(-(1 << 70), 1 << 70).map(str)
    | st.floats().map(str)
    | st.datetimes().map(lambda at: at.isoformat())
)
csv_lines = st.lists(fields, max_size=16).map(lambda some: ",".join(some).encode("utf-8", "surrogatepass")) | st.binary(
    max_size=40
)


@given(st.lists(csv_lines, max_size=8), st.binary(max_size=3), st.booleans())
@settings(deadline=None)
def test_random_lines_of_csv_are_read_or_dead_letters(
    tmp_path_factory: pytest.TempPathFactory, some: list[bytes], noise: bytes, packed: bool
):
    """What a task reads of a file, before Spark parses it: each line that is not blank, or one row for the file."""
    body = b"\n".join(some)
    path = tmp_path_factory.getbasetemp() / ("random.csv.gz" if packed else "random.csv")
    path.write_bytes(gzip.compress(body, mtime=0)[: -len(noise) or None] + noise if packed else body + noise)
    batches = list(FileLines("csv", header=False, max_line=30)([pa.record_batch({PATH: [str(path)]})]))
    rows = pl.concat([pl.DataFrame(pl.from_arrow(batch)) for batch in batches]) if batches else pl.DataFrame()
    if not rows.height or rows[EXTENT].to_list() == [FILE]:
        return
    if packed:
        assert rows[ROW].to_list() == list(range(rows.height))
    else:  # a line's position is its first byte
        begins = [0, *(at + 1 for at, byte in enumerate(body + noise) if byte == ord("\n"))]
        begins[0] = 3 if body.startswith(b"\xef\xbb\xbf") else 0
        assert rows[ROW].is_sorted()
        assert rows[ROW].is_unique().all()
        assert set(rows[ROW]) <= set(begins)
    assert (rows[LINE].str.len_bytes() <= 4 * SHOWN).all()
    assert (rows.filter(pl.col(REASON).is_null())[LINE].str.len_bytes() <= 30).all()
    assert rows.filter(pl.col(EXTENT) == PART).height == rows[REASON].count()


@pytest.mark.xdist_group("spark")
def test_random_lines_of_csv_count_or_are_dead_letters_in_spark(tmp_path: Path, spark: SparkSession):
    """All at once, as Spark parses them: no line ends the job, and none is lost."""
    examples: list[bytes] = []

    @given(csv_lines)
    @settings(deadline=None, max_examples=300)
    def collect(line: bytes) -> None:
        examples.append(line.replace(b"\n", b" "))

    collect()
    path = tmp_path / "random.csv"
    path.write_bytes(b"\n".join(examples))
    plain = Schema(tuple((name, kind) for name, kind in SCHEMA if not kind.startswith("array")))
    frame = ps.files(tmp_path, format="csv").read_these(spark, plain, plain.names, [str(path)])
    rows = pl.DataFrame(pl.from_arrow(frame.toArrow()))
    lines = texts(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), MAX_LINE)[LINE]
    assert rows.height == (lines.str.strip_chars() != "").sum()
    lists = [pl.lit(None, dtype(kind)).alias(name) for name, kind in SCHEMA if name not in plain.names]
    taken(rows.drop(PATH, ROW).with_columns(lists))


def test_a_list_in_csv_is_refused_before_anything_is_read():
    for log in (ps.files("in", format="csv"), ps.socket("localhost", 9999, format="csv")):
        with pytest.raises(DefinitionError, match="'tags' is array<string>, which lines of CSV cannot hold"):
            ps.App("x").stream("s", log, schema="k string, tags array<string>")


arrow_types = st.sampled_from(
    [
        pa.string(), pa.large_string(), pa.binary(), pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
        pa.bool_(), pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"),
        pa.timestamp("ns", "America/New_York"), pa.decimal128(10, 2), pa.decimal128(38, 10), pa.decimal256(50, 4),
        pa.list_(pa.string()), pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.null(),
        pa.dictionary(pa.int32(), pa.string()), pa.time64("us"), pa.duration("us"), pa.list_(pa.timestamp("ns")),
    ]
)  # fmt: skip


def arrow_value(draw: Any, kind: pa.DataType) -> Any:
    if draw(st.integers(0, 4)) == 0 or pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind):
        return draw(st.text(max_size=5))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return draw(st.text(max_size=5) | st.just("a\0b"))
    if pa.types.is_binary(kind):
        return draw(st.binary(max_size=5))
    if pa.types.is_boolean(kind):
        return draw(st.booleans())
    if pa.types.is_floating(kind):
        return draw(st.floats(width=32))
    if pa.types.is_decimal(kind):
        return draw(st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(-2)))
    if pa.types.is_list(kind):
        return [arrow_value(draw, kind.value_type) for _ in range(draw(st.integers(0, 2)))]
    if pa.types.is_struct(kind):
        return {"x": 1}
    if pa.types.is_date32(kind):
        return draw(st.integers(-(1 << 31), (1 << 31) - 1))
    bits = 8 if kind == pa.int8() else 63
    low = 0 if pa.types.is_unsigned_integer(kind) or pa.types.is_time(kind) else -(1 << (bits - 1))
    return draw(st.integers(low, (1 << (bits - 1)) - 1 if not pa.types.is_time(kind) else 86_399_000_000))


@st.composite
def tables(draw: Any) -> bytes:
    rows, columns = draw(st.integers(0, 5)), {}
    for name in draw(st.lists(st.sampled_from(SCHEMA.names), unique=True, max_size=4)):
        kind = draw(arrow_types)
        columns[name] = pa.array([arrow_value(draw, kind) for _ in range(rows)], kind)
    written = io.BytesIO()
    flavour = draw(st.booleans())
    try:
        pq.write_table(pa.table(columns), written, use_deprecated_int96_timestamps=flavour)
    except pa.ArrowInvalid:  # Parquet has no seconds, and some do not fit into its milliseconds
        reject()
    found = bytearray(written.getvalue())
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found)


@given(tables())
@settings(deadline=None)
def test_random_parquet_files_count_or_are_dead_letters(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "random.parquet"
    path.write_bytes(content)
    read_file(path, "parquet")


def read_file(path: Path, format: str) -> None:
    for frame in ps.files(path.parent, format=format).frames(pl.DataFrame({PATH: [str(path)]}), SCHEMA):
        if EXTENT in frame.columns and frame[EXTENT].to_list() == [FILE]:
            assert frame[MALFORMED].to_list() == [str(path)]
        else:
            taken(frame)


FIELDS = [
    ("k", ["null", "string"]), ("v", "long"), ("i", "int"), ("x", "double"), ("b", "boolean"),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}), ("d", {"type": "int", "logicalType": "date"}),
    ("p", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}), ("raw", "bytes"),
    ("tags", {"type": "array", "items": ["null", "string"]}),
]  # fmt: skip
AVRO = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]}
MOMENT = datetime(2026, 5, 1, tzinfo=UTC)


@given(
    st.text(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(), st.binary(max_size=9), st.integers(0, 300),
    st.decimals(-(10**12), 10**12, allow_nan=False, places=4), st.timedeltas(timedelta(-700_000), timedelta(900_000)),
)  # fmt: skip
@settings(deadline=None)
def test_random_values_of_avro_count_or_are_dead_letters(k, v, x, noise, place, p, since):
    written = io.BytesIO()
    record = {"k": k, "v": v, "i": 1, "x": x, "b": True, "at": MOMENT + since, "d": MOMENT.date(), "p": p}
    schemaless_writer(written, parse_schema(AVRO), {**record, "raw": noise, "tags": [k, None]})
    value = written.getvalue()
    values = [value, value[:place], value[:place] + noise + value[place:], noise, None]
    rows = pl.DataFrame({"__value": values}, {"__value": pl.Binary}).with_columns(
        pl.lit(None, pl.String).alias("__key"), pl.lit(None, pl.String).alias(REASON)
    )
    taken(AvroReader(json.dumps(AVRO), None).decoded(rows, dict(SCHEMA)))
