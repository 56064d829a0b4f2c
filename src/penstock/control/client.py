"""The side of a shell: sends statements to the app that runs in a directory."""

from __future__ import annotations

import socket
from pathlib import Path

from penstock.control import address
from penstock.control.protocol import Reply, request
from penstock.errors import PenstockError


class NoApp(PenstockError):
    """No app runs in the directory."""


class Client:
    """Speaks to whatever app runs in a directory; connects anew where another one has taken over."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._socket: socket.socket | None = None

    @property
    def is_there(self) -> bool:
        """Whether an app listens."""
        try:
            self._connect()
        except NoApp:
            return False
        return True

    def ask(self, sql: str, file: str | None = None) -> Reply:
        """Has a statement run by the app."""
        connection = self._connect()
        try:
            return Reply.read(_exchange(connection, request(sql, file)))
        except ConnectionError as error:
            self.close()
            raise NoApp(
                "the app has ended before it answered", hint="start it again, and see with SHOW what it has taken"
            ) from error

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        if self._socket is not None and not _has_ended(self._socket):
            return self._socket
        self.close()
        found = address.read(self.directory)
        start = f"start it: penstock run app.sql --dir {self.directory}; without a file it begins empty"
        if found is None:
            raise NoApp(f"no app runs in «{self.directory}»", hint=start)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(found.socket)
        except OSError:
            connection.close()
            raise NoApp(
                f"no app runs in «{self.directory}»",
                detail=f"the last one, «{found.app}» in process {found.pid}, has ended without cleaning up", hint=start,
            ) from None  # fmt: skip
        self._socket = connection
        return connection


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other side is gone: it never speaks first."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _exchange(connection: socket.socket, line: bytes) -> bytes:
    connection.sendall(line)
    found = bytearray()
    while not found.endswith(b"\n"):
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionResetError
        found += part
    return bytes(found)
