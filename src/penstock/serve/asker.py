"""A process that queries a store for a server: queries on standard input, answers on standard output.

It is a process of its own so that a query can be stopped or killed, and takes nothing from the app: no lock, no
thread, little memory. It opens the store for reading only, and nothing in here can write. It is run as a file, without
the rest of Penstock, so that it starts in no time: `python asker.py STORE APPLICATION_ID BYTES`.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import struct
import sys
import time
from typing import Any, BinaryIO, Final, Protocol

import msgpack

_LENGTH: Final = struct.Struct(">I")
#: What a statement may do.
_READS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
     sqlite3.SQLITE_TRANSACTION}
)  # fmt: skip
#: The longest text, the longest statement and the longest pattern that SQLite takes.
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: 16 << 20, sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500, sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}  # fmt: skip


class Failed(Exception):
    """A question that has no answer: the kind of failure, and what to say."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Asker:
    """Answers questions from one store."""

    def __init__(self, path: str, application: int, largest: int) -> None:
        self._path, self._application, self._largest = path, application, largest
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._until = 0.0

    def answer(self, questions: list[list[Any]], seconds: float) -> list[Any]:
        """For each question (text, parameters, most rows): names of columns, rows, and whether there are more.

        All see the same commit.
        """
        connection = self._connected()
        self._until = time.monotonic() + seconds
        try:
            connection.execute("BEGIN")
            try:
                return [self._one(connection, *question) for question in questions]
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise Failed("time", f"it takes longer than {seconds:g} s") from None
            if "no such table" in str(error) and "__" in str(error):
                raise Failed("absent", str(error)) from None
            raise Failed("sql", str(error)) from None
        except sqlite3.Error as error:
            raise Failed("sql", str(error)) from None
        except MemoryError:
            raise Failed("large", "it takes too much memory") from None

    def _one(self, connection: sqlite3.Connection, text: str, parameters: list[Any], most: int) -> Any:
        # SQLite takes NaN for null; the store shows it as text.
        cursor = connection.execute(text, ["NaN" if value != value else value for value in parameters])
        try:
            names = [column[0] for column in cursor.description or ()]
            rows: list[Any] = []
            size = 0
            for row in cursor:
                if len(rows) == most:
                    return names, rows, True
                size += sum(len(v) if isinstance(v, str | bytes) else 9 for v in row)
                if size > self._largest:
                    raise Failed("large", f"the answer is larger than {self._largest} bytes")
                rows.append(row)
            return names, rows, False
        finally:
            cursor.close()

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file that is there now: it may have been replaced."""
        try:
            status = os.stat(self._path)
        except OSError:
            raise Failed("absent", "there is no store yet") from None
        place = (status.st_dev, status.st_ino)
        if self._connection is None or place != self._place:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._connection, self._place = self._open(), place
        return self._connection

    def _open(self) -> sqlite3.Connection:
        try:
            return self._opened("ro")
        except sqlite3.Error as error:
            # To follow a writer's log takes write access beside it; a store without a log has no writer.
            if os.path.exists(f"{self._path}-wal"):
                raise Failed("absent", f"the store cannot be opened: {error}") from None
        try:
            return self._opened("ro&immutable=1")
        except sqlite3.Error as error:
            raise Failed("absent", f"the store cannot be opened: {error}") from None

    def _opened(self, mode: str) -> sqlite3.Connection:
        from urllib.parse import quote

        connection = sqlite3.connect(f"file:{quote(self._path)}?mode={mode}", uri=True, isolation_level=None)
        connection.execute("PRAGMA busy_timeout = 2000")
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA trusted_schema = 0")
        connection.execute("PRAGMA cache_size = -32768")
        if connection.execute("PRAGMA application_id").fetchone()[0] != self._application:
            connection.close()
            raise Failed("absent", "this is not a store of Penstock")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(_allowed)
        connection.set_progress_handler(self._is_over, 2000)
        return connection

    def _is_over(self) -> int:
        return int(time.monotonic() > self._until)


def _allowed(action: int, *about: object) -> int:
    if action == sqlite3.SQLITE_FUNCTION and about[1] == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


class Answering(Protocol):
    """Answers questions from one store."""

    def answer(self, questions: list[list[Any]], seconds: float) -> list[Any]: ...


def serve(asker: Answering, asked: BinaryIO, answers: BinaryIO) -> None:
    """Answers until the other side is gone."""
    while len(head := asked.read(_LENGTH.size)) == _LENGTH.size:
        questions, seconds = msgpack.unpackb(asked.read(_LENGTH.unpack(head)[0]))
        try:
            answer: Any = {"answers": asker.answer(questions, seconds)}
        except Failed as error:
            answer = {"failed": error.kind, "text": str(error)}
        packed = msgpack.packb(answer, unicode_errors="surrogateescape")
        answers.write(_LENGTH.pack(len(packed)) + packed)
        answers.flush()


def main() -> None:
    """One process for one store. It may use a gigabyte, and ends when its server does."""
    path, application, largest = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    serve(Asker(path, int(application), int(largest)), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
