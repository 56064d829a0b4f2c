"""Calls to the driver: another process of the app asks, the driver answers. Bytes go both ways.

Processes that only Spark starts import this: it must load fast.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from multiprocessing.context import AuthenticationError
from typing import Final, TypeAlias

from penstock.descriptors import Listener

#: Seconds in which a connection must be made, and in which it must show that it has the secret.
PATIENT: Final = 5.0
#: How many connections may be authenticating; with one more, the oldest of them is closed.
PENDING: Final = 64
#: Seconds between two looks at those that take too long.
_LOOK: Final = 0.5
LOCAL: Final = "127.0.0.1"
Ask: TypeAlias = Callable[[bytes], bytes]


class Unreachable(Exception):
    """A process cannot reach the driver, or the driver cannot answer."""


@dataclass(frozen=True)
class Address:
    """Where the driver answers. Requests without the secret are rejected."""

    host: str
    port: int
    secret: bytes

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """A connection, for as long as it is needed."""
        with closing(self.connect()) as connection:
            yield lambda question: asked(connection, question)

    def connect(self) -> Connection:
        try:
            made = socket.create_connection((self.host, self.port), timeout=PATIENT)
            made.settimeout(None)
            connection = Connection(made.detach())
            if not connection.poll(PATIENT):
                connection.close()
                raise TimeoutError(f"silent for {PATIENT:g} s")
            answer_challenge(connection, self.secret)
            deliver_challenge(connection, self.secret)
        except (OSError, EOFError, AuthenticationError) as error:
            raise Unreachable(f"the driver at {self.host} does not answer: {error}") from error
        return connection


def asked(connection: Connection, question: bytes) -> bytes:
    """What the driver answers."""
    try:
        connection.send_bytes(question)
        return connection.recv_bytes()
    except (OSError, EOFError) as error:
        raise Unreachable(f"the driver has not answered: {error}") from error


class RpcServer:
    """Answers clients that have the secret, each connection on a thread of its own, until it is closed.

    The thread that accepts never reads: a connection that is silent holds up nobody, and is ended after a while.
    """

    def __init__(self, answer: Ask, name: str, host: str = LOCAL, bind: str = LOCAL, patience: float = PATIENT) -> None:
        self._answer, self._secret, self._patience = answer, secrets.token_bytes(32), patience
        self._listener = Listener(socket.AF_INET6 if ":" in bind else socket.AF_INET)
        self._listener.bind((bind, 0))
        self._listener.listen()
        self._listener.settimeout(_LOOK)
        self._name, self._host, self._over = name, host, threading.Event()
        self._pending: dict[socket.socket, float] = {}  # connections without the secret so far, the oldest first
        self._lock = threading.Lock()
        self.failure: BaseException | None = None  # why there was no answer
        self._thread = threading.Thread(target=self._listen, name=f"penstock-{name}", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        return Address(self._host, int(self._listener.getsockname()[1]), self._secret)

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                made, _ = self._listener.accept()
            except TimeoutError:
                made = None
            except OSError:  # too many open files, or one that has gone already
                self._over.wait(_LOOK)
                made = None
            self._end_pending()
            if made is not None:
                made.settimeout(None)
                with self._lock:
                    self._pending[made] = time.monotonic() + self._patience
                threading.Thread(
                    target=self._serve, args=(made,), name=f"penstock-{self._name}-rpc", daemon=True
                ).start()

    def _end_pending(self) -> None:
        """Ends connections that are about to show the secret for too long, and the oldest where there are too many."""
        now = time.monotonic()
        with self._lock:
            oldest = list(self._pending)[: max(0, len(self._pending) - PENDING + 1)]
            for made in {*oldest, *(made for made, deadline in self._pending.items() if deadline < now)}:
                del self._pending[made]
                with suppress(OSError):
                    made.shutdown(socket.SHUT_RDWR)  # its thread reads the end

    def _serve(self, made: socket.socket) -> None:
        with made, closing(Connection(os.dup(made.fileno()))) as connection:
            try:
                deliver_challenge(connection, self._secret)
                answer_challenge(connection, self._secret)
            except (OSError, EOFError, AuthenticationError):
                return
            finally:
                with self._lock:
                    self._pending.pop(made, None)
            is_last = False
            while not is_last:
                is_last = self._over.is_set()  # a client that asks after the end gets one more answer
                try:
                    question = connection.recv_bytes()
                except (OSError, EOFError):
                    return
                try:
                    connection.send_bytes(self._answer(question))
                except BaseException as error:
                    self.failure = error
                    return

    def close(self) -> None:
        if self._over.is_set():
            return
        self._over.set()
        with closing(socket.socket(self._listener.family)) as last:  # wakes the thread that accepts
            last.settimeout(PATIENT)
            last.connect_ex(self._listener.getsockname())
        self._thread.join(PATIENT)
        self._listener.close()
        with self._lock:
            for made in self._pending:
                with suppress(OSError):
                    made.shutdown(socket.SHUT_RDWR)
