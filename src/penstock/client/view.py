"""A view of a server's: rows, frames, panes, and a table in a notebook."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.client.follow import Follower
from penstock.client.wire import API, Row, asked, frame_of, quoted, refused, text_of, timeout_text, typed
from penstock.html_table import html_table

if TYPE_CHECKING:
    import polars as pl

    from penstock.client import Client

#: How many rows a notebook shows.
_SHOWN: Final = 20
#: A stream of events is never silent for this many seconds.
_SILENCE: Final = 60.0


class View:
    """A view of the server's, read in pages of `page` rows. In a notebook it shows its newest rows."""

    def __init__(self, client: Client, name: str, page: int = 5_000) -> None:
        self._client, self.name, self._page_rows = client, name, page
        self._path = f"/views/{quoted(name)}"

    def schema(self) -> Row:
        """Its keys, columns, watermark and definition."""
        schema: Row = self._client._json("GET", f"{self._path}/schema")
        return schema

    def get(
        self, *, window_start: datetime | str | int | None = None, after: str | None = None,
        timeout: str | timedelta = "10s", **keys: object,
    ) -> Row | None:  # fmt: skip
        """The row of a key: of its newest window, or of the one that starts then; None if there is none."""
        page = self._page(asked(keys, {"window_start": window_start, "limit": 1}), after, timeout)
        rows = typed(page["rows"], page["columns"])
        return rows[0] if rows else None

    def rows(
        self, *, start: datetime | str | None = None, end: datetime | str | None = None, final: bool | None = None,
        order: str = "newest", limit: int | None = None, after: str | None = None,
        timeout: str | timedelta = "10s", **keys: object,
    ) -> Iterator[Row]:  # fmt: skip
        """Rows by key and window, page by page: windows that start from `start` to before `end`."""
        cursor, left = None, limit
        while left is None or left > 0:
            page = self._page_rows if left is None else min(self._page_rows, left)
            more = {"from": start, "to": end, "final": final, "order": order, "limit": page, "cursor": cursor}
            answer = self._page(asked(keys, more), after, timeout)
            yield from typed(answer["rows"], answer["columns"])
            cursor, after = answer["next"], None
            left = None if left is None else left - len(answer["rows"])
            if cursor is None:
                return

    def _page(self, parameters: list[tuple[str, str]], after: str | None, timeout: str | timedelta) -> Any:
        fresh = [] if after is None else [("after", after), ("timeout", timeout_text(timeout))]
        return self._client._json("GET", self._path, params=[*parameters, *fresh])

    def to_polars(self, *, after: str | None = None, timeout: str | timedelta = "10s", **keys: object) -> pl.DataFrame:
        """All rows, or those of a key, in the view's types."""
        import polars as pl

        frames, cursor = [], None
        while True:
            parameters = asked(keys, {"limit": self._page_rows, "cursor": cursor, "format": "arrow", "order": "oldest"})
            fresh = [] if after is None else [("after", after), ("timeout", timeout_text(timeout))]
            answer = self._client._send("GET", self._path, params=[*parameters, *fresh])
            frames.append(frame_of(answer.content))
            cursor, after = answer.headers.get("penstock-next"), None
            if cursor is None:
                return pl.concat(frames)

    def to_pandas(self, *, after: str | None = None, timeout: str | timedelta = "10s", **keys: object) -> Any:
        """The same as a frame of pandas."""
        return self.to_polars(after=after, timeout=timeout, **keys).to_pandas()

    # panes

    def subscribe(self, *, last: int | None = None, snapshot: bool = False) -> Iterator[Row]:
        """The panes of the view as they fire; each has its id as `pane`. It never ends by itself.

        `last` goes on after that pane. A connection that breaks is made again, without a gap. With a `snapshot` the
        current rows come first.
        """
        import httpx

        follower = Follower(last, snapshot)
        while True:
            try:
                request = follower.request(self._client._headers)
                with self._client._http.stream(
                    "GET", f"{API}{self._path}/subscribe", timeout=_SILENCE, **request
                ) as answer:
                    if answer.is_error:
                        answer.read()
                        raise refused(answer)
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

        follower, client = Follower(last, snapshot), self._client
        async with httpx.AsyncClient(base_url=client.url, verify=client._verify, timeout=_SILENCE) as http:
            while True:
                try:
                    request = follower.request(client._headers)
                    async with http.stream("GET", f"{API}{self._path}/subscribe", **request) as answer:
                        if answer.is_error:
                            await answer.aread()
                            raise refused(answer)
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
        page = self._page(asked({}, {"limit": _SHOWN}), None, "0s")
        names = [column["name"] for column in page["columns"]]
        more = f" · its newest {_SHOWN} rows" if page["next"] else ""
        return html_table(names, ([row[name] for name in names] for row in page["rows"]), self.name + more, text_of)
