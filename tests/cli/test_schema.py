"""`penstock schema`: the columns of a file, as text, as Python and as SQL."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from typer.testing import Result

import penstock as ps
from penstock.sql import load

Penstock = Callable[..., Result]
ROWS = [
    {"item": "tea", "price": 3, "at": "2024-05-01T12:00:00Z", "tags": [], "gift": None, "who": {"id": 1}},
    {"item": "pot", "price": 3.5, "at": "2024-05-01T12:00:01.25+02:00", "tags": ["a"], "gift": True, "who": {"n": "x"}},
]
DDL = "item string, price double, at timestamp, tags array<string>, gift boolean, who struct<id:bigint,n:string>"


def test_all_rows_of_a_json_file_decide(penstock: Penstock, tmp_path: Path):
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "orders.jsonl").write_text(text)
    (tmp_path / "orders.json.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("orders.jsonl", "orders.json.gz"):
        result = penstock("schema", tmp_path / name)
        assert result.stdout == DDL + "\n"
        assert "declare these columns as string" in result.stderr
    assert "price bigint" in penstock("schema", tmp_path / "orders.jsonl", "--rows", 1).stdout


def test_a_csv_file_has_types_and_a_delimiter(penstock: Penstock, tmp_path: Path):
    (tmp_path / "my-orders.csv").write_text("item;price;zip;day\ntea;3;0041;2024-05-01\npot;;8000;2024-05-02\n")
    assert penstock("schema", tmp_path / "my-orders.csv").stdout == "item string, price bigint, zip string, day date\n"
    python = penstock("schema", tmp_path / "my-orders.csv", "--as", "python").stdout
    app = ps.App("shop")
    exec(python, {"app": app, "ps": ps})
    assert app.streams["my_orders"].log == ps.files(tmp_path, format="csv", header=True, delimiter=";")


def test_parquet_says_its_schema_itself(penstock: Penstock, tmp_path: Path):
    table = pa.table({"n": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us", "UTC"))})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert penstock("schema", tmp_path / "a.parquet").stdout == "n int, at timestamp\n"


def test_python_and_sql_make_the_same_stream(penstock: Penstock, tmp_path: Path):
    (tmp_path / "visits.json").write_text('{"page": "/a", "ts": "2024-05-01 12:00:00", "ms": 7}\n')
    app = ps.App("site")
    exec(penstock("schema", tmp_path / "visits.json", "--as", "python").stdout, {"app": app, "ps": ps})
    (tmp_path / "site.sql").write_text(penstock("schema", tmp_path / "visits.json", "--as", "sql").stdout)
    assert load(tmp_path / "site.sql").streams == app.streams
    assert app.streams["visits"].event_time == "ts"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[1, 2]\n", "line 1 of .* is not an object"),
        ("a.json", '{"a": 1}\n{"a": \n', "line 2 of .* is not JSON"),
        ("a.json", "", "has no rows"),
        ("a.xml", "<a/>", "the format of 'a.xml' is unknown"),
    ],
)
def test_a_file_without_events_is_an_error(penstock: Penstock, tmp_path: Path, name: str, text: str, message: str):
    (tmp_path / name).write_text(text)
    result = penstock("schema", tmp_path / name)
    assert result.exit_code == 1
    assert re.search(message, " ".join(result.output.split()))


def test_a_missing_file_is_an_error(penstock: Penstock, tmp_path: Path):
    assert "there is no file" in penstock("schema", tmp_path / "none.json").output
