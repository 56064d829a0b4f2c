"""The HTTP API: an ASGI application, with which a dashboard can be mounted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from penstock.errors import PenstockError
from penstock.serve import models, routes, streams, subscribe
from penstock.serve.askers import Question
from penstock.serve.bodies import Status, errors
from penstock.serve.dashboard.mount import Dashboard
from penstock.serve.errors import Answered, error_body
from penstock.serve.guard import Guard
from penstock.serve.service import Host, Service
from penstock.serve.settings import Settings

_TITLE = "Penstock"
_TEXT = """Live views over event streams. Rows come as JSON, CSV or Arrow; events go in as JSON lines or Arrow; panes
are pushed as server-sent events. Lookups take values of keys as `key.NAME=VALUE`."""


def create_app(directory: Path, settings: Settings = Settings(), host: Host = Host()) -> FastAPI:  # noqa: B008
    """The API of the app in a directory, running or not. `app.state.service` is what requests share."""
    service = Service(directory, settings, host)
    dashboard = Dashboard(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        preparing = asyncio.create_task(service.prepare())
        yield
        preparing.cancel()
        await asyncio.gather(preparing, return_exceptions=True)
        await dashboard.close()
        await service.close()

    app = FastAPI(
        title=_TITLE, description=_TEXT, version=version("penstock"), lifespan=lifespan,
        openapi_url="/api/v1/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    app.state.service = service
    for part in (routes.router, models.router, streams.router, subscribe.router):
        app.include_router(part)
    _operations(app, service)
    app.add_exception_handler(PenstockError, _refused)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Guard, settings=settings, tokens=service.tokens, log_request=service.log_request)
    dashboard.add_to(app)
    return app


def _operations(app: FastAPI, service: Service) -> None:
    @app.get("/health", response_model=Status, responses=errors(), tags=["operations"])
    async def health() -> dict[str, str]:
        """Whether the server is up."""
        return {"status": "ok"}

    @app.get("/ready", response_model=Status, responses=errors(), tags=["operations"])
    async def ready() -> dict[str, str]:
        """Whether queries get current answers: the store can be read, and the app runs."""
        failed = service.host.failed()
        if failed is not None:
            raise Answered(503, "the app has failed", detail=failed)
        await service.askers.own(Question("SELECT 1 FROM __meta"))
        if service.why_stopped() is not None:
            hint = f"start it: penstock run APP --dir {service.directory}"
            raise Answered(503, "the app is stopped", detail="views are answered as they were", hint=hint)
        return {"status": "ready"}

    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    ok: dict[int | str, dict[str, Any]] = {200: {"description": "Metrics", **text}}

    @app.get("/metrics", response_class=Response, responses={**errors(), **ok}, tags=["operations"])
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        exposition = await service.metrics.text(service.hub.subscribers)
        return Response(exposition, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Answered):
        return JSONResponse(error.body, error.status, error.headers)
    assert isinstance(error, PenstockError)
    return JSONResponse(error_body(error), 422)


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # a path may have routes for one method each
        paths = request.app.openapi()["paths"]
        allowed = [methods for path, methods in paths.items() if compile_path(path)[0].match(request.url.path)]
        headers["Allow"] = ", ".join(sorted(method.upper() for methods in allowed for method in methods))
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])[:100]
    return JSONResponse({"error": f"'{where}': {first['msg']}"}, 422)
