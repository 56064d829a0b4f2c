"""Lines from a real socket: JSON, CSV and text; malformed ones are dead letters; a restart begins anew."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.runtime.run import Run

pytestmark = pytest.mark.xdist_group("spark")
SCHEMA = "page string, ms int, at timestamp"


class Server:
    """Sends lines to whoever connects: to each one those that were given after the one before left."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._client: socket.socket | None = None
        self._connected = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with self._connected:
                self._client = client
                self._connected.notify_all()

    def send(self, *lines: str) -> None:
        with self._connected:
            assert self._connected.wait_for(lambda: self._client is not None, 60)
            assert self._client is not None
            self._client.sendall("".join(line + "\n" for line in lines).encode())

    def hang_up(self) -> None:
        with self._connected:
            if self._client is not None:
                self._client.close()
            self._client = None

    def close(self) -> None:
        self.hang_up()
        self._server.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def make(server: Server, format: str, schema: str = SCHEMA, max_line: int = 1000) -> App:
    app = App("sockets")
    stream = app.stream(
        "lines", ps.socket("127.0.0.1", server.port, format=format, max_line=max_line), schema=schema, event_time="at",
        watermark=ps.bounded("10 seconds"), max_ahead=None,
    )  # fmt: skip
    first = schema.split()[0]
    app.view("counts", stream.group_by(first).agg(n=ps.count()))
    return app


def started(app: App, tmp_path: Path, spark) -> Run:
    return app.start(tmp_path / "state", spark=spark, tick=3600.0)


def wait_for(run: Run, sql: str, expected: list[tuple]) -> None:
    """Waits for an answer: Spark does not say that it has read all that a socket was sent."""
    for _ in range(600):
        if run.store.query(sql).rows() == expected:
            return
        run.wait(0.1)
    assert run.store.query(sql).rows() == expected


def test_lines_of_json_count_and_malformed_ones_are_dead_letters(server, tmp_path, spark):
    run = started(make(server, "json"), tmp_path, spark)
    try:
        server.send(
            '{"page": "/a", "ms": 1, "at": "2024-05-01T12:00:00Z"}', "no json at all", "",
            '{"page": "/a", "ms": "many", "at": "2024-05-01T12:00:00Z"}',
            '{"page": "/b", "ms": 1, "at": "2024-05-01T12:00:01Z"}', '{"page": "' + "x" * 2000 + '"}',
        )  # fmt: skip
        wait_for(run, "SELECT page, n FROM counts ORDER BY page", [("/a", 1), ("/b", 1)])
        dead = run.store.query("SELECT row, reason FROM __refused WHERE kind = 'dead' ORDER BY row").rows()
        assert [row for row, _ in dead] == [
            "no json at all", '{"page": "/a", "ms": "many", "at": "2024-05-01T12:00:00Z"}', '{"page": "' + "x" * 990,
        ]  # fmt: skip
        assert dead[2][1] == "the line has 2012 bytes, more than max_line = 1000"
    finally:
        run.stop()


def test_lines_of_csv_have_their_columns_by_place_whatever_is_needed(server, tmp_path, spark):
    run = started(make(server, "csv", "page string, at timestamp, ms int"), tmp_path, spark)
    try:
        server.send('"/a,1",2024-05-01T12:00:00Z,5', "/b,2024-05-01T12:00:00Z,many", "/b,2024-05-01T12:00:01Z,6")
        wait_for(run, "SELECT page, n FROM counts ORDER BY page", [("/a,1", 1), ("/b", 1)])
        assert run.store.query("SELECT row FROM __refused").rows() == [("/b,2024-05-01T12:00:00Z,many",)]
    finally:
        run.stop()


def test_lines_of_text_come_with_the_time_at_which_they_came_and_a_restart_begins_anew(server, tmp_path, spark):
    def again() -> Run:
        return started(make(server, "text", "line string, at timestamp"), tmp_path, spark)

    run = again()
    try:
        server.send("a", "b", "x" * 2000, "a")
        wait_for(run, "SELECT line, n FROM counts ORDER BY line", [("a", 2), ("b", 1)])
    finally:
        run.stop()
    server.hang_up()
    run = again()
    try:
        server.send("b", "c")
        wait_for(run, "SELECT line, n FROM counts ORDER BY line", [("a", 2), ("b", 2), ("c", 1)])
        run.add_view("all_lines", run.views["counts"].plan.view.input.group_by().agg(n=ps.count()))  # type: ignore[attr-defined]
        server.send("d")
        wait_for(run, "SELECT n FROM all_lines", [(1,)])
    finally:
        run.stop()


def test_what_cannot_be_is_refused():
    with pytest.raises(DefinitionError, match="unknown format of lines"):
        ps.socket("localhost", 9999, format="jsonl")
    with pytest.raises(DefinitionError, match="max_line must be above zero"):
        ps.socket("localhost", 9999, max_line=0)
    with pytest.raises(DefinitionError, match="cannot be a port"):
        ps.socket("localhost", 99999)
    stream = ps.stream("s", ps.socket("localhost", 9999, format="text"), schema="a string, b string")
    with pytest.raises(DefinitionError, match="do not fit the schema"):
        stream.log.check(stream.schema)  # type: ignore[union-attr]


def test_explain_says_that_a_socket_cannot_be_read_again():
    stream = ps.stream("s", ps.socket("localhost", 9999), schema="a string")
    assert "replay        none" in stream.group_by("a").agg(n=ps.count()).explain()
    replayed = ps.stream("s", ps.files("in"), schema="a string")
    assert "replay" not in replayed.group_by("a").agg(n=ps.count()).explain()
