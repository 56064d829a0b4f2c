"""Attacks on the channels inside an app: calls to the driver, and the socket of the shells."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.control import Client
from penstock.control.protocol import Reply
from penstock.control.server import Server
from penstock.errors import PenstockError
from penstock.runtime import rpc
from penstock.runtime.rpc import Address, RpcServer, Unreachable


@pytest.fixture
def driver() -> Iterator[RpcServer]:
    server = RpcServer(lambda question: question[::-1], "test")
    yield server
    server.close()


def answers(address: Address) -> bool:
    with address.asking() as ask:
        return ask(b"abc") == b"cba"


def test_who_has_not_the_secret_is_not_answered(driver: RpcServer) -> None:
    """Calls the driver without its secret: rejected, and others are answered."""
    address = driver.address
    stranger = Address(address.host, address.port, b"another secret")
    with pytest.raises(Unreachable, match="digest"), stranger.asking():
        raise AssertionError
    assert answers(address)
    driver.close()
    with pytest.raises(Unreachable), address.asking():
        raise AssertionError


@pytest.mark.parametrize(
    "sent", [b"", b"\0", b"\0\0\0\x14", b"\0\0\0\x14#CHAL", b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_a_silent_connection_holds_up_nobody(driver: RpcServer, sent: bytes) -> None:
    """Connects to the driver's channel and says nothing, or half a message: others are answered at once."""
    with ExitStack() as stack:
        for _ in range(3):
            made = stack.enter_context(socket.create_connection((driver.address.host, driver.address.port)))
            made.sendall(sent)
        assert answers(driver.address)


def test_silent_connections_are_bounded(driver: RpcServer) -> None:
    """Opens hundreds of silent connections to the driver's channel: the oldest are ended, and others are answered."""
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((driver.address.host, driver.address.port)))
            for _ in range(rpc.PENDING * 3)
        ]
        assert answers(driver.address)
        assert len(driver._pending) <= rpc.PENDING
        silent[0].settimeout(10)
        while silent[0].recv(4096):  # a challenge, then the end
            pass


def test_silent_connections_are_ended() -> None:
    """Drips bytes into the driver's channel without end: ended after five seconds."""
    server = RpcServer(lambda question: question, "test", patience=0.1)
    try:
        with socket.create_connection((server.address.host, server.address.port), timeout=10) as made:
            made.sendall(b"\0")
            while made.recv(4096):
                pass
    finally:
        server.close()


def test_the_shells_socket_is_bounded(tmp_path: Path) -> None:
    """Opens silent connections to the shells' socket: shells are answered up to the limit, others are refused."""
    server = Server("app", tmp_path, lambda sql, file: Reply(message=sql), connections=5)
    try:
        with ExitStack() as stack:
            shells = [Client(tmp_path) for _ in range(6)]
            for shell in shells:
                stack.callback(shell.close)
            for shell in shells[:4]:
                assert shell.is_there  # connected, and silent
            assert shells[4].ask("hello").message == "hello"
            with pytest.raises(PenstockError):
                shells[5].ask("hello")
    finally:
        server.close()


def test_the_shells_socket_is_private(tmp_path: Path) -> None:
    """Connects to the shells' socket as another user: its directory is closed to others."""
    server = Server("app", tmp_path, lambda sql, file: Reply(message=sql))
    try:
        from penstock.control.address import read

        found = read(tmp_path)
        assert found is not None
        assert Path(found.socket).parent.stat().st_mode & 0o077 == 0
        assert (tmp_path / "control.json").stat().st_mode & 0o077 == 0
    finally:
        server.close()
