"""The route that pushes panes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from penstock.serve.bodies import errors
from penstock.serve.errors import Answered
from penstock.serve.routes import only, service_of

router = APIRouter(prefix="/api/v1", tags=["subscriptions"])

_MEDIA = "text/event-stream"
_OK: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events: position, row, pane, end", "content": {_MEDIA: {"schema": {"type": "string"}}}}
}


@router.get("/views/{name}/subscribe", response_class=Response, responses={**errors(404, 410, 413, 422), **_OK})
async def subscribe(
    request: Request,
    name: str,
    snapshot: Annotated[bool, Query(description="Send the current rows first.")] = False,
    last_event_id: Annotated[str | None, Header(description="Go on after this pane.")] = None,
) -> Response:
    """The panes of a view as they fire, as server-sent events. The id of an event is where to go on after it."""
    only(request, "snapshot")
    service = service_of(request)
    last = None if last_event_id in (None, "") else _number(str(last_event_id))
    view = await service.catalog.view(name)
    parts = await service.hub.begin(view, last, service.settings.limits.rows if snapshot else None)
    headers = {"X-Accel-Buffering": "no", "Connection": "close"}  # when it ends, so does the connection
    return StreamingResponse(parts, headers=headers, media_type=_MEDIA)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Answered(422, f"'{text[:40]}' is not an id of an event", hint="send back the id of the last event")
    return int(text)
