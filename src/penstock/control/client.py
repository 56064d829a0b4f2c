"""The side of a shell: sends statements to the app that runs in a directory."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from penstock.control import address
from penstock.control.protocol import Reply, read_progress, request, task
from penstock.errors import PenstockError
from penstock.history.batch.generation import OnProgress


class NoApp(PenstockError):
    """No app runs in the directory."""


class Client:
    """Talks to the app that runs in a directory; reconnects where another one has taken over."""

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

    def ask(self, sql: str, file: str | None = None, on_progress: OnProgress | None = None) -> Reply:
        """Has a statement run by the app. `on_progress` is called with the progress of one that takes long."""
        connection = self._connect()
        try:
            return Reply.read(_exchange(connection, request(sql, file), on_progress))
        except ConnectionError as error:
            self.close()
            raise NoApp(
                "the app has ended before it answered", hint="start it again, and see with SHOW what it has taken"
            ) from error

    def do(self, name: str, **arguments: object) -> Reply:
        """Has a task done by the app."""
        return self.watch(name, arguments)

    def watch(self, name: str, arguments: Mapping[str, object], on_progress: OnProgress | None = None) -> Reply:
        """The same; `on_progress` is called with its progress."""
        connection = self._connect()
        try:
            return Reply.read(_exchange(connection, task(name, arguments), on_progress))
        except ConnectionError as error:
            self.close()
            raise NoApp("the app has ended before it answered", hint="start it again") from error

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        if self._socket is not None and not _has_ended(self._socket):
            return self._socket
        self.close()
        target = address.read(self.directory)
        start = f"start it: penstock run app.sql --dir {self.directory}; without a file it begins empty"
        if target is None:
            raise NoApp(f"no app runs in '{self.directory}'", hint=start)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(target.socket)
        except OSError:
            connection.close()
            raise NoApp(
                f"no app runs in '{self.directory}'",
                detail=f"the last one, '{target.app}' in process {target.pid}, ended without cleaning up",
                hint=start,
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


def _exchange(connection: socket.socket, line: bytes, on_progress: OnProgress | None) -> bytes:
    """Sends a line; the answer is the first line that does not say how far things are."""
    connection.sendall(line)
    received = b""
    while True:
        answer, end, rest = received.partition(b"\n")
        if end:
            progress = read_progress(answer)
            if progress is None:
                return answer
            if on_progress is not None:
                on_progress(progress)
            received = rest
            continue
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionResetError
        received += part
