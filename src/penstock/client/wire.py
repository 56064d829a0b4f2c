"""What the parts of the client share: how values travel, and the errors that come back."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.errors import PenstockError

if TYPE_CHECKING:
    import httpx
    import polars as pl

Row: TypeAlias = dict[str, Any]
Turn: TypeAlias = Callable[[Any], Any]
API: Final = "/api/v1"
ARROW: Final = "application/vnd.apache.arrow.stream"


class ServerError(PenstockError):
    """The server has refused a request, or cannot be reached. `status` is what it answered, if it did."""

    def __init__(self, status: int | None, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.status = status


def typed(rows: list[Row], columns: list[Row]) -> list[Row]:
    """Rows of an answer in Python's types, by the types of its columns."""
    turns = {column["name"]: turn for column in columns if (turn := turn_of(column["type"])) is not None}
    for row in rows:
        for name, turn in turns.items():
            if row.get(name) is not None:
                row[name] = turn(row[name])
    return rows


def turn_of(kind: str) -> Turn | None:
    """What makes a value of JSON one of Python; none where it is one already.

    >>> turn_of("array<decimal(4,2)>")(["1.50", None])
    [Decimal('1.50'), None]
    >>> turn_of("timestamp")("2024-05-01T12:00:00.5Z")
    datetime.datetime(2024, 5, 1, 12, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    >>> turn_of("map<int,date>")({"7": "2024-05-01", "8": None})
    {7: datetime.date(2024, 5, 1), 8: None}
    """
    if kind in _TURNS:
        return _TURNS[kind]
    head, _, inner = kind.removesuffix(">").partition("<")
    if kind.startswith("decimal("):
        return Decimal
    if head == "array":
        element = turn_of(inner)
        return None if element is None else lambda values: [v if v is None else element(v) for v in values]
    if head == "struct":
        fields = (part.split(":", 1) for part in _split(inner))
        turns = {name.strip(): turn for name, part in fields if (turn := turn_of(part.strip())) is not None}
        return lambda row: {n: turns[n](v) if n in turns and v is not None else v for n, v in row.items()}
    if head == "map":
        of_key, of_item = (part.strip() for part in _split(inner))
        key, item = _KEYS.get(of_key) or turn_of(of_key) or str, turn_of(of_item)
        return lambda items: {key(k): v if v is None or item is None else item(v) for k, v in items.items()}
    return None


def _moment(text: Any) -> Any:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return text  # of a year that Python does not have


def _day(text: str) -> Any:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


_TURNS: Final[dict[str, Turn]] = {
    "timestamp": _moment, "timestamp_ntz": _moment, "date": _day, "float": float, "double": float,
    "binary": b64decode,
}  # fmt: skip
#: JSON has texts for keys only.
_KEYS: Final[dict[str, Turn]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int), "boolean": lambda text: text == "true",
}  # fmt: skip


def _split(text: str) -> list[str]:
    """Splits types at the commas that stand outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def asked(keys: Mapping[str, object], more: Mapping[str, object]) -> list[tuple[str, str]]:
    """Parameters of a lookup. A key that is None is asked for as null, one with several values as any of them."""
    parameters = [("null", name) for name, value in keys.items() if value is None]
    for name, value in keys.items():
        several = value if isinstance(value, list | tuple | set) else [] if value is None else [value]
        parameters += [(f"key.{name}", plain(one)) for one in several]
    return parameters + [(name, plain(value)) for name, value in more.items() if value is not None]


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} seconds"
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def text_of(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def timeout_text(timeout: str | timedelta) -> str:
    """How long the server may wait.

    >>> timeout_text(timedelta(milliseconds=500)), timeout_text("10s")
    ('500ms', '10s')
    """
    return timeout if isinstance(timeout, str) else f"{timeout // timedelta(milliseconds=1)}ms"


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
    data: bytes = out.getvalue().to_pybytes()
    return data


def refused(answer: httpx.Response) -> ServerError:
    try:
        content = answer.json()
        return ServerError(answer.status_code, content["error"], detail=content.get("detail"), hint=content.get("hint"))
    except (ValueError, KeyError, TypeError):
        return ServerError(answer.status_code, f"the server answered {answer.status_code}")


def unreachable(url: str, error: Exception) -> ServerError:
    return ServerError(None, f"the server at {url} cannot be reached: {error}", hint="start it: penstock serve")
