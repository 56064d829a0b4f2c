"""Brokers that do not answer are reported with their address, before Spark is started."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import PenstockError
from penstock.runtime import workspace
from penstock.sources.kafka import reach
from penstock.sources.kafka.reach import check_answer

SHORT = 0.3


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that does so with each connection, and keeps it open until the end."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                    connections.append(connection)
                    answer(connection)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in connections:
        connection.close()


def silent(connection: socket.socket) -> None:
    """Takes a connection and never says anything."""


def as_kafka(connection: socket.socket) -> None:
    """Repeats the request's number, as a broker does."""
    request = connection.recv(100)
    connection.sendall(struct.pack(">i", 6) + request[8:12] + b"\0\0")


def refusal(servers: str, protocol: str = "PLAINTEXT") -> PenstockError:
    with pytest.raises(PenstockError) as refused:
        check_answer(servers, protocol, SHORT)
    return refused.value


def test_a_broker_that_answers_is_taken_also_behind_others_that_do_not():
    with listening(as_kafka) as broker, listening(silent) as other:
        check_answer(broker)
        check_answer(f"127.0.0.1:{free_port()},{other},{broker}", patience=2.0)


def test_a_port_where_nothing_listens_is_reported_with_its_address():
    servers = f"127.0.0.1:{free_port()}"
    error = refusal(servers)
    assert error.message == f"no Kafka broker answers at '{servers}'"
    assert error.detail == f"{servers}: Connection refused"
    assert "PENSTOCK_KAFKA_SERVERS" in str(error.hint)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_a_server_that_takes_connections_and_never_answers_is_reported(protocol: str):
    with listening(silent) as servers:
        assert refusal(servers, protocol).detail == f"{servers}: no answer in time"


def test_a_server_that_is_not_kafka_or_wants_tls_is_reported():
    with listening(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")) as servers:
        assert "not with the Kafka protocol" in str(refusal(servers).detail)
    with listening(lambda connection: (connection.recv(100), connection.shutdown(socket.SHUT_RDWR))) as servers:
        assert "closed the connection" in str(refusal(servers).detail)


def test_a_broker_that_refuses_our_side_of_tls_has_answered():
    with listening(
        lambda connection: (connection.recv(1000), connection.sendall(b"\x15\x03\x03\x00\x02\x02\x28"))
    ) as servers:
        check_answer(servers, "SSL")


def test_an_address_without_a_port_is_refused():
    assert refusal("broker").message == "not the address of a Kafka broker: 'broker'"


def test_an_app_whose_broker_does_not_answer_ends_before_spark_is_started(tmp_path: Path, monkeypatch: Any):
    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(workspace, "spark_session", started)
    monkeypatch.setattr(reach, "PATIENCE", SHORT)
    with listening(silent) as servers:
        app = ps.App("shop")
        visits = app.stream("visits", ps.kafka("visits", servers=servers), schema="page string")
        app.view("by_page", visits.group_by("page").agg(n=ps.count()))
        for _ in range(2):  # the store is free again after the first
            with pytest.raises(PenstockError, match=f"no Kafka broker answers at '{servers}'"):
                app.start(tmp_path)
