"""The processes that ask the store for a server: some for users' questions, one for the server's own."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgpack

from penstock.postgres import with_settings
from penstock.serve import asker, asker_postgres
from penstock.serve.errors import Answered
from penstock.serve.own_lookups import OwnLookups
from penstock.store.address import VARIABLE
from penstock.store.database import Database, PostgresSchema, SqliteFile, database_of
from penstock.store.reader import Reader
from penstock.store.scan import LAST_COMMIT
from penstock.store.segment_lookup import SegmentQuestion
from penstock.store.segments import FOLDER
from penstock.store.tables import APPLICATION

_LENGTH: Final = struct.Struct(">I")
#: Seconds after its time is over until a process that does not stop by itself is killed.
_GRACE: Final = 1.0
#: How many seconds a process may take to start.
_START: Final = 60.0
#: Limits of the server's own questions: seconds and rows.
_OWN_SECONDS, _OWN_ROWS = 20.0, 200_000


@dataclass(frozen=True)
class Question:
    """A statement with its parameters; the answer has at most `most` rows."""

    text: str
    parameters: Sequence[object] = ()
    most: int = _OWN_ROWS


#: The last commit, asked in the same moment as rows.
LAST: Final = Question(LAST_COMMIT, most=1)


@dataclass(frozen=True)
class ResultRows:
    """An answer. `more`: there are more rows than were wanted."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool


@dataclass(frozen=True)
class Select:
    """A SELECT over views with its parameters; the answer has at most `most` rows, as json, csv or arrow."""

    sql: str
    parameters: Mapping[str, object] | Sequence[object] = ()
    most: int = _OWN_ROWS
    form: str = "json"


@dataclass(frozen=True)
class SelectAnswer:
    """The answer to a SELECT, as it is sent. `indexes`: views with the keys by which it would have been faster."""

    body: bytes
    commit: int
    more: bool
    indexes: list[tuple[str, list[str]]]


class Askers:
    """Asks a store. At most `waiting` questions wait for a process that is free.

    Lookups go to small processes that know nothing but the database. A SELECT, and lookups in segments, go to processes
    that can plan and read segments. Lookups by whole key in segments are answered at once, if the store is a file.
    """

    def __init__(self, directory: Path, *, processes: int, largest: int, waiting: int, memory: int = 512 << 20) -> None:
        self.database = database_of(directory)
        #: The folder of segments and of files with panes.
        self.segments_at = str(directory / FOLDER)
        command = _command(self.database, largest)
        self._own = _Pool(command, 1, 10_000)
        self._users = _Pool(command, processes, waiting)
        selecting = _selecting(directory, self.database, memory, largest)
        self._selects = _Pool(selecting, processes, waiting)
        self._segments = _Pool(selecting, processes, waiting)
        self._own_segments = _Pool(selecting, 1, 10_000)
        # A question to PostgreSQL waits for the network, for which requests must not wait in turn.
        is_here = isinstance(self.database, SqliteFile)
        self._own_lookups = OwnLookups(Reader(directory, self.database), largest) if is_here else None

    async def own(self, *questions: Question | SegmentQuestion) -> list[ResultRows]:
        """Runs queries of the server itself, which never wait for those of users."""
        return await self._rows(self._own, self._own_segments, questions, _OWN_SECONDS)

    async def ask(self, questions: Sequence[Question | SegmentQuestion], seconds: float) -> list[ResultRows]:
        """Asks for a user, who waits at most `seconds`."""
        return await self._rows(self._users, self._segments, questions, seconds)

    async def _rows(
        self, pool: _Pool, segments: _Pool, questions: Sequence[Question | SegmentQuestion], seconds: float
    ) -> list[ResultRows]:
        """Asks all at once, of one commit. If one question is about segments, a process that reads them answers all."""
        pages = self._by_whole_key(questions)
        if pages is not None:
            return pages
        asked = [_packed(question) for question in questions]
        if any(isinstance(question, SegmentQuestion) for question in questions):
            answer = await segments.ask({"questions": asked, "seconds": seconds}, seconds)
            if "failed" in answer:
                raise _refused(answer)
        else:
            answer = await pool.ask([asked, seconds], seconds)
            if "failed" in answer:
                raise _failure(answer["failed"], answer["text"])
        return [ResultRows(*answer) for answer in answer["answers"]]

    def _by_whole_key(self, questions: Sequence[Question | SegmentQuestion]) -> list[ResultRows] | None:
        """The answer to a lookup by whole key, with or without the last commit; None if a process has to answer."""
        first, *others = questions
        if self._own_lookups is None or not isinstance(first, SegmentQuestion) or others not in ([], [LAST]):
            return None
        pages = self._own_lookups.answer(first)
        return None if pages is None else [ResultRows(*page) for page in pages[: len(questions)]]

    async def prepare_segments(self) -> None:
        """Starts a process that can read segments, so that the first lookup need not wait for it."""
        await self._segments.prepare()

    async def select(self, select: Select, seconds: float) -> SelectAnswer:
        """Answers a SELECT of a user, who waits at most `seconds`. It is cancelled when the user disconnects."""
        request = {
            "sql": select.sql, "parameters": select.parameters, "most": select.most, "seconds": seconds,
            "form": select.form,
        }  # fmt: skip
        answer = await self._selects.ask(request, seconds)
        if "failed" in answer:
            raise _refused(answer)
        return SelectAnswer(answer["body"], answer["commit"], answer["more"], answer["indexes"])

    async def close(self) -> None:
        for pool in (self._own, self._users, self._selects, self._segments, self._own_segments):
            await pool.close()
        if self._own_lookups is not None:
            self._own_lookups.close()


def _packed(question: Question | SegmentQuestion) -> object:
    """A question on its way to a process."""
    if isinstance(question, SegmentQuestion):
        return asdict(question)
    return [question.text, list(question.parameters), question.most]


def _refused(answer: Mapping[str, Any]) -> Answered:
    status = {"time": 504, "large": 413, "store": 503}.get(answer["failed"], 422)
    return Answered(status, answer["message"], detail=answer.get("detail"), hint=answer.get("hint"))


@dataclass(frozen=True)
class _Command:
    """What starts a process that asks. An address with a password is passed where no other user can read it.

    One that `greets` says when it is ready: its start takes a while, which is not the time of a question. One that
    `stops` ends a question when it is sent an empty frame; others are killed.
    """

    arguments: list[str]
    environment: dict[str, str]
    greets: bool = False
    stops: bool = False


def _command(database: Database, largest: int) -> _Command:
    if isinstance(database, PostgresSchema):
        address = database.address
        arguments = ["-I", asker_postgres.__file__, address.own, str(largest)]
        url = with_settings(address.url, {"application_name": "penstock serve"})
        return _Command(arguments, {VARIABLE: url}, greets=True)
    assert isinstance(database, SqliteFile)
    return _Command(["-I", asker.__file__, str(database.path.absolute()), str(APPLICATION), str(largest)], {})


#: A process answers one question at a time, and its memory is bounded: pools of threads would only take from it.
_FEW_THREADS: Final = {
    "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1",
    "MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system",
}  # fmt: skip


def _selecting(directory: Path, database: Database, memory: int, largest: int) -> _Command:
    address = {VARIABLE: database.address.url} if isinstance(database, PostgresSchema) else {}
    arguments = ["-P", "-m", "penstock.query.process", str(directory.absolute()), str(memory), str(largest)]
    return _Command(arguments, {**_FEW_THREADS, **address}, greets=True, stops=True)


class _Pool:
    """Some processes, each with one question at a time."""

    def __init__(self, command: _Command, size: int, waiting: int) -> None:
        self._command, self._size, self._most = command, size, waiting
        self._idle: list[asyncio.subprocess.Process] = []
        self._free = asyncio.Semaphore(size)
        self._waiting = 0
        self._all: set[asyncio.subprocess.Process] = set()
        self._asking: set[asyncio.Task[dict[str, Any]]] = set()

    async def ask(self, request: object, seconds: float) -> dict[str, Any]:
        """The answer to a request. If the client disconnects, the query is stopped; the process stays."""
        async with self._turn(seconds) as turn:
            process = await self._process()
            task = asyncio.create_task(self._answer(process, request, seconds))
            turn.task = task
            self._asking.add(task)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                self._stop(process, task)
                raise

    async def prepare(self) -> None:
        """Starts a process, so that one is ready."""
        async with self._turn(_START):
            if not self._idle:
                self._idle.append(await self._process())

    async def _answer(self, process: asyncio.subprocess.Process, request: object, seconds: float) -> dict[str, Any]:
        try:
            packed = msgpack.packb(request, unicode_errors="surrogateescape")
            async with asyncio.timeout(seconds + _GRACE):
                answer = await _exchange(process, packed)
        except BaseException as error:
            await self._kill(process)
            if isinstance(error, TimeoutError):
                raise Answered(504, f"the query takes longer than {seconds:g} s") from None
            if isinstance(error, asyncio.IncompleteReadError | ConnectionError):
                raise Answered(503, "the process that ran the query has ended") from None
            raise
        self._idle.append(process)
        return answer

    def _stop(self, process: asyncio.subprocess.Process, task: asyncio.Task[dict[str, Any]]) -> None:
        """Stops a query whose client has gone."""
        if task.done():
            return
        if not self._command.stops or process.stdin is None:
            task.cancel()
            return
        with suppress(ConnectionError, RuntimeError):
            process.stdin.write(_LENGTH.pack(0))
        asyncio.get_running_loop().call_later(_GRACE, task.cancel)

    @asynccontextmanager
    async def _turn(self, seconds: float) -> AsyncIterator[_Turn]:
        if self._free.locked() and self._waiting >= self._most:
            raise Answered(503, "too many queries are waiting", retry=1)
        self._waiting += 1
        try:
            try:
                await asyncio.wait_for(self._free.acquire(), seconds)
            except TimeoutError:
                raise Answered(503, f"no answer within {seconds:g} s: the server is busy", retry=1) from None
        finally:
            self._waiting -= 1
        turn = _Turn()
        try:
            yield turn
        finally:
            if turn.task is None:
                self._free.release()
            else:  # also if its client has gone, the process is busy until it is over
                turn.task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._asking.discard(task)
        self._free.release()
        if not task.cancelled():
            task.exception()  # its client has gone: the failure goes to nobody

    async def _process(self) -> asyncio.subprocess.Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        process = await asyncio.create_subprocess_exec(
            sys.executable, *self._command.arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            env={**os.environ, **self._command.environment},
        )  # fmt: skip
        self._all = {known for known in self._all if known.returncode is None} | {process}
        if self._command.greets:
            try:
                assert process.stdout is not None
                await asyncio.wait_for(process.stdout.readexactly(1), _START)
            except (TimeoutError, asyncio.IncompleteReadError):
                await self._kill(process)
                raise Answered(503, "the process that asks the store does not start", retry=1) from None
        return process

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.kill()
        with suppress(asyncio.CancelledError):
            await asyncio.shield(process.wait())

    async def close(self) -> None:
        for task in list(self._asking):
            task.cancel()
        for process in self._all:
            if process.returncode is None:
                await self._kill(process)
        self._idle.clear()


@dataclass
class _Turn:
    """A turn to ask, and the request."""

    task: asyncio.Task[dict[str, Any]] | None = None


async def _exchange(process: asyncio.subprocess.Process, request: bytes) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_LENGTH.pack(len(request)) + request)
    await process.stdin.drain()
    (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    answer: dict[str, Any] = msgpack.unpackb(
        await process.stdout.readexactly(length), unicode_errors="surrogateescape", use_list=True
    )
    return answer


def _failure(kind: str, text: str) -> Answered:
    if kind == "absent":
        return Answered(503, "there is no store to ask", detail=text, hint="run the app first", retry=1)
    if kind == "time":
        return Answered(504, f"the query was stopped: {text}", hint="ask for less, or name a window")
    if kind == "large":
        return Answered(413, f"the answer is too large: {text}", hint="ask for fewer columns or rows")
    return Answered(422, f"the store cannot answer: {text}")
