"""The side of the app: takes statements at its socket, one at a time from each connection."""

from __future__ import annotations

import os
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path

from penstock.control import address
from penstock.control.address import Address
from penstock.control.protocol import LONGEST, Reply, failure, requested
from penstock.errors import PenstockError

#: What runs a statement of a file, where there is one.
Execute = Callable[[str, str | None], Reply]


class Server:
    """Listens for an app that runs in a directory. A request is text of SQL, and is never run as anything else."""

    def __init__(self, app: str, directory: Path, execute: Execute) -> None:
        self._directory = directory
        address.clear(directory)  # the store's lock is ours: whoever wrote it is gone
        path = address.place()
        self._server = _Listener(str(path), execute)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="penstock-control")
        self._thread.daemon = True
        self._thread.start()
        address.write(directory, Address(app, os.getpid(), str(path)))

    def close(self) -> None:
        """Takes no more statements."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        address.clear(self._directory)


class _Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False  # a shell may stay connected

    def __init__(self, path: str, execute: Execute) -> None:
        self.execute = execute
        super().__init__(path, _Connection)


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

    def _answer(self, line: bytes) -> bytes:
        try:
            sql, file = requested(line)
            return self.server.execute(sql, file).line()
        except PenstockError as error:
            return failure(error)
        except Exception as error:  # the app goes on, whatever a statement does
            said = (str(error).strip().splitlines() or [""])[0]
            return failure(PenstockError(f"{type(error).__name__}: {said[:500]}"))
