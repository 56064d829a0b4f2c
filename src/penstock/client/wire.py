"""What the parts of the client share: how values travel, and the errors that come back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.errors import PenstockError

if TYPE_CHECKING:
    import httpx
    import polars as pl

Row: TypeAlias = dict[str, Any]
API: Final = "/api/v1"
ARROW: Final = "application/vnd.apache.arrow.stream"


class ServerError(PenstockError):
    """The server has refused a request, or cannot be reached. `status` is what it answered, if it did."""

    def __init__(self, status: int | None, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.status = status


def asked(keys: Mapping[str, object], more: Mapping[str, object]) -> list[tuple[str, str]]:
    """Parameters of a lookup. A key that is None is asked for as null, one with several values as any of them."""
    found = [("null", name) for name, value in keys.items() if value is None]
    for name, value in keys.items():
        several = value if isinstance(value, list | tuple | set) else [] if value is None else [value]
        found += [(f"key.{name}", plain(one)) for one in several]
    return found + [(name, plain(value)) for name, value in more.items() if value is not None]


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} seconds"
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def text_of(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def frame_of(content: bytes) -> pl.DataFrame:
    import polars as pl
    import pyarrow as pa

    return pl.DataFrame(pl.from_arrow(pa.ipc.open_stream(content).read_all()))


def stream_of(frame: Any) -> bytes:
    import polars as pl
    import pyarrow as pa

    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    found: bytes = out.getvalue().to_pybytes()
    return found


def refused(answer: httpx.Response) -> ServerError:
    try:
        told = answer.json()
        return ServerError(answer.status_code, told["error"], detail=told.get("detail"), hint=told.get("hint"))
    except (ValueError, KeyError, TypeError):
        return ServerError(answer.status_code, f"the server answered {answer.status_code}")


def unreachable(url: str, error: Exception) -> ServerError:
    return ServerError(None, f"the server at {url} cannot be reached: {error}", hint="start it: penstock serve")
