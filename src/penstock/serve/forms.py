"""The format of answers: as the client asks for it, by `?format=` or by its Accept header."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from penstock.serve.errors import Answered
from penstock.serve.shown import ARROW, CSV, JSON, as_arrow, as_csv, as_json

Format: TypeAlias = Literal["json", "csv", "arrow"]
MEDIA: Final[dict[str, str]] = {"json": JSON, "csv": CSV, "arrow": ARROW}
#: Answers of more rows are written in a thread, so that others need not wait.
_MANY: Final = 500


def wanted(request: Request, query_format: Format | None) -> Format:
    """The format that a client wants. The URL takes precedence over the header."""
    if query_format is not None:
        return query_format
    best: tuple[float, int, Format] | None = None
    for place, part in enumerate(request.headers.get("accept", "*/*").split(",")):
        media, *options = (piece.strip().lower() for piece in part.split(";"))
        weight = next((_weight(option[2:]) for option in options if option.startswith("q=")), 1.0)
        for form, known in MEDIA.items():
            if media in (known, "*/*", known.split("/")[0] + "/*") and weight > 0:
                candidate: tuple[float, int, Format] = (-weight, place, form)  # type: ignore[assignment]
                best = candidate if best is None or candidate[:2] < best[:2] else best
    if best is None:
        raise Answered(406, "unsupported format", detail=f"there are: {', '.join(MEDIA.values())}")
    return best[2]


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


async def answered(
    form: Format, types: Mapping[str, str], rows: Sequence[Sequence[Any]], more: Mapping[str, Any]
) -> Response:
    """Rows in a format. Further facts are in the body of JSON, and in headers otherwise."""
    write = asyncio.to_thread if len(rows) > _MANY else _at_once
    if form == "json":
        body = await write(_json, types, rows, more)
        return Response(body, media_type=JSON)
    body = await write(as_csv if form == "csv" else as_arrow, types, rows)
    headers = {f"Penstock-{name.title()}": str(value) for name, value in more.items() if value is not None}
    return Response(body, headers=headers, media_type=MEDIA[form])


async def _at_once(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def _json(types: Mapping[str, str], rows: Sequence[Sequence[Any]], more: Mapping[str, Any]) -> bytes:
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    body = {"columns": columns, "rows": as_json(types, rows), **more}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
