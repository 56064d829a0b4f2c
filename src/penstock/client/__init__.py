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

import json
import ssl
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.client.view import View
from penstock.client.wire import (
    API,
    ARROW,
    Row,
    ServerError,
    frame_of,
    plain,
    quoted,
    refused,
    stream_of,
    timeout_text,
    unreachable,
)
from penstock.errors import PenstockError

if TYPE_CHECKING:
    import httpx
    import polars as pl

#: The longest that an answer may take, in seconds.
_SECONDS: Final = 70.0


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
        self.url = url.rstrip("/").removesuffix(API)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # One context for all connections: to make one takes longer than most answers.
        self._verify = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
        self._http = httpx.Client(base_url=self.url, headers=self._headers, verify=self._verify, timeout=_SECONDS)

    def views(self) -> list[View]:
        """All views."""
        return [View(self, row["name"]) for row in self._json("GET", "/views")]

    def view(self, name: str) -> View:
        """A view by its name; whether it is there shows when it is asked."""
        return View(self, name)

    def streams(self) -> list[Row]:
        """All streams, with what was counted of them."""
        rows: list[Row] = self._json("GET", "/streams")
        return rows

    def sinks(self) -> list[Row]:
        """All sinks, and how far each is."""
        rows: list[Row] = self._json("GET", "/sinks")
        return rows

    def stream(self, name: str) -> Stream:
        """A stream that takes events."""
        return Stream(self, name)

    def query(
        self, sql: str, parameters: Mapping[str, object] | Sequence[object] = (), *, after: str | None = None,
        timeout: str | timedelta = "10s",
    ) -> pl.DataFrame:  # fmt: skip
        """The answer to a SELECT over views; parameters stand as :name or ? in it."""
        body = {"sql": sql, "parameters": parameters or {}}
        asked = {} if after is None else {"after": after, "timeout": timeout_text(timeout)}
        return frame_of(self._send("POST", "/query", params=asked, json=body, headers={"Accept": ARROW}).content)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"penstock.connect({self.url!r})"

    def _json(self, method: str, path: str, **options: Any) -> Any:
        return self._send(method, path, **options).json()

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._http.request(method, API + path, **options)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        if answer.is_error:
            raise refused(answer)
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
            headers["Content-Type"], body = ARROW, stream_of(rows)
        else:
            headers["Content-Type"] = "application/x-ndjson"
            body = "".join(json.dumps(row, default=plain) + "\n" for row in rows).encode()
        parameters = {"malformed": "keep"} if keep_malformed else {}
        path = f"/streams/{quoted(self.name)}"
        reply = self._client._json("POST", path, params=parameters, headers=headers, content=body)
        return str(reply["token"])


__all__ = ["Client", "ServerError", "Stream", "View", "connect"]
