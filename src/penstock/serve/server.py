"""A server in a thread of its own, with an event loop of its own: epochs do not wait for it, nor it for them."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.errors import PenstockError
from penstock.serve.api import create_app
from penstock.serve.guard import LARGEST_HEAD
from penstock.serve.service import Host
from penstock.serve.settings import Settings
from penstock.serve.tokens import Tokens

#: Seconds in which the head of a request must have come, and those that answers get when the server stops.
_HEAD, _GRACE = 10.0, 3

#: Seconds after which a thread lets another one run. With Python's 5 ms each step of an answer waits that long while an
#: epoch is being merged: lookups take three times as long, and epochs gain nothing.
_TURN: Final = 0.001


class _Protocol(H11Protocol):
    """Hangs up on clients that take for ever to say what they want."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.access_log = False  # it would hold whole URLs; what is logged the guard tells
        self._late = self.loop.call_later(_HEAD, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waits = self.conn.their_state is h11.IDLE
        if not waits and self._late is not None:
            self._late.cancel()
            self._late = None
        elif waits and self._late is None:
            self._late = self.loop.call_later(_HEAD, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)


class Server:
    """Serves the app in a directory. `app` is what to mount a dashboard on before it starts."""

    def __init__(self, directory: Path, settings: Settings = Settings(), host: Host = Host()) -> None:  # noqa: B008
        settings.check(has_tokens=bool(Tokens(directory).known))
        self.settings = settings
        self.app: FastAPI = create_app(directory, settings, host)
        self._socket = _bound(settings.host, settings.port)
        self.port: int = self._socket.getsockname()[1]
        limits = settings.limits
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app, http=_Protocol, loop="asyncio", lifespan="on", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=_GRACE,
                h11_max_incomplete_event_size=LARGEST_HEAD, ssl_certfile=settings.cert, ssl_keyfile=settings.key,
                limit_concurrency=limits.requests + limits.subscribers + 500,
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
        """Ends subscriptions, answers what was asked, and hangs up."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.app.state.service.hub.closing.set)
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # nobody else would hear of it
            self._failure = error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[self._socket])

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *error: Any) -> None:
        self.stop()


def _bound(host: str, port: int) -> socket.socket:
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        made = socket.socket(family, kind, protocol)  # asyncio sends at once only where it is named
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except BaseException:
            made.close()
            raise
        return made
    except OSError as error:
        raise PenstockError(
            f"cannot listen at {host}:{port}: {error.strerror or error}", hint="choose another one: --port 0 is any"
        ) from error
