"""Attacks with what a stream reads: values, lines and files that a decoder, the store or a sink cannot take."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import textwrap
import zlib
from functools import partial
from pathlib import Path

import httpx
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import PenstockError
from penstock.kernel.local import LocalKernel
from penstock.model.reference import Reference
from penstock.model.storable import why_not_storable
from penstock.model.types import Schema
from penstock.serve.accept import from_lines
from penstock.sources import MALFORMED, REASON
from penstock.sources.base import EXTENT, FILE, PART, PATH
from penstock.sources.files.source import Files
from penstock.sources.files.whole import whole
from penstock.sources.formats.json_lines import decoded
from penstock.sources.formats.lines import read_lines, verify
from penstock.sources.kafka.json import decoded_json
from penstock.testing import TestStream

REPOSITORY = Path(__file__).parents[2]

SCHEMA = Schema.parse("k string, v bigint")
GOOD = b'{"k":"a","v":1}\n'
#: What makes a line a dead letter on every path, and what it says.
LINES = {
    b'{"k":"\\ud800"}': "lone surrogate",
    b'{"\\udc00":1,"k":"a"}': "lone surrogate",
    b'{"k":"a","x":["\\udfff"]}': "lone surrogate",
    b'{"k":"\xff"}': "not UTF-8",
    b'{"k":"a",}': None,
    b'{"k":[1,],"v":1}': None,
    b"{'k':\"a\"}": None,
    b'{"v":' + b"9" * 5000 + b"}": None,
    b'{"k":' + b"[" * 100_000 + b"}": None,
    b'{"k":"a\x00"}': None,
    b'{"v":1e999999999}': None,
}


def kafka_rows(values: list[bytes]) -> pl.DataFrame:
    rows = pl.DataFrame({"__value": values, "__key": [None] * len(values)}, {"__value": pl.Binary, "__key": pl.String})
    return rows.with_columns(pl.lit(None, pl.String).alias(REASON))


def read(tmp_path: Path, name: str, content: bytes, schema: Schema = SCHEMA, **options: object) -> pl.DataFrame:
    """A file as a task reads it."""
    path = tmp_path / name
    path.write_bytes(content)
    log = ps.files(tmp_path, **options)  # type: ignore[arg-type]
    return read_path(log, path, schema)


def read_path(log: Files, path: Path, schema: Schema = SCHEMA) -> pl.DataFrame:
    frames = log.frames(pl.DataFrame({PATH: [f"file:{path}"]}), schema)
    return pl.concat(list(frames), how="diagonal_relaxed")


def dead(frame: pl.DataFrame) -> list[tuple[str, str | None]]:
    return frame.filter(pl.col(MALFORMED).is_not_null()).select(MALFORMED, REASON).rows()


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_no_text_can_hold_is_a_dead_letter_on_every_path(tmp_path: Path, line: bytes):
    """Sends half a surrogate pair, bytes that are not UTF-8 or broken JSON: a dead letter in files, Kafka and HTTP."""
    reason = LINES[line]
    in_file = read(tmp_path, "a.json", GOOD + line + b"\n" + GOOD)
    by_kafka = decoded_json(kafka_rows([GOOD, line, GOOD]), SCHEMA)
    by_http = from_lines(GOOD + line + b"\n" + GOOD, SCHEMA, keep_malformed=True, most=10).rows
    for rows in (in_file, by_kafka, by_http):
        assert rows["k"].to_list() == ["a", None, "a"]
        ((_, said),) = dead(rows)
        assert reason is None or reason in str(said) or (rows is by_kafka and "UTF-8" in str(said))


def test_of_two_members_with_one_name_the_last_counts_on_every_path(tmp_path: Path):
    """Sends two members with one name, also escaped: the last one counts on every path, as in Spark."""
    lines = [b'{"k":"a","v":1,"k":"b"}', b'{"k":"a","\\u006b":"b"}', b'{"v":1,"k":"a" , "k" :"b"}']
    for rows in (
        read(tmp_path, "a.json", b"\n".join(lines)),
        decoded_json(kafka_rows(lines), SCHEMA),
        from_lines(b"\n".join(lines), SCHEMA, keep_malformed=False, most=10).rows,
    ):
        assert rows["k"].to_list() == ["b", "b", "b"]
    nested = pl.Series(['{"k":"a","x":{"k":"b"}}', '{"x":{"k":"b"},"k":"a"}', '{"k":"k","v":1}'])
    assert decoded(nested, SCHEMA)["k"].to_list() == ["a", "a", "k"], "of the object itself"


@pytest.mark.parametrize("engine", [Reference, LocalKernel])
def test_values_that_no_store_holds_are_dead_letters_in_every_engine(engine):
    """Sends text with NUL, or a time after the year 9999: a dead letter, in `penstock test` as in an app."""
    stream = ps.stream("s", schema="k string, at timestamp, tags array<string>, day date")
    view = stream.group_by("k").agg(n=ps.count())
    script = TestStream(stream).add(
        {"k": "good", "tags": ["a"]}, {"k": "a\0b"}, {"k": "b", "at": 1 << 60}, {"k": "c", "tags": ["x", "\0"]},
        {"k": "d", "day": -1_000_000},
    )  # fmt: skip
    (commit,) = script.commits()
    assert commit is not None
    _, refused = engine(view).commit(commit)
    assert sorted(one.reason for one in refused) == [
        "the column 'at' lies outside the years 1 to 9999",
        "the column 'day' lies outside the years 1 to 9999",
        "the column 'k' has a NUL character",
        "the column 'tags' has a NUL character",
    ]
    assert why_not_storable({"k": "good"}, stream.schema) is None


# files


def parquet_bytes(rows: int = 1000) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"k": [f"k{n}" for n in range(rows)], "v": range(rows)}), written, row_group_size=100)
    return written.getvalue()


def damaged() -> dict[str, bytes]:
    packed = gzip.compress(GOOD * 5000)
    turned = bytearray(packed)
    turned[len(packed) // 2] ^= 0xFF
    zstd = pa.compress(GOOD * 5000, codec="zstd", asbytes=True)
    parquet = bytearray(parquet_bytes())
    return {
        "cut.json.gz": packed[:-20],
        "turned.json.gz": bytes(turned),
        "no.json.gz": b"this is not a gzip file",
        "cut.json.zst": zstd[: len(zstd) // 2],
        "cut.parquet": bytes(parquet[: len(parquet) // 2]),
        "short.parquet": b"PAR1",
        "turned.parquet": bytes(parquet[:100] + b"\xff" * 300 + parquet[400:]),
    }


@pytest.mark.parametrize("name", damaged())
def test_a_damaged_file_is_one_dead_letter_with_its_name(tmp_path: Path, name: str):
    """Puts a truncated or corrupt file into the directory: one dead letter with its path; nothing of it counts."""
    format = "parquet" if name.endswith("parquet") else "json"
    rows = read(tmp_path, name, damaged()[name], format=format)
    ((path, reason),) = dead(rows)
    assert path == str(tmp_path / name)
    assert str(reason).startswith("the file cannot be read, and none of its rows count: ")
    assert rows[EXTENT].to_list() == [FILE]


def test_a_large_file_is_read_to_its_end_before_any_of_it_counts(tmp_path: Path):
    """Damages the end of a file that is too large to be held in memory: nothing of it counts either."""
    entire = gzip.compress(GOOD * 5000)
    for content, rows in ((entire, 5000), (entire[:-20], 1)):
        path = str(tmp_path / "a.json.gz")
        Path(path).write_bytes(content)
        frames = list(whole(path, read_lines(path, block=10_000), partial(verify, path), most=1000))
        assert sum(frame.height for frame in frames) == rows


def test_a_file_that_vanishes_is_a_dead_letter_and_a_directory_that_does_is_not(tmp_path: Path):
    """Removes a file between listing and reading: a dead letter; if its directory is gone, the app stops instead."""
    ((path, reason),) = dead(read_path(ps.files(tmp_path), tmp_path / "gone.json"))
    assert path == str(tmp_path / "gone.json")
    assert str(reason).endswith("it does not exist")
    with pytest.raises(PenstockError, match="does not exist, or this worker does not see it"):
        read_path(ps.files(tmp_path), tmp_path / "no directory" / "a.json")


def test_a_directory_whose_name_is_no_value_makes_its_files_dead_letters(tmp_path: Path):
    """Names a directory so that it is not a value of its column: its files are dead letters."""
    (tmp_path / "day=never").mkdir()
    (tmp_path / "day=never" / "a.json").write_bytes(GOOD)
    schema = Schema.parse("k string, day date")
    ((_, reason),) = dead(read_path(ps.files(tmp_path), tmp_path / "day=never" / "a.json", schema))
    assert "the directory 'day=never' does not fit date" in str(reason)


# lines


def test_a_line_that_is_too_long_is_a_dead_letter_with_its_beginning(tmp_path: Path):
    """Sends a line longer than max_line: a dead letter with its first part and its length; its neighbours count."""
    long = b'{"k":"' + b"x" * 5000 + b'"}\n'
    rows = read(tmp_path, "a.json", GOOD + long + GOOD, max_line=2000)
    assert rows["k"].to_list() == ["a", None, "a"]
    ((text, reason),) = dead(rows)
    assert long.decode().startswith(text)
    assert len(text) == 1000
    assert reason == "the line has 5008 bytes, more than max_line = 2000"
    assert rows[EXTENT].to_list() == [None, PART, None]


def test_one_line_of_a_small_file_does_not_take_the_memory(tmp_path: Path):
    """Puts one line of 256 MB into a gzip file of 256 kB: a dead letter, and memory stays bounded."""
    path = tmp_path / "bomb.json.gz"
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(packer.compress(b'{"k":"'))
        for _ in range(256):
            file.write(packer.compress(b"x" * (1 << 20)))
        file.write(packer.compress(b'"}\n' + GOOD) + packer.flush())
    code = f"""
        import polars as pl
        import penstock as ps
        from penstock.model.types import Schema
        from tests.peak_memory import peak_memory
        log, schema = ps.files({str(tmp_path)!r}), Schema.parse("k string, v bigint")
        (small,) = log.frames(pl.DataFrame({{"__path": [{str(tmp_path / "small.json")!r}]}}), schema)
        before = peak_memory()
        rows = pl.concat(log.frames(pl.DataFrame({{"__path": [{str(path)!r}]}}), schema), how="diagonal_relaxed")
        after = peak_memory()
        print(rows["__malformed_because"].to_list(), (after - before) >> 20)
    """
    (tmp_path / "small.json").write_bytes(GOOD)
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    reasons, _, megabytes = done.stdout.strip().rpartition(" ")
    assert reasons == "['the line has 268435464 bytes, more than max_line = 16777216', None]"
    assert int(megabytes) < 160, f"{megabytes} MB for a block of 24 MB"


# Parquet


def test_parquet_columns_of_odd_types_are_read_or_refused_by_row_or_file(tmp_path: Path):
    """Puts Parquet files of odd types there: rows that do not fit are dead letters, or the whole file is."""
    schema = Schema.parse("at timestamp, n int, k string, price decimal(9,2)")
    table = pa.table(
        {
            "at": pa.array([0, 1_500_000_000_123_456_789, None], pa.timestamp("ns", "Europe/Berlin")),
            "n": pa.array([1, 1 << 40, 3], pa.int64()),
            "k": pa.array(["a", "b", "a"]).dictionary_encode(),
            "price": pa.array([1, 2, 3]).cast(pa.decimal128(23, 4)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    log = ps.files(tmp_path, format="parquet")
    rows = read_path(log, tmp_path / "a.parquet", schema)
    assert rows["n"].to_list() == [1, None, 3]
    assert [reason for _, reason in dead(rows)] == ["the column 'n' does not fit int"]
    invalid = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"ok"]).buffers())
    pq.write_table(pa.table({"k": invalid}), tmp_path / "b.parquet")
    rows = read_path(log, tmp_path / "b.parquet", SCHEMA)
    assert rows["k"].to_list() == [None, "ok"]
    assert [reason for _, reason in dead(rows)] == ["the column 'k' does not fit string"]
    for number, column in enumerate(
        [pa.array([1.5]), pa.array([b"x"]), pa.array([{"x": 1}]), pa.array([[1]]), pa.array([1], pa.time64("us"))]
    ):
        pq.write_table(pa.table({"v": column}), tmp_path / f"{number}.parquet")
        ((_, reason),) = dead(read_path(log, tmp_path / f"{number}.parquet", SCHEMA))
        assert "its column 'v' is" in str(reason)


# all of it, in an app


def test_no_file_of_all_these_ends_an_app_and_dead_files_are_fed_in_again(tmp_path: Path, spark):
    """Puts all of these into the directories of an app: it counts what is good, and reads repaired files when asked."""
    folders = {format: tmp_path / format for format in ("json", "csv", "parquet")}
    for folder in folders.values():
        folder.mkdir()
    for name, content in damaged().items():
        (folders["parquet" if name.endswith("parquet") else "json"] / name).write_bytes(content)
    (folders["json"] / "lines.json").write_bytes(GOOD + b"\n".join(LINES) + b"\n" + b'{"k":"a\\u0000"}\n')
    (folders["csv"] / "a.csv").write_bytes(b"a,1\nb,x\n\xff,1\na\x00,1\n" + b"l" * 3000 + b",1\n")
    (folders["csv"] / "cut.csv.gz").write_bytes(gzip.compress(b"a,1\n" * 1000)[:-9])
    (folders["parquet"] / "good.parquet").write_bytes(parquet_bytes(1))

    def app() -> App:
        made = App("attacked")
        for format, folder in folders.items():
            stream = made.stream(format, ps.files(folder, format=format, max_line=2000), schema="k string, v bigint")
            made.view(f"by_{format}", stream.group_by("k").agg(n=ps.count()))
        return made

    def counts(run) -> list[int]:
        return [run.store.query(f"SELECT coalesce(sum(n), 0) FROM by_{format}").item() for format in folders]

    run = app().start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert counts(run) == [1, 1, 1]
        told = run.store.counters()
        files = [sum(name.endswith(ending) for name in damaged()) for ending in ("gz", "zst", "parquet")]
        assert (told["json.dead_files"], told["csv.dead_files"], told["parquet.dead_files"]) == (
            files[0] + files[1], 1, files[2],
        )  # fmt: skip
        assert told["json.dead"] == told["json.dead_files"] + len(LINES) + 1
        assert told["csv.dead"] == 1 + 4
    finally:
        run.stop()
    run = app().start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert counts(run) == [1, 1, 1], "the same after a restart"
        (folders["json"] / "cut.json.gz").write_bytes(gzip.compress(GOOD * 10))
        (folders["csv"] / "cut.csv.gz").write_bytes(gzip.compress(b"a,1\n" * 10))
        for format in ("json", "csv"):
            again = run.retry_dead_letters(format)
            assert again.rows - again.dead == 1, "one file can be read now"
        assert counts(run) == [11, 11, 1]
        assert run.retry_dead_letters("csv").rows == 4, "none of them twice"
        assert counts(run) == [11, 11, 1]
    finally:
        run.stop()


def test_such_lines_by_http_are_answered_with_their_reasons(serving, filled):
    """Posts half a surrogate pair or bytes that are not UTF-8: 422 with line and reason, or dead letters on request."""
    server = serving()
    stream = f"{server.url}/api/v1/streams/posts"
    head = {"Content-Type": "application/x-ndjson"}
    body = b'{"tag":"\\ud800"}\n{"tag":"\xff"}\n{"tag":"fine"}\n'
    refused = httpx.post(stream, content=body, headers=head)
    assert refused.status_code == 422
    lines = refused.json()["lines"]
    assert [(line["line"], json.dumps("UTF-8" in line["reason"])) for line in lines] == [(1, "false"), (2, "true")]
    kept = httpx.post(stream, content=body, params={"malformed": "keep"}, headers=head)
    assert kept.status_code in (200, 202)
    assert (kept.json()["accepted"], kept.json()["malformed"]) == (3, 2)
