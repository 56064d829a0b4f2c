"""Tables behind JDBC in real databases: H2, SQLite and PostgreSQL, each through its own driver."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import DefinitionError, PenstockError
from penstock.runtime.spark.jars import Artifact, fetched
from penstock.sinks import SinkError, to_jdbc
from penstock.sinks.base import Batch, Target
from penstock.sinks.jdbc_connection import Database
from penstock.sinks.jdbc_dialect import DIALECTS
from penstock.sinks.rows import Decoder
from tests.conftest import need_spark, without
from tests.postgres import PASSWORD, Postgres
from tests.sinks.support import LIVE, STREAM, Fed

DRIVERS = {
    "h2": Artifact("com.h2database", "h2", "2.3.232"),
    "sqlite": Artifact("org.xerial", "sqlite-jdbc", "3.49.1.0", ("org.slf4j",)),
    "postgresql": Artifact("org.postgresql", "postgresql", "42.7.5", ("org.checkerframework",)),
}
Row = dict[str, Any]


class Place:
    """An empty database of one kind, and the sinks into it."""

    def __init__(self, kind: str, url: str, user: str | None = None, secret: str | None = None) -> None:
        need_spark()
        self.kind, self.url, self.user, self.secret = kind, url, user, secret
        try:
            (jar,) = fetched(f"jdbc-{DRIVERS[kind].name}-{DRIVERS[kind].version}", [DRIVERS[kind]])
        except PenstockError as error:
            without(error.message)
        self.jar = str(jar)

    def sink(self, table: str = "t", **more: Any) -> ps.sinks.Sink:
        return to_jdbc(table, url=self.url, jar=self.jar, user=self.user, secret=self.secret, **more)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        password = None if self.secret is None else os.environ[self.secret]
        driver = DIALECTS[self.kind].driver
        assert driver is not None
        database = Database(self.url, driver, self.jar, self.user, password)
        try:
            return [tuple(map(text, row)) for row in database.rows(query)]
        finally:
            database.close()

    def shown(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows('SELECT "k", "n", "total" FROM t'), key=repr)


def text(value: Any) -> Any:
    """Values of Java that py4j does not turn into Python's are compared by their text."""
    known = (bool, int, float, str, bytes, bytearray, Decimal)
    return value if value is None or isinstance(value, known) else str(value.toString())


@pytest.fixture(params=["h2", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if request.param != "postgresql":
        file = tmp_path / "database"
        yield Place(request.param, f"jdbc:{request.param}:{file}")
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = f"jdbc{os.getpid()}"
    server.database(name)
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    yield Place("postgresql", f"jdbc:postgresql://127.0.0.1:{server.port}/{name}", "penstock", "DB_PASSWORD")
    server.run(f'DROP DATABASE "{name}" WITH (FORCE)')


def folded(fed: Fed) -> list[tuple[Any, ...]]:
    """What a table of the panes so far must hold."""
    found: dict[Any, Any] = {}
    for pane in Decoder(fed.view).panes(fed.panes()):
        window = (pane["k"], pane["window_start"])
        found.pop(window, None)
        if pane["kind"] == "insert":
            found[window] = (pane["k"], pane["n"], pane["total"])
    return sorted(found.values(), key=repr)


def test_the_table_holds_what_the_view_shows_and_each_pane_once(feed, place):
    fed = feed(LIVE)
    delivery = fed.delivery(t=place.sink(), p=place.sink("p", mode="panes", rows_per_transaction=5))
    for _ in range(4):
        fed.step(2)
        delivery.deliver()
        assert not delivery.failures
        assert place.shown() == folded(fed) != []
    delivery.close()
    assert [row[0] for row in place.rows('SELECT "pane" FROM p ORDER BY 1')] == fed.ids()

    def dies(positions: dict[str, int], deliveries: object) -> None:
        raise RuntimeError("killed")

    fed.step(2)
    dying = fed.delivery({"commit_positions": dies}, p=place.sink("p", mode="panes"))
    dying.deliver()
    dying.close()
    fed.step(1)
    fed.deliver(t=place.sink(), p=place.sink("p", mode="panes"))
    assert [row[0] for row in place.rows('SELECT "pane" FROM p ORDER BY 1')] == fed.ids()
    assert place.shown() == folded(fed)


def test_a_renamed_sink_brings_no_pane_twice(feed, place):
    fed = feed(LIVE)
    fed.deliver_through_a_rename(lambda: place.sink("p", mode="panes", rows_per_transaction=5))
    assert [row[0] for row in place.rows('SELECT "pane" FROM p ORDER BY 1')] == fed.ids()


def test_rows_are_taken_back_also_under_keys_that_are_null(feed, place):
    fed = feed(LIVE)
    view = STREAM.group_by("k").agg(n=ps.count(), total=ps.sum("v")).retracting()
    opened = place.sink().open(Target("t", "v", view, fed.store))

    def pane(number: int, k: str | None, n: int, kind: str = "insert") -> Row:
        return {
            "k": k, "window_start": None, "window_end": None, "n": n, "total": None, "kind": kind,
            "timing": "early", "index": 0, "final": False, "pane": number, "commit": number,
        }  # fmt: skip

    opened.take(Batch(1, 3, [pane(1, None, 1), pane(2, "a", 1), pane(3, "b", 1)]))
    assert place.shown() == sorted([(None, 1, None), ("a", 1, None), ("b", 1, None)], key=repr)
    opened.take(Batch(4, 6, [pane(4, None, 2), pane(5, "a", 1, "retract"), pane(6, "b", 5)]))
    assert place.shown() == sorted([(None, 2, None), ("b", 5, None)], key=repr)
    opened.take(Batch(7, 7, [pane(7, None, 2, "retract")]))
    assert place.shown() == [("b", 5, None)]
    opened.close()


def test_values_of_every_type_arrive(feed, place):
    schema = (
        "a string, b tinyint, e bigint, f float, g double, h boolean, i binary, j date, l timestamp, m decimal(30,6)"
    )
    view = (
        ps.stream("s", schema=schema)
        .group_by(*[part.split()[0] for part in schema.split(", ")])
        .agg(xs=ps.collect_list("e"))
    )
    at = datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
    values = ("it's 'x' ⚙", -128, -(2**63), 1.5, -0.25, True, b"\x00\xff", date(2024, 5, 1), at, Decimal("-1.500000"))
    row = dict(zip("abefghijlm", values, strict=True)) | {
        "window_start": None, "window_end": None, "xs": [1, None], "kind": "insert", "timing": "early", "index": 0,
        "final": True, "pane": 1, "commit": 1,
    }  # fmt: skip
    empty = dict.fromkeys([*"abefghijlm", "xs"])
    opened = place.sink().open(Target("t", "v", view, feed().store))
    opened.take(Batch(1, 2, [row, row | empty | {"pane": 2}]))
    opened.close()
    (got,) = place.rows('SELECT * FROM t WHERE "a" IS NOT NULL')
    as_text = {"sqlite": "2024-05-01T12:00:00.123456Z", "h2": "2024-05-01T12:00:00.123456Z"}
    assert got[:6] == (values[0], -128, -(2**63), 1.5, -0.25, got[5])
    assert bool(got[5]) is True
    assert bytes(got[6]) == b"\x00\xff"
    assert got[7] == "2024-05-01"
    assert got[8] in (as_text.get(place.kind), "2024-05-01 12:00:00.123456", "2024-05-01 12:00:00.123456+00")
    assert str(got[9]) == "-1.500000"
    assert got[10] == "[1, null]"
    (nulls,) = place.rows('SELECT * FROM t WHERE "a" IS NULL')
    assert set(nulls[:11]) == {None}


def test_a_process_that_wakes_up_too_late_can_write_nothing(feed, place):
    fed, sink = feed(LIVE), place.sink("p", mode="panes")
    fed.step(2)
    old = fed.delivery({"retry": (0.0, 0.0)}, t=sink)
    old.deliver()
    assert not old.failures
    new = fed.delivery(t=sink)
    fed.step(2)
    old.deliver()
    assert "another process writes to the table p" in str(old.failures["t"].error)
    new.deliver()
    assert not new.failures
    old.close()
    new.close()
    assert [row[0] for row in place.rows('SELECT "pane" FROM p ORDER BY 1')] == fed.ids()


def test_tables_that_do_not_fit_and_other_stores_are_refused(feed, place):
    fed, other = feed(LIVE), feed(LIVE, name="other")
    with pytest.raises(SinkError, match="there is no table t") as told:
        fed.delivery(t=place.sink(create=False))
    assert '"total" ' in str(told.value)
    fed.step(4)
    fed.deliver(t=place.sink())
    other.step(1)
    with pytest.raises(SinkError, match="panes of another store"):
        other.delivery(t=place.sink())
    with pytest.raises(SinkError, match="has delivered its panes"):
        fed.delivery(t=place.sink("u"))
    narrow = STREAM.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), most=ps.max("v"))
    with pytest.raises(SinkError, match="lacks 'most'"):
        place.sink().open(Target("x", "v", narrow, fed.store))


def test_a_server_that_is_killed_has_each_pane_once(feed, monkeypatch):
    server = Postgres().start()
    try:
        monkeypatch.setenv("DB_PASSWORD", PASSWORD)
        place = Place("postgresql", f"jdbc:postgresql://127.0.0.1:{server.port}/postgres", "penstock", "DB_PASSWORD")
        fed = feed(LIVE)
        delivery = fed.delivery({"retry": (0.0, 0.0)}, p=place.sink("p", mode="panes", rows_per_transaction=4))
        for number in range(3):
            fed.step(3)
            killer = threading.Timer(0.02 * number, server.kill)
            killer.start()
            delivery.deliver()
            killer.join()
            delivery.deliver()
            server.start()
        for _ in range(3):  # the first may still find the connection that was lost
            delivery.drain(60)
        assert delivery.failures == {}
        delivery.close()
        assert [row[0] for row in server.rows("SELECT pane FROM p ORDER BY pane")] == fed.ids()
    finally:
        server.close()


def test_no_password_is_shown(feed, place):
    url = "jdbc:postgresql://127.0.0.1:1/x?user=u&password=do-not-tell"
    sink = to_jdbc("t", url=url, jar=place.jar)
    assert repr(sink).startswith("ps.to_jdbc('t', url='jdbc:postgresql://127.0.0.1:1/x?user=u&password=…', jar=")
    with pytest.raises(SinkError) as told:
        feed().delivery(t=sink)
    assert "do-not-tell" not in str(told.value)


def test_what_makes_no_sense_is_refused():
    for given in ({"url": "h2:x"}, {"url": "jdbc:h2:x", "table": "a; b"}, {"url": "jdbc:h2:x", "secret": "a-b"}):
        with pytest.raises(DefinitionError):
            to_jdbc(given.pop("table", "t"), **given)
    sink = to_jdbc("t", url="jdbc:h2:x", jar="h2.jar", user="u", secret="S", create=False, mode="panes")
    assert eval(repr(sink)) == sink
