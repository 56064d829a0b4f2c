"""How a task that runs a loop alone asks for what is kept of keys: the driver answers, from the store.

The rounds of a small epoch are so the work of one task, and of one job. Which keys a round reaches is known only when
the round before is done; a job for each would cost more than all that it does.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import TYPE_CHECKING, Final

import polars as pl

from penstock.engine.loop_machine import Fetch
from penstock.engine.records import pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: So many seconds a task waits for the driver before it gives its work back.
_PATIENT: Final = 5.0
_LOCAL: Final = "127.0.0.1"


class Unreachable(Exception):
    """A task cannot reach the driver, or the driver cannot answer."""


@dataclass(frozen=True)
class Address:
    """Where the driver answers; whoever has not the word is not answered."""

    host: str
    port: int
    word: bytes

    @contextmanager
    def asking(self) -> Iterator[Fetch]:
        """Asks for keys, for as long as the loop runs."""
        try:
            socket.create_connection((self.host, self.port), timeout=_PATIENT).close()
            connection = Client((self.host, self.port), authkey=self.word)
        except (OSError, EOFError) as error:
            raise Unreachable(f"the driver at {self.host} does not answer: {error}") from error
        with closing(connection):
            yield lambda keys: _asked(connection, keys)


def _asked(connection: Connection, keys: pl.Series) -> pl.DataFrame:
    try:
        connection.send_bytes(pack(keys.alias("key").to_frame()))
        return unpack(connection.recv_bytes())
    except (OSError, EOFError) as error:
        raise Unreachable(f"the driver has not answered: {error}") from error


class Answering:
    """Answers tasks while an epoch runs."""

    def __init__(self, fetch: Fetch, host: str, bind: str) -> None:
        self._fetch, self._word = fetch, secrets.token_bytes(32)
        self._listener = Listener((bind, 0), authkey=self._word)
        self._host, self._over = host, threading.Event()
        self.failure: BaseException | None = None  # why the store could not answer
        self._thread = threading.Thread(target=self._listen, name="penstock-loop-memory", daemon=True)
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
            threading.Thread(target=self._answer, args=(connection,), name="penstock-loop-task", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with closing(connection):
            while not self._over.is_set():
                try:
                    asked = connection.recv_bytes()
                except (OSError, EOFError):
                    return
                try:
                    connection.send_bytes(pack(self._fetch(unpack(asked)["key"])))
                except BaseException as error:
                    self.failure = error
                    return

    def close(self) -> None:
        self._over.set()
        host, port = self._listener.address
        with closing(socket.socket()) as last:  # wakes the one who listens
            last.settimeout(_PATIENT)
            last.connect_ex((host, port))
        self._listener.close()
        self._thread.join(_PATIENT)


@contextmanager
def answering(spark: SparkSession, fetch: Fetch) -> Iterator[Answering]:
    """The driver answers tasks of this session, wherever they run."""
    host = bind = _LOCAL
    if not str(spark.sparkContext.master).startswith("local"):
        host = spark.conf.get("spark.driver.host") or socket.gethostname()
        bind = spark.conf.get("spark.driver.bindAddress", host) or host
    made = Answering(fetch, host, bind)
    try:
        yield made
    finally:
        made.close()
