"""A server in a thread with an event loop of its own: epochs do not wait for it, nor it for them."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.descriptors import for_connections
from penstock.errors import PenstockError
from penstock.serve.api import create_app
from penstock.serve.guard import LARGEST_HEAD
from penstock.serve.listen import listener
from penstock.serve.service import Host
from penstock.serve.settings import Limits, Settings
from penstock.serve.tokens import Tokens

#: Seconds that answers get when the server stops.
_GRACE: Final = 3
#: What a connection beyond the limit is answered: it is not read.
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: 34\r\n\r\n"
    b'{"error": "too many connections"}\n'
)

#: Seconds after which a thread lets another one run. With Python's 5 ms each step of an answer waits that long while an
#: epoch is being merged: lookups take three times as long, and epochs gain nothing.
_TURN: Final = 0.001


class _Protocol(H11Protocol):
    """Disconnects clients that take too long to send a request, and those above the limit.

    The limits hold before anything looks at the request: what does not come in time needs no token to be refused.
    """

    limits = Limits()
    _deadline: asyncio.TimerHandle | None = None
    _part: str | None = None  # what the deadline is for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.access_log = False  # it would hold whole URLs; what is logged the guard tells
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.write(_FULL)
            transport.close()
            return
        self._expect("head")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_protocol() is not self:  # it is a websocket now
            self._expect(None)
            return
        state = self.conn.their_state
        self._expect("head" if state is h11.IDLE else "body" if state is h11.SEND_BODY else None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def _expect(self, part: str | None) -> None:
        """Sets the deadline for a part of the request. One that is set already stays, however many bytes come."""
        if part == self._part:
            return
        self._part = part
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if part is not None:
            seconds = self.limits.head_seconds if part == "head" else self.limits.body_seconds + _GRACE
            self._deadline = self.loop.call_later(seconds, self.transport.close)


def _protocol(bounds: Limits) -> type[_Protocol]:
    """The protocol with time limits: uvicorn makes the objects."""

    class Bounded(_Protocol):
        limits = bounds

    return Bounded


class Server:
    """Serves the app in a directory. `app` is what to mount a dashboard on before it starts."""

    def __init__(self, directory: Path, settings: Settings = Settings(), host: Host = Host()) -> None:  # noqa: B008
        settings.check(has_tokens=bool(Tokens(directory).read()))
        self.settings = settings
        self.app: FastAPI = create_app(directory, settings, host)
        self._socket = listener(settings.host, settings.port)
        self.port: int = self._socket.getsockname()[1]
        limits = settings.limits
        connections = for_connections(limits.requests + limits.subscribers + 500)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app, http=_protocol(limits), loop="asyncio", lifespan="on", log_config=None,
                access_log=False, server_header=False, proxy_headers=False, timeout_graceful_shutdown=_GRACE,
                h11_max_incomplete_event_size=LARGEST_HEAD, ssl_certfile=settings.cert, ssl_keyfile=settings.key,
                limit_concurrency=connections,
            )
        )  # fmt: skip
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-serve", daemon=True)
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"{'http' if self.settings.cert is None else 'https'}://{host}:{self.port}"

    def start(self) -> Server:
        """Begins to listen."""
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        sys.setswitchinterval(min(_TURN, sys.getswitchinterval()))
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)
        if self._failure is not None:
            raise PenstockError(f"the server could not start: {self._failure}") from self._failure
        return self

    def stop(self) -> None:
        """Ends subscriptions, answers pending requests, and closes all connections."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.app.state.service.hub.closing.set)
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # in this thread it would go unnoticed
            self._failure = error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[self._socket])

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *error: Any) -> None:
        self.stop()
