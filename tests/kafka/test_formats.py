"""Values as CSV, Avro by a file and by a registry, and raw; each with values that are not what they should be."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

import penstock as ps
from penstock.store.arrivals import Ages
from tests.kafka.support import Clock, asked, running

FIRST = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "k", "type": ["null", "string"]},
        {"name": "v", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
#: A later version, with a field more and without another.
SECOND = {**FIRST, "fields": [*FIRST["fields"][:3], {"name": "new", "type": "int"}]}  # type: ignore[index]
MOMENT = datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC)
SCHEMA = "k string, v int, at timestamp, price decimal(8,2), tags array<string>"


def avro(schema: dict[str, Any], prefix: bytes = b"", **record: Any) -> bytes:
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(schema), record)
    return prefix + written.getvalue()


def sale(k: str | None, v: int = 1, prefix: bytes = b"") -> bytes:
    return avro(FIRST, prefix, k=k, v=v, at=MOMENT, price=Decimal("1.50"), tags=["x", "y"])


@pytest.fixture
def registry() -> Iterator[str]:
    """A server that answers as a schema registry does, to those who know the password."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {"/schemas/ids/7": FIRST, "/schemas/ids/258": SECOND}
            found = known.get(self.path)
            allowed = self.headers["Authorization"] == "Basic dXNlcjpwQHNz"  # user:p@ss
            self.send_response(401 if not allowed else 200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(found)} if found else {"error_code": 40403}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://user:p%40ss@127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_csv_avro_and_raw_values(kafka, topic, state, spark, registry, tmp_path: Path):
    arrived = (Clock().now - 600 * 1_000_000) // 1000
    put = partial(kafka.put, timestamp=arrived)
    names = {what: topic(name=what) for what in ("csv", "file", "registry", "directory", "raw")}
    put(names["csv"], "a;1;2026-05-01 12:00:01", "b;many;2026-05-01 12:00:01", 'a;2;"2026-05-01 12:00:02"', None)
    short = avro(SECOND, k="a", v=1, at=MOMENT, new=1)
    put(names["file"], sale("a", 3), sale("b", 1 << 40), b"\x01", sale("a") + b"\x00", short, None)
    wire = [b"\x00\x00\x00\x00\x07", b"\x00\x00\x00\x01\x02", b"\x00\x00\x00\x00\x09"]
    newer = avro(SECOND, wire[1], k="a", v=2, at=MOMENT, new=1)
    put(names["registry"], sale("a", prefix=wire[0]), newer, sale("a", prefix=wire[2]), sale("a"))
    put(names["directory"], sale(None, prefix=wire[0]), sale("a", prefix=wire[1]))
    put(names["raw"], "text", "text", b"\xff", None)

    (tmp_path / "sale.avsc").write_text(json.dumps(FIRST))
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.avsc").write_text(json.dumps(FIRST))
    at = {"servers": kafka.servers}
    logs = {
        "csv": (ps.kafka(names["csv"], format="csv", delimiter=";", **at), "k string, v int, at timestamp"),
        "file": (ps.kafka(names["file"], format="avro", avro_schema=tmp_path / "sale.avsc", **at), SCHEMA),
        "registry": (ps.kafka(names["registry"], format="avro", registry=registry, **at), SCHEMA),
        "directory": (ps.kafka(names["directory"], format="avro", registry=tmp_path / "schemas", **at), SCHEMA),
        "raw": (ps.kafka(names["raw"], format="raw", **at), "k string"),
    }
    app = ps.App("test")
    for stream, (log, schema) in logs.items():
        made = app.stream(stream, log, schema=schema)
        if stream == "file":
            app.view("by_catalyst", made.group_by(size="size(slice(tags, 1, 99))").agg(n=ps.count()))
            code = made.transform(lambda df: df.selectExpr("explode(tags) AS tag"), schema="tag string")
            app.view("by_code", code.group_by("tag").agg(n=ps.count()))
        if stream in ("csv", "raw"):
            app.view(f"by_{stream}", made.group_by("k").agg(n=ps.count()))
        else:
            view = made.group_by("k").agg(
                n=ps.count(), v=ps.sum("v"), last_at=ps.max("at"), price=ps.sum("price"), tags=ps.first("tags")
            )
            app.view(f"by_{stream}", view)
    with running(app, state, spark) as run:
        found = {stream: asked(run, f"SELECT * FROM by_{stream} ORDER BY k") for stream in logs}
        assert asked(run, "SELECT size, n FROM by_catalyst") == [(2, 1)]
        assert asked(run, "SELECT tag, n FROM by_code ORDER BY tag") == [("x", 1), ("y", 1)]
        dead = {
            stream: [
                (offset, reason.split(":")[0])
                for offset, reason in asked(
                    run, f"SELECT offset, reason FROM __refused WHERE stream = '{stream}' ORDER BY offset"
                )
            ]
            for stream in logs
        }

        # What a commit records of all formats is the time of Kafka's messages.
        ages = {stream: Ages.parsed(text) for stream, text in asked(run, "SELECT stream, ages FROM __arrivals")}
        assert ages == {stream: Ages.of([600_000], count) for stream, count in zip(logs, (4, 6, 4, 2, 4), strict=True)}

    def told(stream: str) -> list[tuple[Any, ...]]:
        return [(k, n, v, float(p), json.loads(t)) for k, _, _, n, v, _, p, t, *_ in found[stream]]

    assert [(k, n) for k, _, _, n, *_ in found["csv"]] == [("a", 2)]
    assert told("file") == [("a", 1, 3, 1.5, ["x", "y"])]
    assert told("registry") == [("a", 2, 3, 1.5, ["x", "y"])]
    assert told("directory") == [(None, 1, 1, 1.5, ["x", "y"])]
    assert {str(row[5])[:19].replace("T", " ") for row in found["registry"]} == {"2026-05-01 12:00:01"}
    assert [(k, n) for k, _, _, n, *_ in found["raw"]] == [(None, 1), ("text", 2)]
    schema, avro_schema = "the row does not fit the stream's schema", "the value does not follow its Avro schema"
    tombstone = "the message has no value, only this key"
    assert dead == {
        "csv": [(1, schema), (3, tombstone)],
        "file": [(1, "the field 'v'"), (2, avro_schema), (3, avro_schema), (4, avro_schema), (5, tombstone)],
        "registry": [
            (2, "the registry has no schema 9"),
            (3, "the value does not start with a zero byte and the id of a schema"),
        ],
        "directory": [(1, "the registry has no schema 258")],
        "raw": [(2, "the value is not text in UTF-8")],
    }
