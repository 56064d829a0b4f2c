"""A compacted topic as a table with versions: tombstones delete their key, in every format."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from fastavro import parse_schema, schemaless_writer

import penstock as ps
from penstock import sql
from penstock.model.time import instant
from tests.kafka.support import DEAD, asked, at, running

PRICE = {"type": "record", "name": "Price", "fields": [{"name": "price", "type": "int"}]}


def avro(price: int) -> bytes:
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(PRICE), {"price": price})
    return written.getvalue()


def text(price: int) -> str:
    return str(price)


def document(price: int) -> dict[str, int]:
    return {"price": price}


STATEMENTS = """
CREATE STREAM orders (item STRING, n INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 SECOND)
  FROM KAFKA '{orders}' WITH (servers = '{servers}');
CREATE STREAM prices (
  item STRING METADATA FROM 'key', price INT, since TIMESTAMP METADATA FROM 'timestamp',
  gone BOOLEAN METADATA FROM 'tombstone', WATERMARK FOR since AS since - INTERVAL 1 SECOND)
  FROM KAFKA '{json}' WITH (servers = '{servers}');
CREATE STREAM by_json AS
  SELECT o.n, p.price, o.at
  FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.at AS p ON o.item = p.item AND p.gone IS NOT TRUE;
CREATE CONTINUOUS VIEW json_prices AS SELECT collect_list(n) AS n, sum(price) AS price FROM by_json;
"""


@pytest.mark.parametrize("format", ["json", "csv", "avro"])
def test_events_find_what_a_compacted_topic_said_at_their_time(format, kafka, topic, state, spark, tmp_path: Path):
    names = {"orders": topic(name="orders"), format: topic(name=format)}
    value = {"json": document, "csv": text, "avro": avro}[format]

    def put(price: int | None, seconds: float, key: str = "tea") -> None:
        when = instant(at(seconds)) // 1000
        kafka.put(names[format], None if price is None else value(price), key=key, timestamp=when)

    put(3, 0)
    put(4, 10)
    put(None, 20)
    put(5, 30)
    kafka.put(names["orders"], *({"item": "tea", "n": n, "at": at(n)} for n in (5, 10, 19, 20, 29, 31)))
    kafka.put(names["orders"], {"item": "end", "n": 99, "at": at(99)})
    put(1, 99, "end")
    app = ps.App("test")
    if format == "json":
        for statement in sql.parse(STATEMENTS.format(servers=kafka.servers, **names)):
            sql.define(app, statement)
    else:
        (tmp_path / "price.avsc").write_text(json.dumps(PRICE))
        more = {"avro_schema": tmp_path / "price.avsc"} if format == "avro" else {}
        metadata = {"item": "key", "since": "timestamp", "gone": "tombstone"}
        mark = ps.bounded("1 second")
        orders = app.stream(
            "orders", ps.kafka(names["orders"], servers=kafka.servers), schema="item string, n int, at timestamp",
            event_time="at", watermark=mark,
        )  # fmt: skip
        prices = app.stream(
            "prices", ps.kafka(names[format], servers=kafka.servers, format=format, metadata=metadata, **more),
            schema="item string, price int, since timestamp, gone boolean", event_time="since", watermark=mark,
        )  # fmt: skip
        made = app.join(f"by_{format}", orders, prices.versions("item", deleted="gone"), how="left", event_time="at")
        app.view(f"{format}_prices", made.group_by().agg(n=ps.collect_list("n"), price=ps.sum("price")))
    with running(app, state, spark) as run:
        ((n, price),) = asked(run, f"SELECT n, price FROM {format}_prices")
        assert (json.loads(n), price) == ([5, 10, 19, 20, 29, 31], 3 + 4 + 4 + 5)
        assert asked(run, DEAD) == []
