"""A client of an app's HTTP server: views as rows, frames and iterators, and events sent to streams.

import penstock

shop = penstock.connect("http://127.0.0.1:8765")
shop.view("trending").get(tag="x")          # the newest row of a key
shop.view("trending").to_polars()
token = shop.stream("posts").send([{"tag": "x"}])
shop.view("trending").get(tag="x", after=token)
for pane in shop.view("trending").subscribe(): …
"""

from __future__ import annotations

import html
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.errors import PenstockError

if TYPE_CHECKING:
    import httpx
    import polars as pl

Row: TypeAlias = dict[str, Any]
_API: Final = "/api/v1"
_ARROW: Final = "application/vnd.apache.arrow.stream"
#: So many rows a notebook shows, and so many a page has.
_SHOWN, _PAGE = 20, 5_000
#: A stream of events is never silent for so many seconds; other answers come sooner.
_SILENCE, _SECONDS = 60.0, 70.0


class ServerError(PenstockError):
    """The server has refused a request, or cannot be reached. `status` is what it answered, if it did."""

    def __init__(self, status: int | None, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.status = status


def connect(url: str, token: str | None = None, *, verify: bool | str = True) -> Client:
    """A client of the server at a URL. `verify`: a file of certificates, or False to trust anyone."""
    return Client(url, token, verify=verify)


class Client:
    """Speaks to one server. Safe for several threads."""

    def __init__(self, url: str, token: str | None = None, *, verify: bool | str = True) -> None:
        try:
            import httpx
        except ImportError:
            raise PenstockError("the client needs httpx", hint="pip install 'penstock[client]'") from None
        self.url = url.rstrip("/").removesuffix(_API)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # One context for all connections: to make one takes longer than most answers.
        self._verify = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
        self._http = httpx.Client(base_url=self.url, headers=self._headers, verify=self._verify, timeout=_SECONDS)

    def views(self) -> list[View]:
        """All views."""
        return [View(self, told["name"]) for told in self._json("GET", "/views")]

    def view(self, name: str) -> View:
        """A view by its name; whether it is there shows when it is asked."""
        return View(self, name)

    def streams(self) -> list[Row]:
        """All streams, with what was counted of them."""
        found: list[Row] = self._json("GET", "/streams")
        return found

    def sinks(self) -> list[Row]:
        """All sinks, and how far each is."""
        found: list[Row] = self._json("GET", "/sinks")
        return found

    def stream(self, name: str) -> Stream:
        """A stream that takes events."""
        return Stream(self, name)

    def query(
        self, sql: str, parameters: Mapping[str, object] | Sequence[object] = (), *, after: str | None = None,
        timeout: str = "10s",
    ) -> pl.DataFrame:  # fmt: skip
        """The answer to a SELECT over views; parameters stand as :name or ? in it."""
        body = {"sql": sql, "parameters": parameters or {}}
        asked = {} if after is None else {"after": after, "timeout": timeout}
        return _frame(self._send("POST", "/query", params=asked, json=body, headers={"Accept": _ARROW}).content)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"penstock.connect({self.url!r})"

    def _json(self, method: str, path: str, **given: Any) -> Any:
        return self._send(method, path, **given).json()

    def _send(self, method: str, path: str, **given: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._http.request(method, _API + path, **given)
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error
        if answer.is_error:
            raise _refused(answer)
        return answer


class Stream:
    """A stream of the server's that takes events over HTTP."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name

    def send(
        self,
        rows: Iterable[Mapping[str, object]] | pl.DataFrame,
        *,
        key: str | None = None,
        keep_malformed: bool = False,
    ) -> str:
        """Sends events, and returns when they are durable: the token for `after=`.

        With a `key` they are written once, however often they are sent within a day.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        if hasattr(rows, "to_arrow"):
            headers["Content-Type"], body = _ARROW, _stream_of(rows)
        else:
            headers["Content-Type"] = "application/x-ndjson"
            body = "".join(json.dumps(row, default=_plain) + "\n" for row in rows).encode()
        asked = {"malformed": "keep"} if keep_malformed else {}
        path = f"/streams/{_quoted(self.name)}"
        told = self._client._json("POST", path, params=asked, headers=headers, content=body)
        return str(told["token"])


class View:
    """A view of the server's. In a notebook it shows its newest rows."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name
        self._path = f"/views/{_quoted(name)}"

    def schema(self) -> Row:
        """Its keys, columns, watermark and definition."""
        found: Row = self._client._json("GET", f"{self._path}/schema")
        return found

    def get(
        self, *, window_start: datetime | str | int | None = None, after: str | None = None, timeout: str = "10s",
        **keys: object,
    ) -> Row | None:  # fmt: skip
        """The row of a key: of its newest window, or of the one that starts then; None if there is none."""
        found = self._page(_asked(keys, {"window_start": window_start, "limit": 1}), after, timeout)
        return found["rows"][0] if found["rows"] else None

    def rows(
        self, *, start: datetime | str | None = None, end: datetime | str | None = None, final: bool | None = None,
        order: str = "newest", limit: int | None = None, after: str | None = None, timeout: str = "10s", **keys: object,
    ) -> Iterator[Row]:  # fmt: skip
        """Rows by key and window, page by page: windows that start from `start` to before `end`."""
        cursor, left = None, limit
        while left is None or left > 0:
            page = min(_PAGE, left) if left is not None else _PAGE
            more = {"from": start, "to": end, "final": final, "order": order, "limit": page, "cursor": cursor}
            found = self._page(_asked(keys, more), after, timeout)
            yield from found["rows"]
            cursor, after = found["next"], None
            left = None if left is None else left - len(found["rows"])
            if cursor is None:
                return

    def _page(self, asked: list[tuple[str, str]], after: str | None, timeout: str) -> Any:
        fresh = [] if after is None else [("after", after), ("timeout", timeout)]
        return self._client._json("GET", self._path, params=[*asked, *fresh])

    def to_polars(self, *, after: str | None = None, timeout: str = "10s", **keys: object) -> pl.DataFrame:
        """All rows, or those of a key, in the view's types."""
        import polars as pl

        frames, cursor = [], None
        while True:
            asked = _asked(keys, {"limit": _PAGE, "cursor": cursor, "format": "arrow", "order": "oldest"})
            fresh = [] if after is None else [("after", after), ("timeout", timeout)]
            answer = self._client._send("GET", self._path, params=[*asked, *fresh])
            frames.append(_frame(answer.content))
            cursor, after = answer.headers.get("penstock-next"), None
            if cursor is None:
                return pl.concat(frames)

    def to_pandas(self, *, after: str | None = None, timeout: str = "10s", **keys: object) -> Any:
        """The same as a frame of pandas."""
        return self.to_polars(after=after, timeout=timeout, **keys).to_pandas()

    # panes

    def subscribe(self, *, last: int | None = None, snapshot: bool = False) -> Iterator[Row]:
        """The panes of the view as they fire; each has its id as `pane`. It never ends by itself.

        `last` goes on after that pane. A connection that breaks is made anew, without a gap. With a `snapshot` the
        rows of now come first.
        """
        import httpx

        follower = _Follower(last, snapshot)
        while True:
            try:
                given = follower.request(self._client._headers)
                with self._client._http.stream(
                    "GET", f"{_API}{self._path}/subscribe", timeout=_SILENCE, **given
                ) as answer:
                    if answer.is_error:
                        answer.read()
                        raise _refused(answer)
                    for line in answer.iter_lines():
                        if (row := follower.take(line)) is not None:
                            yield row
            except httpx.TransportError as error:
                follower.broke(self._client.url, error)
            time.sleep(follower.pause())

    async def asubscribe(self, *, last: int | None = None, snapshot: bool = False) -> AsyncIterator[Row]:
        """The same for `async for`."""
        import asyncio

        import httpx

        follower, client = _Follower(last, snapshot), self._client
        async with httpx.AsyncClient(base_url=client.url, verify=client._verify, timeout=_SILENCE) as http:
            while True:
                try:
                    given = follower.request(client._headers)
                    async with http.stream("GET", f"{_API}{self._path}/subscribe", **given) as answer:
                        if answer.is_error:
                            await answer.aread()
                            raise _refused(answer)
                        async for line in answer.aiter_lines():
                            if (row := follower.take(line)) is not None:
                                yield row
                except httpx.TransportError as error:
                    follower.broke(client.url, error)
                await asyncio.sleep(follower.pause())

    def __repr__(self) -> str:
        return f"{self._client!r}.view({self.name!r})"

    def _repr_html_(self) -> str:
        """A table of the newest rows. What a view holds is text, never markup."""
        found = self._page(_asked({}, {"limit": _SHOWN}), None, "0s")
        names = [column["name"] for column in found["columns"]]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        lines = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_text(row[name]))}</td>" for name in names) + "</tr>"
            for row in found["rows"]
        )
        more = f"<p>the newest {_SHOWN} rows; there are more</p>" if found["next"] else ""
        return f"<table><caption>{html.escape(self.name)}</caption><tr>{head}</tr>{lines}</table>{more}"


class _Follower:
    """Reads server-sent events line by line, and knows where to go on when the connection breaks."""

    def __init__(self, last: int | None, snapshot: bool) -> None:
        self._last, self._snapshot, self._heard = last, snapshot, False
        self._kind, self._id, self._data = "", None, ""  # type: tuple[str, int | None, str]
        self._tries = 0

    def request(self, headers: Mapping[str, str]) -> dict[str, Any]:
        self._heard = False
        more = {} if self._last is None else {"Last-Event-ID": str(self._last)}
        return {"headers": {**headers, **more}, "params": {"snapshot": "true"} if self._snapshot else {}}

    def take(self, line: str) -> Row | None:
        """The row that ends with this line, if one does."""
        name, _, value = line.partition(":")
        if name == "event":
            self._kind = value.strip()
        elif name == "id":
            self._id = int(value)
        elif name == "data":
            self._data = value
        if line or not self._kind:
            return None
        kind, id, data = self._kind, self._id, json.loads(self._data)
        self._kind, self._id, self._data = "", None, ""
        self._heard, self._tries = True, 0
        if id is not None:
            self._last = id
        if kind == "end":
            if "stops" not in data["error"]:
                raise ServerError(None, data["error"], detail=data.get("detail"), hint=data.get("hint"))
            return None
        if kind == "pane":
            self._snapshot = False
        return data if kind in ("pane", "row") else None

    def broke(self, url: str, error: Exception) -> None:
        """A connection that was never made, or that breaks again and again, is an error."""
        if self._last is None or self._tries >= 10:
            raise _unreachable(url, error) from error

    def pause(self) -> float:
        """How many seconds to wait before another try."""
        self._tries += 1
        self._snapshot = self._snapshot and self._last is None
        return min(5.0, 0.1 * (1 << self._tries))


def _asked(keys: Mapping[str, object], more: Mapping[str, object]) -> list[tuple[str, str]]:
    """Parameters of a lookup. A key that is None is asked for as null, one with several values as any of them."""
    found = [("null", name) for name, value in keys.items() if value is None]
    for name, value in keys.items():
        several = value if isinstance(value, list | tuple | set) else [] if value is None else [value]
        found += [(f"key.{name}", _plain(one)) for one in several]
    return found + [(name, _plain(value)) for name, value in more.items() if value is not None]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} seconds"
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def _frame(content: bytes) -> pl.DataFrame:
    import polars as pl
    import pyarrow as pa

    return pl.DataFrame(pl.from_arrow(pa.ipc.open_stream(content).read_all()))


def _stream_of(frame: Any) -> bytes:
    import polars as pl
    import pyarrow as pa

    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    found: bytes = out.getvalue().to_pybytes()
    return found


def _refused(answer: httpx.Response) -> ServerError:
    try:
        told = answer.json()
        return ServerError(answer.status_code, told["error"], detail=told.get("detail"), hint=told.get("hint"))
    except (ValueError, KeyError, TypeError):
        return ServerError(answer.status_code, f"the server answered {answer.status_code}")


def _unreachable(url: str, error: Exception) -> ServerError:
    return ServerError(None, f"the server at {url} cannot be reached: {error}", hint="start it: penstock serve")
