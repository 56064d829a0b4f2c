"""Requests of a sink over HTTP: how they are signed, sent, and what their answers mean.

>>> signature("whsec_" + b64encode(b"key").decode(), "msg_1", 1700000000, b"[]")
'v1,zR1DWd3x2OgxpxuqtvqGBSWxinLUG56JCISpGgEMg0E='
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import re
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import SplitResult, urlsplit

from penstock.redaction import HIDDEN, is_secret_header
from penstock.sinks.base import SinkError

#: A variable of the environment in an address or a header.
VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
#: Responses that the request causes; all others are caused by the receiver, and may change.
_ABOUT_THE_PANES: Final = frozenset({400, 406, 409, 411, 412, 413, 414, 415, 417, 418, 422, 428, 431, 451})
_ANSWER: Final = 64 * 1024


@dataclass(frozen=True)
class Answer:
    """The response of a receiver."""

    status: int
    text: str
    retry_after: float | None = None

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refuses_panes(self) -> bool:
        return self.status in _ABOUT_THE_PANES


class Sender:
    """Sends bodies to one address, one at a time, over a connection that it keeps."""

    def __init__(self, url: str, headers: Mapping[str, str], secret: str | None, timeout: float) -> None:
        self._shown = shown(url)
        self._headers = {name: filled(value) for name, value in headers.items()}
        self._secret = None if secret is None else _variable(secret)
        self._split, self._timeout = urlsplit(filled(url)), timeout
        self._connection: http.client.HTTPConnection | None = None

    def send(self, body: bytes, key: str, headers: Mapping[str, str]) -> Answer:
        """Posts a body; raises where no answer came. A connection that was closed meanwhile is opened once more."""
        now = int(time.time())
        all_headers = {
            **headers,
            **self._headers,
            "Idempotency-Key": key,
            "webhook-id": key,
            "webhook-timestamp": str(now),
        }
        if self._secret is not None:
            all_headers["webhook-signature"] = signature(self._secret, key, now, body)
        is_old = self._connection is not None
        try:
            return self._post(body, all_headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            closed = isinstance(error, (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError))
            if is_old and closed:
                return self._again(body, all_headers)
            raise self._no_answer(error) from None

    def _again(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            return self._post(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._no_answer(error) from None

    def _post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self._connection is None:
            self._connection = _connection(self._split, self._timeout)
        path = (self._split.path or "/") + (f"?{self._split.query}" if self._split.query else "")
        self._connection.request("POST", path, body, dict(headers))
        response = self._connection.getresponse()
        text = response.read(_ANSWER)
        if response.read(1) or response.will_close:
            self.close()
        return Answer(response.status, text.decode("utf-8", "replace"), _retry_after(response.getheader("Retry-After")))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _no_answer(self, error: Exception) -> SinkError:
        detail = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        return SinkError(f"cannot post to {self._shown}", detail=detail, hint="check that it can be reached from here")

    def failed(self, answer: Answer) -> SinkError:
        """The error for a response after which the request is retried."""
        hint = "the panes are sent again"
        if 300 <= answer.status < 400:
            hint = "redirects are not followed: give the final address"
        elif answer.status in (401, 403, 407):
            hint = "check the headers and the secret that the receiver expects"
        error = SinkError(f"{self._shown} answers {answer.status}", detail=described(answer), hint=hint)
        error.retry_after = answer.retry_after
        return error


def signature(secret: str, key: str, now: int, body: bytes) -> str:
    """The signature of a body, in the format of 'Standard Webhooks'."""
    raw = b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    signed = hmac.new(raw, f"{key}.{now}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{b64encode(signed).decode()}"


def filled(text: str) -> str:
    """The text with the variables of the environment that it names."""
    return VARIABLE.sub(lambda match: _variable(match[1]), text)


def shown(url: str) -> str:
    """An address as it may be shown: with the names of variables, and without what else its query says.

    >>> shown("https://h/x?token=abc"), shown("https://h/x?token=${TOKEN}")
    ('https://h/x?…', 'https://h/x?token=${TOKEN}')
    """
    place, _, query = url.partition("?")
    named = all(VARIABLE.fullmatch(part.partition("=")[2]) for part in query.split("&"))
    return f"{place}?{query if named else '…'}" if query else place


def shown_header(name: str, value: str) -> str:
    """A header's value as it may be shown: what comes from the environment is named, other secrets are left out."""
    return value if VARIABLE.search(value) or not is_secret_header(name) else HIDDEN


def described(answer: Answer) -> str:
    """The beginning of an answer's text."""
    text = " ".join(answer.text.split())
    return text[:200] + "…" if len(text) > 200 else text or "it sent no other message"


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SinkError(f"the variable {name} of the environment is not set", hint=f"export {name}=… before the start")
    return value


def _connection(split: SplitResult, timeout: float) -> http.client.HTTPConnection:
    assert split.hostname is not None
    if split.scheme == "https":
        return http.client.HTTPSConnection(
            split.hostname, split.port, timeout=timeout, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(split.hostname, split.port, timeout=timeout)


def _retry_after(text: str | None) -> float | None:
    """How many seconds a receiver wants to be left alone: it says so in seconds, or until when.

    >>> _retry_after("120"), _retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), _retry_after("soon")
    (120.0, 0.0, None)
    """
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None
