"""The side of the app: takes statements at its socket, one at a time from each connection."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.control import address
from penstock.control.address import Address
from penstock.control.protocol import LONGEST, Reply, asked_task, failure, progress_line, requested
from penstock.control.works import LISTENER
from penstock.errors import PenstockError
from penstock.history.batch.generation import Progress

_PATIENCE = 5.0
#: Seconds until the next try where a connection could not be accepted.
_PAUSE = 0.2
#: What runs a statement of a file, where there is one.
Execute = Callable[[str, str | None], Reply]
#: What does a task by its name, with what it is given.
Do = Callable[[str, dict[str, Any]], Reply]


class Server:
    """Listens for an app that runs in a directory. A request is text of SQL, or names a task that the app knows.

    Up to `connections` may be open at a time; shells may stay connected.
    """

    def __init__(
        self, app: str, directory: Path, execute: Execute, do: Do | None = None, connections: int = 100
    ) -> None:
        self._directory = directory
        address.clear(directory)  # the store's lock is ours: the process that wrote it is gone
        path = address.place()
        self._server = _Listener(str(path), execute, do, connections)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="penstock-control")
        self._thread.daemon = True
        self._thread.start()
        address.write(directory, Address(app, os.getpid(), str(path)))

    def close(self) -> None:
        """Takes no more statements."""
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._thread.join()
        address.clear(self._directory, of=os.getpid())  # not that of a process that has taken over


class _Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False  # a shell may stay connected

    def __init__(self, path: str, execute: Execute, do: Do | None, most: int) -> None:
        self.execute, self.do, self._most = execute, do, most
        self._open: set[socket.socket] = set()
        self._gone = threading.Condition()
        super().__init__(path, _Connection)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:  # too many open files: clients that wait stay in the queue
            time.sleep(_PAUSE)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        if len(self._open) < self._most:
            return True
        with suppress(OSError):
            request.sendall(failure(PenstockError(f"{self._most} shells are connected, which is the limit")))
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._gone:
            self._open.discard(request)
            self._gone.notify_all()

    def hang_up(self) -> None:
        """Ends the connections; an answer that is on its way still gets there, if it does not take too long."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        with self._gone:
            self._gone.wait_for(lambda: not self._open, _PATIENCE)


class _Connection(socketserver.StreamRequestHandler):
    server: _Listener

    def handle(self) -> None:
        """Answers line by line until the other side is gone."""
        while line := self.rfile.readline(LONGEST):
            try:
                self.wfile.write(self._answer(line))
            except (BrokenPipeError, ConnectionResetError):
                return
            if len(line) >= LONGEST:
                return  # what follows is the rest of a line

    def _tell(self, progress: Progress) -> None:
        """Sends progress; the client may have gone, and the work goes on."""
        with suppress(OSError):
            self.wfile.write(progress_line(progress))

    def _answer(self, line: bytes) -> bytes:
        LISTENER.set(self._tell)
        try:
            task = asked_task(line)
            if task is not None and self.server.do is not None:
                return self.server.do(*task).line()
            sql, file = requested(line)
            return self.server.execute(sql, file).line()
        except PenstockError as error:
            return failure(error)
        except Exception as error:  # the app goes on, whatever a statement does
            reason = (str(error).strip().splitlines() or [""])[0]
            return failure(PenstockError(f"{type(error).__name__}: {reason[:500]}"))
