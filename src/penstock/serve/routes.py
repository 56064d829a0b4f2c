"""The routes that read: catalog, lookups, and SQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from penstock.errors import PenstockError
from penstock.model.time import SECOND, duration
from penstock.model.types import Schema
from penstock.serve import bodies
from penstock.serve.alerts import read_alerts
from penstock.serve.askers import LAST, Select
from penstock.serve.bodies import ROWS_OF, errors
from penstock.serve.errors import Answered
from penstock.serve.forms import MEDIA, Format, answered, wanted
from penstock.serve.lookup import Lookup, Order
from penstock.serve.service import Service
from penstock.serve.views import not_there

router = APIRouter(prefix="/api/v1", tags=["views"])

After = Annotated[
    str | None,
    Query(max_length=300, pattern=r"^[^:]+:[0-9]{1,15}$", description="A token of POST: wait until its events are in."),
]
Timeout = Annotated[
    str, Query(pattern=r"^([0-9]{1,5}ms|[0-9]{1,2}s|1m)$", description="How long to wait for them: 500ms, 2s, 1m.")
]
Form = Annotated[Format | None, Query(alias="format", description="Instead of the Accept header.")]
#: A lookup that takes longer gets an index, if the app can make one.
_SLOW: Final = 0.02
_PREFIX: Final = "key."


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def seconds_of(service: Service, text: str) -> float:
    """The seconds that a client wants to wait."""
    try:
        seconds = duration(text) / SECOND
    except PenstockError as error:
        raise Answered(422, f"timeout: {error.message}", hint="write 500ms, 2s or 1m") from None
    if not 0 <= seconds <= service.settings.limits.wait_seconds:
        raise Answered(422, f"timeout is not between 0 and {service.settings.limits.wait_seconds:g} s: '{text}'")
    return seconds


def only(request: Request, *known: str) -> None:
    """Rejects unknown parameters: a typo must not change the answer."""
    for name in request.query_params:
        if name not in known:
            raise Answered(422, f"unknown parameter '{name[:60]}'", detail=f"there are: {', '.join(known)}")


# what there is


@router.get("/views", response_model=list[bodies.View], responses=errors())
async def list_views(request: Request) -> Any:
    """All views with their columns."""
    only(request)
    known = await service_of(request).catalog.known(fresh=True)
    return [view.body() for view in known.views.values()]


@router.get("/views/{name}/schema", response_model=bodies.View, responses=errors(404, 422))
async def describe_view(request: Request, name: str) -> Any:
    """A view: its keys, columns, watermark and definition."""
    only(request)
    service = service_of(request)
    await service.catalog.known(fresh=True)
    return (await service.catalog.view(name)).body()


def stream_body(stream: dict[str, Any], takes: set[str]) -> dict[str, Any]:
    schema = () if stream["schema"] is None else tuple(Schema.parse(stream["schema"]))
    columns = [{"name": name, "type": kind} for name, kind in schema]
    rest = {name: stream[name] for name in ("name", "keep", "watermark", "counters")}
    return {**rest, "columns": columns, "ingest": stream["name"] in takes}


@router.get("/streams", response_model=list[bodies.Stream], responses=errors(), tags=["streams"])
async def list_streams(request: Request) -> Any:
    """All streams, with their counters."""
    only(request)
    service = service_of(request)
    known, takes = await service.catalog.known(fresh=True), set(service.doors.declared())
    return [stream_body(stream, takes) for stream in known.streams.values()]


@router.get("/streams/{name}", response_model=bodies.Stream, responses=errors(404, 422), tags=["streams"])
async def describe_stream(request: Request, name: str) -> Any:
    """A stream: its columns, watermark and counters."""
    only(request)
    service = service_of(request)
    known = await service.catalog.known(fresh=True)
    if name not in known.streams:
        raise not_there("stream", name, known.streams)
    return stream_body(known.streams[name], set(service.doors.declared()))


@router.get("/sinks", response_model=list[bodies.Sink], responses=errors(), tags=["sinks"])
async def list_sinks(request: Request) -> Any:
    """All sinks, and the position of each."""
    only(request)
    return list((await service_of(request).catalog.known(fresh=True)).sinks.values())


@router.get("/sinks/{name}", response_model=bodies.Sink, responses=errors(404, 422), tags=["sinks"])
async def describe_sink(request: Request, name: str) -> Any:
    """A sink, and its position."""
    only(request)
    known = await service_of(request).catalog.known(fresh=True)
    if name not in known.sinks:
        raise not_there("sink", name, known.sinks)
    return known.sinks[name]


@router.get("/alerts", response_model=list[bodies.Alert], responses=errors(), tags=["alerts"])
async def list_alerts(request: Request) -> Any:
    """All alerts: for how many keys they fire, and which these are."""
    only(request)
    service = service_of(request)
    known = await service.catalog.known(fresh=True)
    return [alert.body() for alert in await read_alerts(service.askers, known.views, await service.graph())]


# lookups

_ROWS: dict[int | str, dict[str, Any]] = {200: {"description": "Rows", "content": ROWS_OF}}
_LOOKUP = ("window_start", "from", "to", "null", "final", "order", "limit", "cursor", "after", "timeout", "format")


@router.get("/views/{name}", response_model=bodies.Rows, responses={**errors(404, 406, 413, 422, 504), **_ROWS})
async def look_up(
    request: Request,
    name: str,
    window_start: Annotated[str | None, Query(max_length=60, description="The window that starts then.")] = None,
    start: Annotated[str | None, Query(alias="from", max_length=60, description="Windows from then on.")] = None,
    end: Annotated[str | None, Query(alias="to", max_length=60, description="Windows that start before.")] = None,
    null: Annotated[list[str] | None, Query(description="Keys that are null.")] = None,
    final: Annotated[bool | None, Query(description="Only windows that are final, or that are not.")] = None,
    order: Order = "newest",
    limit: Annotated[int, Query(ge=1, le=1_000_000)] = 100,
    cursor: Annotated[str | None, Query(max_length=4000, description="'next' of the page before.")] = None,
    after: After = None,
    timeout: Timeout = "2s",
    form: Form = None,
) -> Response:
    """Rows of a view by key and window: `?key.tag=x`. Several values of a key mean any of them."""
    service, chosen = service_of(request), wanted(request, form)
    keys = {n.removeprefix(_PREFIX): request.query_params.getlist(n) for n in request.query_params if n[:4] == _PREFIX}
    only(request, *_LOOKUP, *(f"{_PREFIX}{key}" for key in keys))
    limit = min(limit, service.settings.limits.rows)
    asked_for = Lookup(keys, null or (), window_start, start, end, final, order, limit, cursor)
    seconds = seconds_of(service, timeout)
    view = await service.catalog.view(name)
    question = asked_for.question(view)
    if after is not None:
        await service.fresh.wait(after, seconds)
    began = time.monotonic()
    try:
        result, last = await service.ask(question, LAST)
    except Answered:
        moved = await service.catalog.moved(view)
        if moved is None:
            raise
        result, last = await service.ask(asked_for.question(moved), LAST)
    finally:
        if keys and time.monotonic() - began > _SLOW:
            service.make_faster(view, [key for key in view.keys if key in keys])
    rows, more = asked_for.page(result.rows)
    return await answered(chosen, view.columns, rows, {"next": more, "commit": last.rows[0][0]})


# SQL

_BODY = {"application/json": {"schema": bodies.Query.model_json_schema()}}
_QUERY = {"requestBody": {"required": True, "content": _BODY}}


@router.post(
    "/query", response_model=bodies.Answer, openapi_extra=_QUERY,
    responses={**errors(404, 406, 408, 413, 415, 422, 504), **_ROWS},
)  # fmt: skip
async def query(request: Request, after: After = None, timeout: Timeout = "2s", form: Form = None) -> Response:
    """A SELECT over views, with parameters. It is read-only, and stopped when it takes too long."""
    service, chosen = service_of(request), wanted(request, form)
    only(request, "after", "timeout", "format")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Answered(415, "send the query as application/json")
    try:
        body = bodies.Query.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Answered(422, f"not a query: {where} {first['msg']}".replace("  ", " ")[:300]) from None
    seconds = seconds_of(service, timeout)
    most = min(body.limit or service.settings.limits.rows, service.settings.limits.rows)
    if after is not None:
        await service.fresh.wait(after, seconds)
    select = Select(body.sql, body.parameters, most, chosen)
    answer = await unless_gone(request, service.select(select))
    for name, keys in answer.indexes:
        service.make_faster(await service.catalog.view(name), keys)
    more = {} if chosen == "json" else {"Penstock-Commit": str(answer.commit), "Penstock-More": str(answer.more)}
    return Response(answer.body, headers=more, media_type=MEDIA[chosen])


_Answer = TypeVar("_Answer")


async def unless_gone(request: Request, work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """The result of work, which is cancelled when the client disconnects."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            raise Answered(503, "the client has disconnected")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
