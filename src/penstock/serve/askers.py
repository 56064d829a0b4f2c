"""The processes that ask the store for a server: some for users' questions, one for the server's own."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgpack

from penstock.serve import asker, asker_postgres
from penstock.serve.errors import Answered
from penstock.store.address import VARIABLE
from penstock.store.database import Database, PostgresSchema, SqliteFile, database_of
from penstock.store.tables import APPLICATION

_LENGTH: Final = struct.Struct(">I")
#: Seconds after its time is over until a process that does not stop by itself is killed.
_GRACE: Final = 1.0
#: So many seconds it may take to start.
_START: Final = 60.0
#: What the server asks itself may take so long, and have so many rows.
_OWN_SECONDS, _OWN_ROWS = 20.0, 200_000


@dataclass(frozen=True)
class Question:
    """A statement with its parameters, of whose answer so many rows are wanted at most."""

    text: str
    parameters: Sequence[object] = ()
    most: int = _OWN_ROWS


@dataclass(frozen=True)
class Found:
    """An answer. `more`: there are more rows than were wanted."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool


class Askers:
    """Asks a store. At most `waiting` questions wait for a process that is free."""

    def __init__(self, directory: Path, *, processes: int, largest: int, waiting: int) -> None:
        self.database = database_of(directory)
        command = _command(self.database, largest)
        self._own = _Pool(command, 1, 10_000)
        self._users = _Pool(command, processes, waiting)

    async def own(self, *questions: Question) -> list[Found]:
        """Asks for the server itself: users' questions never stand in its way."""
        return await self._own.ask(questions, _OWN_SECONDS)

    async def ask(self, questions: Sequence[Question], seconds: float) -> list[Found]:
        """Asks for a user, who waits so many seconds at most."""
        return await self._users.ask(questions, seconds)

    async def close(self) -> None:
        await self._own.close()
        await self._users.close()


@dataclass(frozen=True)
class _Command:
    """What starts a process that asks. An address with its password is told where nobody else can read it.

    One that `greets` says when it is ready: its start takes a while, which is not the time of a question.
    """

    file: str
    arguments: list[str]
    secrets: dict[str, str]
    greets: bool = False


def _command(database: Database, largest: int) -> _Command:
    if isinstance(database, PostgresSchema):
        address = database.address
        return _Command(asker_postgres.__file__, [address.own, str(largest)], {VARIABLE: address.url}, greets=True)
    assert isinstance(database, SqliteFile)
    return _Command(asker.__file__, [str(database.path.absolute()), str(APPLICATION), str(largest)], {})


class _Pool:
    """Some processes, each with one question at a time."""

    def __init__(self, command: _Command, size: int, waiting: int) -> None:
        self._command, self._size, self._most = command, size, waiting
        self._idle: list[asyncio.subprocess.Process] = []
        self._free = asyncio.Semaphore(size)
        self._waiting = 0
        self._all: set[asyncio.subprocess.Process] = set()

    async def ask(self, questions: Sequence[Question], seconds: float) -> list[Found]:
        async with self._turn(seconds):
            process = await self._process()
            try:
                request = msgpack.packb([[[q.text, list(q.parameters), q.most] for q in questions], seconds])
                async with asyncio.timeout(seconds + _GRACE):
                    answer = await _exchange(process, request)
            except BaseException as error:  # also where the one who asked has gone away
                await self._kill(process)
                if isinstance(error, TimeoutError):
                    raise Answered(504, f"the question takes longer than {seconds:g} s") from None
                if isinstance(error, asyncio.IncompleteReadError | ConnectionError):
                    raise Answered(503, "the question has ended the process that asked it") from None
                raise
            self._idle.append(process)
        if "failed" in answer:
            raise _failure(answer["failed"], answer["text"])
        return [Found(*found) for found in answer["answers"]]

    @asynccontextmanager
    async def _turn(self, seconds: float) -> AsyncIterator[None]:
        if self._free.locked() and self._waiting >= self._most:
            raise Answered(503, "too many questions wait for an answer", retry=1)
        self._waiting += 1
        try:
            try:
                await asyncio.wait_for(self._free.acquire(), seconds)
            except TimeoutError:
                raise Answered(503, f"no answer within {seconds:g} s: others are asking", retry=1) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

    async def _process(self) -> asyncio.subprocess.Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", self._command.file, *self._command.arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            env={**os.environ, **self._command.secrets},
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
        for process in self._all:
            if process.returncode is None:
                await self._kill(process)
        self._idle.clear()


async def _exchange(process: asyncio.subprocess.Process, request: bytes) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_LENGTH.pack(len(request)) + request)
    await process.stdin.drain()
    (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    found: dict[str, Any] = msgpack.unpackb(
        await process.stdout.readexactly(length), unicode_errors="surrogateescape", use_list=True
    )
    return found


def _failure(kind: str, text: str) -> Answered:
    if kind == "absent":
        return Answered(503, "there is no store to ask", detail=text, hint="run the app first", retry=1)
    if kind == "time":
        return Answered(504, f"the question was stopped: {text}", hint="ask for less, or name a window")
    if kind == "large":
        return Answered(413, f"the answer is too large: {text}", hint="ask for fewer columns or rows")
    return Answered(422, f"the store cannot answer: {text}")
