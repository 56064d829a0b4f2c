"""The checks that every request passes first.

Host and origin, token and scope, rate, how many at a time, how large and how slow a body may be. And every answer gets
the headers that keep browsers from framing it, guessing its type or telling where it came from.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.serve.body import Body
from penstock.serve.errors import Answered
from penstock.serve.sessions import Sessions
from penstock.serve.settings import Settings
from penstock.serve.tokens import Token, Tokens

#: Answers of the API are data: nothing in them runs, and no page may show them in a frame.
_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_LOCAL: Final = {"localhost", "127.0.0.1", "::1"}
_SAFE: Final = {"GET", "HEAD", "OPTIONS"}
#: How many bytes may come before a body.
LARGEST_HEAD: Final = 32 << 10
#: Open to everyone, so that a process manager can check that the server is up.
_OPEN: Final = {"/health", "/ready"}
_IN_URL: Final = {"token", "access_token", "api_key", "authorization", "password"}

#: What is logged of a finished request: method, route, status, seconds, client, bytes sent.
LogRequest: TypeAlias = Callable[[str, str, int, float, str, int], None]


class Guard:
    """Wraps the whole app. `log_request` is called for each answered request."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens, log_request: LogRequest) -> None:
        self._app, self._settings, self._tokens, self._log_request = app, settings, tokens, log_request
        self._rates = _Rates(settings.limits.rate, settings.limits.burst)
        self._sessions = Sessions(tokens)
        self._active = self._subscribed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        began, client = time.perf_counter(), _client(scope)
        try:
            token = self._admitted(scope)
            client = client if token is None else token.name
            self._rates.check(client)
            await self._counted(scope, receive, answer, token)
        except Answered as error:
            await answer.refuse(error)
        except Exception:
            await answer.refuse(Answered(500, "the server has failed; its log says why"))
            raise
        finally:
            route = scope.get("route")
            path = getattr(route, "path", None) or ("other" if answer.status in (404, 405) else scope["path"])
            self._log_request(scope["method"], path, answer.status, time.perf_counter() - began, client, answer.sent)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A page's socket passes the same door: one of another origin does not get in."""
        try:
            token = self._admitted({**scope, "method": "POST"})
        except Answered:
            await send({"type": "websocket.close", "code": 1008})
            return
        with self._sessions.opened(token) as session:
            disconnect: Message = {"type": "websocket.disconnect", "code": 1008}
            await self._app(scope, session.receiving(receive, disconnect), session.sending(send))
            if session.revoked.is_set():
                await send({"type": "websocket.close", "code": 1008})

    # who

    def _admitted(self, scope: Scope) -> Token | None:
        headers = Headers(scope=scope)
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if size + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LARGEST_HEAD:
            raise Answered(431, "the head of the request is too large")
        if "content-length" in headers and "transfer-encoding" in headers:  # those on the way may see another body
            raise Answered(400, "a body has one length")
        required = self._tokens.are_required()
        if not required:
            self._check_host(headers)
        self._check_origin(scope, headers)
        if any(name.lower() in _IN_URL for name, _ in parse_qsl(scope["query_string"].decode("latin-1"))):
            raise Answered(400, "secrets do not belong in a URL", hint="send them as a header: Authorization")
        if scope["path"] in _OPEN:
            return None
        if not required:
            if not self._settings.is_local and not self._settings.insecure:
                raise Answered(401, "there are no tokens", hint="make one: penstock token create")
            return None
        return self._token(scope, headers)

    def _token(self, scope: Scope, headers: Headers) -> Token:
        values = headers.getlist("authorization")
        kind, _, secret = (values[0] if len(values) == 1 else "").partition(" ")
        token = self._tokens.find(secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            hint = "send the header Authorization: Bearer …"
            if not self._tokens.read():
                hint = "all tokens were removed: make one with penstock token create, or restart with --no-tokens"
            raise Answered(401, "a token is needed", hint=hint)
        wanted = _wanted(scope)
        if not token.allows(wanted):
            raise Answered(403, f"the token '{token.name}' does not allow to {wanted}")
        return token

    def _check_host(self, headers: Headers) -> None:
        """Without tokens, the Host header protects against DNS rebinding: it must name this machine."""
        values = headers.getlist("host")
        host = _host(values[0]) if len(values) == 1 else None
        if self._settings.is_local and host not in _LOCAL:
            raise Answered(421, "this server answers to localhost only", hint="ask for http://127.0.0.1")

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Pages of other sites may not send anything; browsers hide the answers from them."""
        if scope["method"] in _SAFE:
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if site in ("cross-site", "same-site"):
            raise Answered(403, "a page of another site must not send anything here")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise Answered(403, "a page of another origin must not send anything here")

    # how much

    async def _counted(self, scope: Scope, receive: Receive, answer: _Answer, token: Token | None) -> None:
        limits = self._settings.limits
        if scope["path"].endswith("/subscribe"):
            if self._subscribed >= limits.subscribers:
                raise Answered(503, f"{limits.subscribers} subscribers are connected, which is the limit", retry=10)
            self._subscribed += 1
            try:
                with self._sessions.opened(token) as session:
                    body = Body(scope, receive, limits.body, limits.body_seconds)
                    await self._app(scope, session.receiving(body, {"type": "http.disconnect"}), answer)
                    if session.revoked.is_set():
                        await answer.end(b'event: end\ndata: {"error": "the token was removed"}\n\n')
            finally:
                self._subscribed -= 1
            return
        if self._active >= limits.requests and scope["path"] not in _OPEN:
            raise Answered(503, f"{limits.requests} requests are running, which is the limit", retry=1)
        self._active += 1
        try:
            body = Body(scope, receive, limits.body, limits.body_seconds)
            if token is not None:
                answer.allowed = lambda: self._tokens.holds(token)
            await self._app(scope, body, answer)
        finally:
            self._active -= 1


class _Answer:
    """What is sent, with the headers that every answer has."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._api = scope["path"].startswith(("/api/", "/metrics", "/health", "/ready"))
        self.status, self.sent, self._begun, self._over = 500, 0, False, False
        self.allowed: Callable[[], bool] = lambda: True  # a token may be removed while its answer is computed

    async def __call__(self, message: Message) -> None:
        if self._over:
            return
        if message["type"] == "http.response.start":
            if message["status"] < 400 and not self.allowed():
                await self.refuse(Answered(401, "the token was removed"))
                self._over = True
                return
            self.status, self._begun = message["status"], True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if self._api:
                headers["Content-Security-Policy"] = _POLICY
                headers.setdefault("Cache-Control", "no-store")
        elif message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
        await self._send(message)

    async def end(self, body: bytes) -> None:
        """The last part of an answer that has begun."""
        if self._begun:
            await self({"type": "http.response.body", "body": body})

    async def refuse(self, error: Answered) -> None:
        """An error as the answer, unless one has begun."""
        self.status = error.status
        if self._begun:
            return
        body = json.dumps(error.body, ensure_ascii=False).encode("utf-8", "replace")
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
        if error.status in (408, 413):
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


class _Rates:
    """A bucket for each client that fills with time; the clients of the last while are remembered."""

    def __init__(self, rate: float, burst: float, clients: int = 10_000) -> None:
        self._rate, self._burst, self._clients = rate, burst, clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str) -> None:
        now = time.monotonic()
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left >= 1:
            self._buckets[client] = (left - 1, now)
        else:
            self._buckets[client] = (left, now)
            raise Answered(429, f"more than {self._rate:g} requests a second", retry=1)
        if len(self._buckets) > self._clients:
            self._buckets.popitem(last=False)


def _wanted(scope: Scope) -> str:
    """The scope that a request needs: a query needs `read`, also where it comes as a body."""
    if scope["method"] in _SAFE or scope["type"] == "websocket" or scope["path"].rstrip("/").endswith("/query"):
        return "read"
    return "write" if scope["path"].startswith("/api/v1/streams/") else "admin"


def _client(scope: Scope) -> str:
    client: Any = scope.get("client")
    return client[0] if client else "unknown"


def _host(header: str) -> str | None:
    """The host of a Host header, without its port.

    >>> _host("localhost:80"), _host("[::1]:80"), _host("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
