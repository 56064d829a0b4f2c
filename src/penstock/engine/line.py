"""A line to the driver: another process of the app asks, the driver answers. Bytes go to and fro.

Processes that only Spark starts import this: it must load in no time.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import Final, TypeAlias

#: So many seconds a process waits for the driver to take the line.
PATIENT: Final = 5.0
LOCAL: Final = "127.0.0.1"
Ask: TypeAlias = Callable[[bytes], bytes]


class Unreachable(Exception):
    """A process cannot reach the driver, or the driver cannot answer."""


@dataclass(frozen=True)
class Address:
    """Where the driver answers; whoever has not the word is not answered."""

    host: str
    port: int
    word: bytes

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """The line, for as long as it is needed."""
        with closing(self.connect()) as connection:
            yield lambda question: asked(connection, question)

    def connect(self) -> Connection:
        try:
            socket.create_connection((self.host, self.port), timeout=PATIENT).close()
            return Client((self.host, self.port), authkey=self.word)
        except (OSError, EOFError) as error:
            raise Unreachable(f"the driver at {self.host} does not answer: {error}") from error


def asked(connection: Connection, question: bytes) -> bytes:
    """What the driver says."""
    try:
        connection.send_bytes(question)
        return connection.recv_bytes()
    except (OSError, EOFError) as error:
        raise Unreachable(f"the driver has not answered: {error}") from error


class Answering:
    """Answers whoever has the word, each on a thread of its own, until it is closed."""

    def __init__(self, answer: Ask, name: str, host: str = LOCAL, bind: str = LOCAL) -> None:
        self._answer, self._word = answer, secrets.token_bytes(32)
        self._listener = Listener((bind, 0), authkey=self._word)
        self._name, self._host, self._over = name, host, threading.Event()
        self.failure: BaseException | None = None  # why there was no answer
        self._thread = threading.Thread(target=self._listen, name=f"penstock-{name}", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        return Address(self._host, int(self._listener.address[1]), self._word)

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                connection = self._listener.accept()
            except Exception:  # one that only looked, or had not the word
                continue
            threading.Thread(
                target=self._serve, args=(connection,), name=f"penstock-{self._name}-line", daemon=True
            ).start()

    def _serve(self, connection: Connection) -> None:
        with closing(connection):
            while not self._over.is_set():
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
        self._over.set()
        host, port = self._listener.address
        with closing(socket.socket()) as last:  # wakes the one who listens
            last.settimeout(PATIENT)
            last.connect_ex((host, port))
        self._listener.close()
        self._thread.join(PATIENT)
