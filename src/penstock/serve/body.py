"""The body of a request, with limits on its size and time."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from penstock.serve.errors import Answered


class Body:
    """A body that is rejected if it is too large or too slow."""

    def __init__(self, scope: Scope, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self._most, self._left = receive, most, most
        self._until, self._done = time.monotonic() + seconds, False
        length = Headers(scope=scope).get("content-length")
        if length is not None and (not length.isascii() or not length.isdigit() or int(length[:20]) > most):
            raise self._large()

    async def __call__(self) -> Message:
        if self._done:
            return await self._receive()  # whether the other side goes away
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._until - time.monotonic()))
        except TimeoutError:
            raise Answered(408, "the body came too slowly") from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._large()
        self._done = not message.get("more_body", False)
        return message

    def _large(self) -> Answered:
        return Answered(413, f"the body is larger than {self._most} bytes", hint="send it in parts")
