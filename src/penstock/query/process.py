"""A process that answers questions from one store: `python -m penstock.query.process DIRECTORY MEMORY BYTES`.

It is apart from the caller, so that planning and running have limits of time and memory of their own and can be
stopped. A frame is a length of four bytes and MessagePack. Requests come in at one end and answers go out at the other;
an empty frame stops the question that is being answered. When it is ready it writes one byte.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgpack

from penstock.errors import PenstockError
from penstock.query.answer import Answer
from penstock.query.ask import Questions
from penstock.query.errors import TooLarge, TooSlow
from penstock.query.forms import arrow_stream, csv_text, objects, rows
from penstock.query.limits import Limits
from penstock.query.lookups import Lookups
from penstock.query.parameters import bound
from penstock.store import Reader, StoreError
from penstock.store.key_lookup import UNUSED
from penstock.store.segment_scan import from_newest

LENGTH: Final = struct.Struct(">I")
#: Memory besides DuckDB's: for code, for planning, and for an answer on its way.
_BESIDES: Final = 1 << 30
#: A question that took longer, in seconds, would have been faster with an index, if it names a key.
_SLOW: Final = 0.02


class Process:
    """Answers requests one after the other; another thread reads them, and requests to stop one."""

    def __init__(self, directory: Path, memory: int, largest: int) -> None:
        self._questions = Questions(Reader(directory), Limits(memory=memory, threads=1))
        self._largest = largest
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._lookups = Lookups(self._questions.reader, largest, self._stop)
        self._planning = False

    def serve(self, requests: BinaryIO, answers: BinaryIO) -> None:
        """Answers until the other side is gone."""
        signal.signal(signal.SIGALRM, self._alarm)
        threading.Thread(target=self._read, args=(requests,), daemon=True).start()
        while (request := self._next()) is not None:
            packed = msgpack.packb(self._answer(msgpack.unpackb(request)), unicode_errors="surrogateescape")
            answers.write(LENGTH.pack(len(packed)) + packed)
            answers.flush()

    def _next(self) -> bytes | None:
        """The next request; None if the other side is gone."""
        try:
            return self._requests.get(timeout=UNUSED)
        except queue.Empty:
            self._lookups.forget()
            return self._requests.get()

    def _read(self, requests: BinaryIO) -> None:
        while len(head := requests.read(LENGTH.size)) == LENGTH.size:
            (length,) = LENGTH.unpack(head)
            if length:
                self._stop.clear()
                self._requests.put(requests.read(length))
            else:
                self._stop.set()
                self._questions.engine.interrupt()
                os.kill(os.getpid(), signal.SIGALRM)  # where it is being planned
        self._requests.put(None)

    def _alarm(self, number: int, frame: object) -> None:
        """Planning is stopped in the middle; what runs is stopped by the engine."""
        if self._planning:
            self._planning = False
            raise TooSlow("the query takes too long to plan", hint="ask for less")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if "questions" in request:
                return {"answers": self._lookups.answer(**request)}
            return from_newest(lambda: self._answered(**request))
        except TooSlow as error:
            return _failed("time", error)
        except TooLarge as error:
            return _failed("large", error)
        except StoreError as error:
            return _failed("store", error)
        except PenstockError as error:
            return _failed("sql", error)
        except RecursionError:
            return {"failed": "sql", "message": "the query is nested too deeply"}
        except MemoryError:
            return {"failed": "large", "message": "the query takes too much memory"}

    def _answered(self, sql: str, parameters: Any, most: int, seconds: float, form: str) -> dict[str, Any]:
        began = time.monotonic()
        until = began + seconds
        with self._questions.opened() as question:
            with self._timed(seconds):
                plan = question.plan(bound(sql, parameters))
            left = max(0.001, until - time.monotonic())
            answer = question.run(
                plan, Limits(self._questions.engine.limits.memory, 1, left, most, self._largest), self._stop
            )
        slow = time.monotonic() - began > _SLOW
        return {
            "body": body(answer, form),
            "commit": answer.commit,
            "more": answer.more,
            "indexes": question.indexes(plan) if slow else [],
        }

    @contextmanager
    def _timed(self, seconds: float) -> Iterator[None]:
        self._planning = True
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            if self._stop.is_set():
                raise TooSlow("the query was stopped")
            yield
        finally:
            self._planning = False
            signal.setitimer(signal.ITIMER_REAL, 0)


def body(answer: Answer, form: str) -> bytes:
    """An answer as it is sent."""
    if form == "arrow":
        return arrow_stream(answer.table)
    if form == "csv":
        return csv_text(answer.schema.names, rows(answer)).encode("utf-8", "replace")
    columns = [{"name": name, "type": kind} for name, kind in answer.schema]
    body = {"columns": columns, "rows": objects(answer), "more": answer.more, "commit": answer.commit}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


def _failed(kind: str, error: PenstockError) -> dict[str, Any]:
    return {"failed": kind, "message": error.message, "detail": error.detail, "hint": error.hint}


def main() -> None:
    """One process for one store. It ends with its caller."""
    directory, memory, largest = sys.argv[1:]
    most = int(memory) + _BESIDES
    process = Process(Path(directory), int(memory), int(largest))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    process.serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
