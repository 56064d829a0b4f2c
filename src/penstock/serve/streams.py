"""The route that takes events."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request

from penstock.serve import accept, bodies
from penstock.serve.bodies import errors
from penstock.serve.errors import Answered
from penstock.serve.ingest import Token
from penstock.serve.routes import only, service_of
from penstock.serve.shown import ARROW
from penstock.serve.views import not_there

router = APIRouter(prefix="/api/v1", tags=["streams"])

_LINES: Final = ("application/x-ndjson", "application/jsonl", "application/json")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string", "description": "One JSON object a line."}},
            "application/json": {"schema": {"type": "object", "description": "One event, in one line."}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/streams/{name}",
    response_model=bodies.IngestResult,
    openapi_extra=_BODY,
    responses=errors(404, 408, 409, 413, 415, 422),
)
async def ingest(
    request: Request,
    name: str,
    malformed: Annotated[
        Literal["refuse", "keep"], Query(description="What becomes of lines that do not fit.")
    ] = "refuse",
    idempotency_key: Annotated[
        str | None, Header(description="The same key gives the same token for a day, and writes nothing.")
    ] = None,
) -> Any:
    """Takes events of a stream `FROM HTTP`. The answer comes when they are durable."""
    service = service_of(request)
    only(request, "malformed")
    takes = service.doors.declared()
    if name not in takes:
        known = await service.catalog.known()
        if name in known.streams:
            raise Answered(409, f"the stream '{name}' takes no events over HTTP", hint="define it FROM HTTP")
        raise not_there("stream", name, takes)
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise Answered(422, "an idempotency key has 1 to 200 visible characters")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Answered(415, "compressed bodies are not accepted", hint="send it as it is")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (*_LINES, ARROW):
        raise Answered(415, f"no such media type: '{kind[:60]}'", detail=f"there are: {', '.join((*_LINES, ARROW))}")
    body, schema, most = await request.body(), takes[name].schema, service.settings.limits.events
    if kind == ARROW:
        accepted = await asyncio.to_thread(accept.from_arrow, body, schema, most)
    else:
        body = accept.one_event(body) if kind == "application/json" else body
        accepted = await asyncio.to_thread(accept.from_lines, body, schema, malformed == "keep", most)
    taken = await service.doors.put(name, accepted, idempotency_key, body)
    if not taken.repeated:
        service.metrics.accepted.labels(name).inc(taken.rows)
    counts = {"accepted": taken.rows, "malformed": taken.malformed, "repeated": taken.repeated}
    return {"token": str(Token(name, taken.number)), **counts}
