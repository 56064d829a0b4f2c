"""Brings the dashboard into the server: one route for its pages, behind the guard like all others.

NiceGUI is loaded when the first page is asked for. It is one for a whole process, so that of several servers in a
process one at a time shows pages.
"""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from fastapi import FastAPI
from starlette.datastructures import URLPath
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.serve.dashboard.board import Board
from penstock.serve.dashboard.login import Door, is_page
from penstock.serve.dashboard.read import SnapshotReader
from penstock.serve.service import Service

_TITLE: Final = "Penstock"


class Dashboard(BaseRoute):
    """The pages as a route. `path` is what they are called in logs and metrics."""

    path = "dashboard"

    def __init__(self, service: Service) -> None:
        self._service = service
        self._board = Board(SnapshotReader(service.askers, service.catalog, service.why_stopped))
        self._starting = asyncio.Lock()
        self._pages: ASGIApp | None = None
        self._running: AbstractAsyncContextManager[Any] | None = None

    def add_to(self, app: FastAPI) -> None:
        """Adds route and door to a server's app."""
        app.router.routes.append(self)
        settings = self._service.settings
        app.add_middleware(
            Door, tokens=self._service.tokens, secure=settings.cert is not None,
            body_seconds=settings.limits.body_seconds,
        )  # fmt: skip

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        matched = scope["type"] in ("http", "websocket") and is_page(scope["path"])
        return (Match.FULL if matched else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        pages = await self._started()
        if isinstance(pages, str):
            if scope["type"] == "http":
                await PlainTextResponse(pages, 503)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1013})
            return
        scope["route"] = self
        await pages({**scope, "app": None}, receive, send)

    async def _started(self) -> ASGIApp | str:
        async with self._starting:
            if self._pages is None:
                try:
                    await asyncio.to_thread(importlib.import_module, "nicegui")
                except ImportError:
                    return "The dashboard's parts are not installed: pip install 'penstock[serve]'"
                import nicegui

                if nicegui.app.is_started:
                    return "Another server of this process shows the dashboard."
                self._pages = await self._start()
            return self._pages

    async def _start(self) -> ASGIApp:
        from nicegui import app as own
        from nicegui import ui

        from penstock.serve.dashboard.page import show

        own.user_middleware.clear()  # left by an earlier server: an app that has run takes no more middleware
        own.middleware_stack = None
        own.config.socket_io_js_transports = ["websocket"]
        around = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        show(self._board, self._service)
        ui.run_with(
            around, title=_TITLE, dark=None, tailwind=False, show_welcome_message=False, reconnect_timeout=5.0,
            binding_refresh_interval=None,
        )  # fmt: skip
        self._running = around.router.lifespan_context(around)
        await self._running.__aenter__()
        return around

    async def close(self) -> None:
        """Ends all pages, if there were any."""
        await self._board.stop()
        if self._running is not None:
            await self._running.__aexit__(None, None, None)
            self._running = self._pages = None
