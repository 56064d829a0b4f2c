"""Connections that stay open, and end within a second when their token is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.types import Message, Receive, Send

from penstock.errors import PenstockError
from penstock.serve.tokens import Token, Tokens

#: Seconds between two looks at the tokens, while a connection is open.
_LOOK: Final = 0.25


class Session:
    """An open connection with the token that let it in; None where none was needed."""

    def __init__(self, token: Token | None) -> None:
        self.token, self.revoked = token, asyncio.Event()

    def receiving(self, receive: Receive, disconnect: Message) -> Receive:
        """`receive` as the application sees it: once the token is removed, the client seems to have gone."""

        async def received() -> Message:
            message, revoked = asyncio.ensure_future(receive()), asyncio.ensure_future(self.revoked.wait())
            try:
                await asyncio.wait((message, revoked), return_when=asyncio.FIRST_COMPLETED)
                return disconnect if self.revoked.is_set() else message.result()
            finally:
                message.cancel()
                revoked.cancel()

        return received

    def sending(self, send: Send) -> Send:
        """`send` as the application sees it: once the token is removed, nothing is sent."""

        async def sent(message: Message) -> None:
            if not self.revoked.is_set():
                await send(message)

        return sent


class Sessions:
    """All open connections of a server. One task looks at the tokens, as long as there is a connection."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._open: set[Session] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def opened(self, token: Token | None) -> Iterator[Session]:
        session = Session(token)
        self._open.add(session)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield session
        finally:
            self._open.discard(session)

    async def _watch(self) -> None:
        while self._open:
            for session in list(self._open):
                if not self._holds(session.token):
                    session.revoked.set()
            await asyncio.sleep(_LOOK)

    def _holds(self, token: Token | None) -> bool:
        try:
            return self._tokens.holds(token)
        except (PenstockError, OSError):  # a file that cannot be read lets nobody in
            return False
