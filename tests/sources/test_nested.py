"""Parquet with structs and maps, as a task reads it: damage and values that do not fit are dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.types import Schema
from penstock.sources.base import EXTENT, FILE, MALFORMED, PATH, REASON, ROW
from penstock.sources.files.nested import ParquetRows

SCHEMA = Schema.parse("k string, s struct<x: int, y: string>, m map<string, bigint>")
TYPES = pa.schema(
    [
        ("k", pa.string()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)


def read(path: Path) -> list[dict[str, Any]]:
    batches = ParquetRows(SCHEMA, TYPES, lambda _: [])([pa.record_batch({PATH: [f"file:{path}"]})])
    return [row for batch in batches for row in batch.to_pylist()]


def write(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_fields_go_by_name_and_those_that_are_lacking_are_null(tmp_path: Path):
    structs = pa.array([{"z": 1.5, "x": 7}, None])
    path = write(tmp_path / "a.parquet", k=pa.array(["a", "b"]), s=structs)
    rows = read(path)
    assert [(row["k"], row["s"], row["m"], row[ROW]) for row in rows] == [
        ("a", {"x": 7, "y": None}, None, 0), ("b", None, None, 1),
    ]  # fmt: skip
    assert all(row[PATH] == str(path) and row[MALFORMED] is None for row in rows)


def test_a_value_that_does_not_fit_is_one_dead_letter(tmp_path: Path):
    structs, maps = pa.array([{"x": 1 << 40}, {"x": 1}]), pa.array([[("a", 1)], [("b", 2)]], TYPES.field("m").type)
    bad, good = read(write(tmp_path / "a.parquet", s=structs, m=maps))
    assert bad[REASON] == "the column 's' does not fit struct<x:int,y:string>"
    assert (good[MALFORMED], good["s"], dict(good["m"])) == (None, {"x": 1, "y": None}, {"b": 2})


@pytest.mark.parametrize(
    "columns",
    [
        {"s": pa.array(["no struct"])},
        {"s": pa.array([{"x": "no number"}])},
        {"m": pa.array([[("a", "no number")]], pa.map_(pa.string(), pa.string()))},
    ],
)
def test_a_file_with_other_types_is_one_dead_letter(tmp_path: Path, columns: dict[str, pa.Array]):
    path = write(tmp_path / "a.parquet", **columns)
    (row,) = read(path)
    assert (row[EXTENT], row[MALFORMED], "the stream declares" in row[REASON]) == (FILE, str(path), True)


@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "gone"])
def test_a_damaged_file_is_one_dead_letter(tmp_path: Path, damage: str):
    structs = pa.array([{"x": n, "y": "text " * 20 + str(n)} for n in range(1000)])
    path = write(tmp_path / "a.parquet", s=structs)
    content = path.read_bytes()
    damaged = {"cut": content[: len(content) // 2], "noise": b"?" * 500 + content[500:], "empty": b""}
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    (row,) = read(path)
    assert (row[EXTENT], row[MALFORMED]) == (FILE, str(path))
    assert row[REASON].startswith("the file cannot be read, and none of its rows count")
