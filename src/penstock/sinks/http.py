"""A sink that is an HTTP endpoint: panes are posted as JSON, at least once, with keys for deduplication.

>>> to_http("https://example.com/hooks/trending", secret="HOOK_SECRET", batch=100)
ps.to_http('https://example.com/hooks/trending', batch=100, secret='HOOK_SECRET')

A request holds panes of one commit only. So one that is repeated, after an answer was lost or the app was killed, is
the same request under the same `Idempotency-Key`: a receiver that remembers the keys counts each pane once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import ClassVar, Final, Literal
from urllib.parse import quote, urlsplit

from penstock.errors import DefinitionError, unknown
from penstock.model.time import in_seconds
from penstock.sinks.base import Batch, Mode, OpenSink, Sink, SinkError, Target, above_zero
from penstock.sinks.files import plain
from penstock.sinks.http_sender import VARIABLE, Answer, Sender, described, shown, shown_header
from penstock.sinks.refused import RefusedPanes
from penstock.sinks.rows import Row

_log = logging.getLogger("penstock.sinks")
_ROWS: Final = 500
_SECONDS: Final = 30.0
_FORMATS: Final = {"array": "application/json", "lines": "application/x-ndjson"}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = ("content-type", "content-length", "host", "idempotency-key", "webhook-id", "webhook-timestamp",
                "webhook-signature")  # fmt: skip


@dataclass(frozen=True, repr=False)
class Http(Sink):
    """An address, and up to `batch` panes in a request."""

    url: str
    batch: int = _ROWS
    headers: tuple[tuple[str, str], ...] = ()
    secret: str | None = None
    timeout: float = _SECONDS
    format: Literal["array", "lines"] = "array"
    on_refusal: Literal["stop", "set aside"] = "stop"
    refused: str | None = None

    modes: ClassVar[tuple[Mode, ...]] = ("panes", "append", "update")
    whole_commits: ClassVar[bool] = True  # so that requests are cut at the same places each time

    @property
    def rows(self) -> int:
        return self.batch * 20

    def open(self, target: Target) -> OpenSink:
        return _Posting(self, target)

    def __repr__(self) -> str:
        def headers(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
            return {name: shown_header(name, text) for name, text in pairs}

        return self.written("to_http", "url", url=shown, headers=headers)


class _Posting(OpenSink):
    def __init__(self, sink: Http, target: Target) -> None:
        self._sink, self._target, self._delivery_name = sink, target, target.delivery_name
        self._sender = Sender(sink.url, dict(sink.headers), sink.secret, sink.timeout)
        self._refused = None if sink.refused is None else RefusedPanes(sink.refused, target)
        self._done = 0  # the last pane of this process that was taken or set aside
        self._open = 0  # the last pane of a request that has no answer yet

    @property
    def refused(self) -> int:
        return 0 if self._refused is None else self._refused.count

    def take(self, batch: Batch) -> None:
        for rows in self._requests([row for row in batch.rows if row["pane"] > self._done]):
            self._target.check_owner()
            self._open = rows[-1]["pane"]
            self._post(rows)
            self._done = rows[-1]["pane"]

    def _requests(self, rows: list[Row]) -> Iterator[list[Row]]:
        """The rows of each request. Rows of a flow know no commit: there, one that has no answer is cut as before."""
        unanswered = self._open
        for _, group in groupby(rows, key=lambda row: row.get("commit", row["pane"] <= unanswered)):
            rows_of_commit = list(group)
            for start in range(0, len(rows_of_commit), self._sink.batch):
                yield rows_of_commit[start : start + self._sink.batch]

    def _post(self, rows: list[Row]) -> None:
        """Posts rows; if some are rejected, they are found by halves, and the others posted."""
        answer = self._send(rows)
        if answer.is_taken:
            return
        if not answer.refuses_panes:
            raise self._sender.failed(answer)
        if len(rows) == 1:
            self._refuse(rows[0], answer)
            return
        half = len(rows) // 2
        self._post(rows[:half])
        self._done = rows[half - 1]["pane"]
        self._post(rows[half:])

    def _send(self, rows: list[Row]) -> Answer:
        texts = [json.dumps(plain(row), ensure_ascii=False, allow_nan=False, separators=(",", ":")) for row in rows]
        lines = self._sink.format == "lines"
        body = ("".join(f"{text}\n" for text in texts) if lines else f"[{','.join(texts)}]").encode()
        headers = {
            "Content-Type": _FORMATS[self._sink.format], "User-Agent": "penstock", "Accept": "*/*",
            "Penstock-View": quote(self._target.view),
        }  # fmt: skip
        return self._sender.send(body, self._key(rows, body), headers)

    def _key(self, rows: list[Row], body: bytes) -> str:
        """The same for the same panes, and another for others: a new store counts from 1 again."""
        target, content = self._target, hashlib.sha256(body).hexdigest()[:12]
        names = ":".join(quote(name, safe="") for name in (target.app, self._delivery_name))
        return f"{names}:{rows[0]['pane']}-{rows[-1]['pane']}:{content}"

    def _refuse(self, row: Row, answer: Answer) -> None:
        if self._refused is None:
            raise SinkError(
                f"{shown(self._sink.url)} refuses the pane {row['pane']} of '{self._target.view}' with {answer.status}",
                detail=described(answer),
                hint="the sink retries until it is accepted; on_refusal='set aside' continues without it",
            )
        self._refused.add(row, answer.status, described(answer))
        _log.warning(
            "the sink '%s' has set aside the pane %d, refused with %d: %s",
            self._target.sink, row["pane"], answer.status, described(answer),
        )  # fmt: skip

    def close(self) -> None:
        self._sender.close()


def to_http(
    url: str,
    *,
    batch: int = _ROWS,
    headers: Mapping[str, str] | None = None,
    secret: str | None = None,
    timeout: float | str | timedelta = _SECONDS,
    format: Literal["array", "lines"] = "array",
    on_refusal: Literal["stop", "set aside"] = "stop",
    refused: str | None = None,
    mode: Mode = "panes",
) -> Http:
    """Panes posted to an address as JSON, up to `batch` of one commit at once, in order, at least once.

    `${NAME}` in the address and in headers is a variable of the environment; `secret` names the variable with the key
    that requests are signed with. `format` is one array, or lines. A pane that the receiver refuses stops the sink, or
    is set aside in the directory `refused`.
    """
    _check_url(url)
    above_zero(batch, "the batch of a web address")
    seconds = in_seconds(timeout)
    if not seconds > 0:
        raise DefinitionError(f"timeout must be above zero, and is {timeout!r}", hint="timeout='30 seconds'")
    if format not in _FORMATS:
        raise unknown("format of requests", str(format), _FORMATS)
    if on_refusal not in ("stop", "set aside"):
        raise unknown("handling of refused panes", str(on_refusal), ("stop", "set aside"))
    if (on_refusal == "set aside") != (refused is not None):
        raise DefinitionError(
            "panes that are refused are set aside in a directory, which must be named",
            hint="to_http(…, on_refusal='set aside', refused='refused/trending')",
        )
    if secret is not None and not re.fullmatch(r"\w+", secret):
        raise DefinitionError(
            "secret names a variable of the environment, and is not the secret itself", hint="secret='HOOK_SECRET'"
        )
    pairs = tuple((headers or {}).items())
    _check_headers(pairs)
    return Http(url, batch, pairs, secret, seconds, format, on_refusal, refused, mode=mode)


def _check_url(url: object) -> None:
    """Refuses what is not an address, without showing what may be secret in it."""
    hint = "for example ps.to_http('https://example.com/hooks/trending')"
    if not isinstance(url, str) or not re.match(r"(https?://|\$\{\w+\})", url):
        raise DefinitionError("not a URL", hint=hint)
    if VARIABLE.match(url):
        return
    try:
        split = urlsplit(VARIABLE.sub("x", url))
        _ = split.port
    except ValueError:
        raise DefinitionError("the URL cannot be read", hint=hint) from None
    if not split.hostname or re.search(r"[\s\x00-\x1f]", url):
        raise DefinitionError("the URL cannot be read", hint=hint)
    if "@" in split.netloc:
        raise DefinitionError(
            "a URL with a password in it", hint="give headers={'Authorization': 'Bearer ${TOKEN}'} instead"
        )


def _check_headers(headers: tuple[tuple[str, str], ...]) -> None:
    for name, value in headers:
        if not isinstance(name, str) or not isinstance(value, str) or not _TOKEN.fullmatch(name):
            raise DefinitionError(f"not a header: {name!r}", hint="headers={'Authorization': 'Bearer ${TOKEN}'}")
        if name.lower() in _OURS:
            raise DefinitionError(f"Penstock sets the header {name}")
        if re.search(r"[\r\n\x00]", value):
            raise DefinitionError(f"the header {name} has a line break in it")
