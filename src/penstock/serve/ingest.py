"""Ingests events: requests of the same few milliseconds become one segment, answered when it is durable."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError
from penstock.serve.accept import ParsedEvents
from penstock.serve.errors import Answered
from penstock.sources.http.inbox import Inbox, InboxDefinition, KeyMismatch, Offer, Receipt, declared

#: Seconds for which the first request of a segment waits for others.
_GATHER: Final = 0.01
#: How many rows may wait to be written.
_WAITING: Final = 2_000_000


@dataclass(frozen=True)
class Token:
    """What a producer gets: the stream, and the segment with its events.

    >>> Token.read(str(Token("posts", 12)))
    Token(stream='posts', number=12)
    """

    stream: str
    number: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.number}"

    @classmethod
    def read(cls, text: str) -> Token:
        stream, _, number = text.rpartition(":")
        if not stream or not (number.isascii() and number.isdigit()) or len(number) > 15:
            raise Answered(422, f"'{text[:60]}' is not a token", hint="send back the token of POST /streams/{name}")
        return cls(stream, int(number))


class Doors:
    """The inboxes of an app. New ones are opened on request."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._doors: dict[str, _Door] = {}

    def declared(self) -> dict[str, InboxDefinition]:
        """The streams that take events, with their columns."""
        return {name: inbox for name, (_, inbox) in declared(self._directory).items()}

    def streams(self) -> dict[str, str]:
        """The stream that reads each inbox, by the inbox's name."""
        return {folder.name: inbox.stream for folder, inbox in declared(self._directory).values()}

    async def put(self, stream: str, accepted: ParsedEvents, key: str | None, body: bytes) -> Receipt:
        """Writes rows to the inbox of a stream; returns when they are durable."""
        if stream not in self._doors:
            folder, _ = declared(self._directory)[stream]
            self._doors[stream] = _Door(Inbox(folder))
        digest = hashlib.sha256(body).hexdigest() if key is not None else ""
        return await self._doors[stream].put(Offer(accepted.rows, key, digest, accepted.malformed))


class _Door:
    """Gathers what comes for one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._waiting: list[tuple[Offer, asyncio.Future[Receipt]]] = []
        self._rows = 0
        self._task: asyncio.Task[None] | None = None

    async def put(self, offer: Offer) -> Receipt:
        if self._rows + offer.rows.height > _WAITING:
            raise Answered(503, "too many events wait to be written", retry=1)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((offer, answer))
        self._rows += offer.rows.height
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        await asyncio.sleep(_GATHER)
        while self._waiting:
            form = self._waiting[0][0].rows.schema  # the stream's columns may have changed: then it is another file
            place = next((n for n, (o, _) in enumerate(self._waiting) if o.rows.schema != form), len(self._waiting))
            group, self._waiting = self._waiting[:place], self._waiting[place:]
            results: Sequence[Receipt | PenstockError]
            try:
                results = await asyncio.to_thread(self._inbox.put, [offer for offer, _ in group])
            except Exception as error:  # it is raised for all of the group
                results = [Answered(503, f"the events could not be written: {error}", retry=1)] * len(group)
            for (offer, answer), result in zip(group, results, strict=True):
                self._rows -= offer.rows.height
                if answer.done():
                    continue  # who sent it has gone
                if isinstance(result, Receipt):
                    answer.set_result(result)
                elif isinstance(result, KeyMismatch):
                    answer.set_exception(Answered(409, result.message, hint=result.hint))
                else:
                    answer.set_exception(result)
