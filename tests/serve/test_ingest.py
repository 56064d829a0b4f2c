"""Events over HTTP: looked at, made durable, written once for one key, and waited for by their token."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import polars as pl
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.model.types import Schema
from penstock.serve.accept import from_lines
from penstock.serve.server import Server
from penstock.serve.settings import Limits
from penstock.sources.http.inbox import FOLDER, Inbox, Offer, Receipt, declare, numbers, segment, sweep
from penstock.sources.http.source import Http
from tests.conftest import need_spark

STREAM = "/api/v1/streams/posts"
LINES = {"Content-Type": "application/x-ndjson"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(filled) -> pl.DataFrame:
    """All rows that the stream's tasks would read."""
    folder = filled.directory / FOLDER / "posts"
    paths = pl.DataFrame({"__path": [str(segment(folder, number)) for number in numbers(folder)]})
    frames = list(Http("posts").frames(paths, Schema.parse("tag string, likes int, at timestamp")))
    return pl.concat(frames) if frames else pl.DataFrame()


def arrow(frame: pl.DataFrame, **options: object) -> bytes:
    out = pa.BufferOutputStream()
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def test_lines_become_rows_of_a_segment(client: httpx.Client, filled):
    body = lines({"tag": "a", "likes": 1, "at": "2024-05-01T12:00:00Z"}, {"tag": "b", "other": [1]})
    answer = client.post(STREAM, content=body, headers=LINES)
    assert answer.json() == {"token": "posts:1", "accepted": 2, "malformed": 0, "repeated": False}
    assert written(filled).select("tag", "likes", "__malformed").rows() == [("a", 1, None), ("b", None, None)]


def test_lines_that_do_not_fit_are_named_and_nothing_is_written(client: httpx.Client, filled):
    body = '{"tag": "a"}\n\n{"tag": "b", "likes": "many"}\nnot json\n'
    answer = client.post(STREAM, content=body, headers=LINES)
    assert answer.status_code == 422
    assert [line["line"] for line in answer.json()["lines"]] == [3, 4]
    assert not written(filled).height


def test_lines_that_do_not_fit_can_be_kept_as_dead_letters(client: httpx.Client, filled):
    answer = client.post(f"{STREAM}?malformed=keep", content='{"tag": "a"}\nnot json', headers=LINES)
    assert answer.json()["malformed"] == 1
    assert written(filled)["__malformed"].to_list() == [None, "not json"]


def test_a_key_is_written_once_also_by_another_server(client: httpx.Client, serving: Callable[..., Server], filled):
    headers = {**LINES, "Idempotency-Key": "k1"}
    first = client.post(STREAM, content=lines({"tag": "a"}), headers=headers).json()
    again = client.post(STREAM, content=lines({"tag": "a"}), headers=headers).json()
    assert again == {**first, "repeated": True}
    client.post(STREAM, content=lines({"tag": "z"}), headers=LINES)
    with httpx.Client(base_url=serving().url) as other:
        assert other.post(STREAM, content=lines({"tag": "a"}), headers=headers).json()["token"] == first["token"]
        assert other.post(STREAM, content=lines({"tag": "b"}), headers=headers).status_code == 409
    assert written(filled)["tag"].to_list() == ["a", "z"]


def test_the_same_key_at_the_same_time_is_written_once(client: httpx.Client, filled):
    headers = {**LINES, "Idempotency-Key": "k"}

    def send(number: int) -> str:
        return client.post(STREAM, content=lines({"tag": "a"}), headers=headers).json()["token"]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(send, range(16)))) == 1
    assert written(filled).height == 1


def test_requests_at_the_same_time_share_segments(client: httpx.Client, filled):
    def send(number: int) -> str:
        return client.post(STREAM, content=lines({"tag": f"{number}"}), headers=LINES).json()["token"]

    with ThreadPoolExecutor(16) as pool:
        tokens = list(pool.map(send, range(64)))
    assert sorted(written(filled)["tag"].cast(int).to_list()) == list(range(64))
    assert len(set(tokens)) < 64


def test_arrow_is_taken_by_name_and_type(client: httpx.Client, filled):
    frame = pl.DataFrame({"likes": [1, 2], "tag": ["a", None]}, schema_overrides={"likes": pl.Int64})
    answer = client.post(STREAM, content=arrow(frame), headers=ARROW)
    assert answer.json()["accepted"] == 2
    assert written(filled).select("tag", "likes").rows() == [("a", 1), (None, 2)]


def bombs() -> dict[str, bytes]:
    frame = pl.DataFrame({"tag": ["a" * 1000] * 1000})
    many = pa.RecordBatch.from_arrays([pa.nulls(10_000_000)], names=["tag"])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, many.schema) as writer:
        writer.write_batch(many)
    categories = pl.DataFrame({"tag": pl.Series(["a", "b"], dtype=pl.Categorical)})
    return {
        "compressed": arrow(frame, compression="zstd"),
        "many nulls": out.getvalue().to_pybytes(),
        "dictionary": arrow(categories),
        "cut": arrow(frame)[:5000],
        "garbage": b"\xff" * 1000,
        "other type": arrow(pl.DataFrame({"likes": ["many"]})),
        "too large": arrow(pl.DataFrame({"likes": [1 << 40]})),
    }


@pytest.mark.parametrize(
    "name", ["compressed", "many nulls", "dictionary", "cut", "garbage", "other type", "too large"]
)
def test_arrow_that_is_damaged_or_grows_is_refused(client: httpx.Client, filled, name: str):
    answer = client.post(STREAM, content=bombs()[name], headers=ARROW)
    assert answer.status_code in (413, 422), answer.text
    assert not written(filled).height


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Content-Type": "text/plain"}, 415), ({}, 415), ({**LINES, "Content-Encoding": "gzip"}, 415),
     ({**LINES, "Idempotency-Key": "a b"}, 422), ({**LINES, "Idempotency-Key": "x" * 300}, 422)],
)  # fmt: skip
def test_what_is_sent_another_way_is_refused(client: httpx.Client, headers: dict[str, str], status: int):
    assert client.post(STREAM, content=b'{"tag": "a"}', headers=headers).status_code == status


def test_a_stream_that_takes_no_events_says_so(client: httpx.Client):
    assert client.post("/api/v1/streams/pots", content=b"{}", headers=LINES).status_code == 404
    assert client.post(STREAM, content=b"\n \n", headers=LINES).status_code == 422


def test_a_question_after_a_token_waits_until_its_events_are_there(client: httpx.Client, filled):
    token = client.post(STREAM, content=lines({"tag": "new"}), headers=LINES).json()["token"]
    early = client.get("/api/v1/views/trending", params={"after": token, "timeout": "50ms"})
    assert early.status_code == 504
    assert "not committed" in early.json()["error"]
    begun = threading.Event()

    def commit() -> None:
        begun.wait()
        time.sleep(0.1)
        filled.commit(("new", 1, 40), segment=1)

    thread = threading.Thread(target=commit)
    thread.start()
    begun.set()
    found = client.get("/api/v1/views/trending", params={"key.tag": "new", "after": token, "timeout": "20s"}).json()
    thread.join()
    assert [row["posts"] for row in found["rows"]] == [1]
    sql = {"sql": "SELECT count(*) AS n FROM trending WHERE tag = 'new'"}
    assert client.post("/api/v1/query", params={"after": token}, json=sql).json()["rows"] == [{"n": 1}]


def test_more_events_or_bytes_than_allowed_are_refused(serving: Callable[..., Server]):
    server = serving(limits=Limits(body=1000, events=10))
    with httpx.Client(base_url=server.url) as client:
        assert client.post(STREAM, content='{"tag":"a"}\n' * 11, headers=LINES).status_code == 413
        assert client.post(STREAM, content="x" * 1001, headers=LINES).status_code == 413
        parts = (b'{"tag":"a"}\n' for _ in range(1000))
        assert client.post(STREAM, content=parts, headers=LINES).status_code == 413


def test_json_is_one_event_over_any_number_of_lines(client: httpx.Client, filled):
    assert client.post(STREAM, json={"tag": "a\nb", "likes": 3}).json()["accepted"] == 1
    pretty = json.dumps({"tag": "c", "likes": 4}, indent=2)
    headers = {"Content-Type": "application/json"}
    assert client.post(STREAM, content=pretty, headers=headers).json()["accepted"] == 1
    assert written(filled).select("tag", "likes").rows() == [("a\nb", 3), ("c", 4)]
    for body in ("[]", '"text"', "1", "{", '{"tag": "a"}\n{"tag": "b"}', "[" * 100_000):
        assert client.post(f"{STREAM}?malformed=keep", content=body, headers=headers).status_code == 422


def test_decimals_and_floats_are_taken_from_numbers_and_text():
    schema = Schema.parse("d decimal(5,2), f float")
    body = b'{"d": 1.005, "f": 1.5}\n{"d": "2.50", "f": "NaN"}\n{"d": 1000.0}\n{"f": "x"}\n{"d": null}'
    found = from_lines(body, schema, True, 10)
    assert [None if d is None else str(d) for d in found.rows["d"]] == ["1.01", "2.50", None, None, None]
    assert found.rows["f"][0] == 1.5
    assert found.rows["__malformed"].to_list() == [None, None, '{"d": 1000.0}', '{"f": "x"}', None]


# the inbox itself


def offer(tag: str, key: str | None = None) -> Offer:
    rows = pl.DataFrame({"tag": [tag], "__malformed": [None]}, schema={"tag": pl.String, "__malformed": pl.String})
    return Offer(rows, key, tag)


@pytest.fixture
def folder(tmp_path):
    declare(tmp_path / "inbox", "s", Schema.parse("tag string"), base=1)
    return tmp_path / "inbox"


def test_a_key_outlives_a_process_that_died_before_it_was_noted(folder):
    Inbox(folder).put([offer("a", "k1")])
    Inbox(folder).put([offer("b", "k2")])
    (folder / "keys.jsonl").write_text("".join((folder / "keys.jsonl").read_text().splitlines(True)[:1]))
    other = Inbox(folder)
    assert other.put([offer("b", "k2"), offer("c", "k3")]) == [Receipt(2, 1, 0, repeated=True), Receipt(3, 1, 0)]
    sweep(folder, 3, older_than=-1)
    assert numbers(folder) == [3]
    assert Inbox(folder).put([offer("b", "k2"), offer("a", "k1")]) == [
        Receipt(2, 1, 0, repeated=True),
        Receipt(1, 1, 0, repeated=True),
    ]


def test_segments_that_are_not_committed_or_young_are_not_swept(folder):
    inbox = Inbox(folder)
    for tag in "abcd":
        inbox.put([offer(tag)])
    assert sweep(folder, 2, older_than=3600) == 0
    assert sweep(folder, 2, older_than=-1) == 2
    assert numbers(folder) == [3, 4]


def test_two_processes_write_without_gaps(folder):
    one, two = Inbox(folder), Inbox(folder)
    found = [(one if n % 2 else two).put([offer(str(n))])[0] for n in range(6)]
    assert [taken.number for taken in found if isinstance(taken, Receipt)] == [1, 2, 3, 4, 5, 6]


def test_an_inbox_that_takes_the_place_of_another_gives_no_number_again(tmp_path):
    """As where a savepoint is restored in a new directory: Spark goes on from an offset of the old inbox."""
    need_spark()
    from penstock.sources.http.inbox_source import SegmentReader

    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        declare(folder, "s", Schema.parse("tag string"), base=None if folder is new else 5)
        Inbox(folder).put([offer("a")])
    start = SegmentReader("s", old).latestOffset(SegmentReader("s", old).initialOffset(), None)
    assert start["number"] == 5
    reader = SegmentReader("s", new)
    end = reader.latestOffset(start, None)
    assert end["number"] == numbers(new)[-1] > 1_700_000_000_000
    (part,) = reader.partitions(start, end)
    assert (part.first, part.end) == (end["number"], end["number"] + 1)
    assert reader.latestOffset(end, None) == end


def test_a_segment_that_is_gone_before_it_was_read_is_an_error(folder):
    need_spark()
    from penstock.sources.http.inbox_source import SegmentReader

    inbox = Inbox(folder)
    for tag in "abc":
        inbox.put([offer(tag)])
    segment(folder, 2).unlink()
    with pytest.raises(PenstockError, match="segment 2"):
        SegmentReader("s", folder).partitions({"number": 0}, {"number": 3})


def test_the_driver_reads_few_segments_as_the_only_task_would(folder):
    need_spark()
    from penstock.sources.http.inbox_source import SegmentReader

    inbox, schema = Inbox(folder), Schema.parse("tag string")
    for tag in "abc":
        inbox.put([offer(tag)])
    follower = Http("s", folder=str(folder)).follow(folder)
    reader, start, end = SegmentReader("s", folder), {"number": 1}, {"number": 3}
    (part,) = reader.partitions(start, end)
    rows = follower.small_epoch(json.dumps(start), json.dumps(end), None, schema, 1 << 20)
    assert rows == pa.Table.from_batches(reader.read(part))
    assert follower.small_epoch(None, json.dumps(end), None, schema, 1 << 20) is None
    assert follower.small_epoch(json.dumps(start), json.dumps(end), None, schema, 10) is None
    assert follower.small_epoch(json.dumps({"number": 0}), json.dumps({"number": 4}), None, schema, 1 << 20) is None
