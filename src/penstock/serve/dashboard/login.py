"""Login of the pages: where tokens are needed, a page asks for one and a cookie keeps it.

A browser cannot send an Authorization header with a page, so that what the cookie holds is put into one here, and the
guard behind decides as it does for everybody. The cookie counts for pages only: for the API it does not exist.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.serve.body import Body
from penstock.serve.errors import Answered
from penstock.serve.tokens import Tokens

COOKIE: Final = "penstock_token"
PATH: Final = "/login"
_LARGEST: Final = 4096
#: Pages hold scripts of NiceGUI's, which compiles its templates in the browser. Nothing comes from elsewhere.
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_LOGIN_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_FORM: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;display:grid;place-items:center;min-height:90vh}
form{display:grid;gap:.8rem;width:min(22rem,90vw)}input,button{font:inherit;padding:.6rem .8rem;border-radius:.5rem;
border:1px solid #8886}button{background:#0f766e;color:#fff;border:0}p{margin:0;color:#c2410c;min-height:1.5em}
h1{font-size:1.4rem;margin:0}</style></head><body><form method="post" action="/login"><h1>Penstock</h1>
<label for="token">A token that may read, from <code>penstock token create --scope read</code></label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<p role="alert">%s</p><button>Open the dashboard</button></form></body></html>"""


def is_page(path: str) -> bool:
    """Whether a path is one of the dashboard's."""
    return path in ("/", "/favicon.ico") or path.startswith(("/_nicegui/", "/_nicegui_ws/"))


class Door:
    """Stands before the guard."""

    def __init__(self, app: ASGIApp, tokens: Tokens, secure: bool, body_seconds: float) -> None:
        self._app, self._tokens, self._secure, self._body_seconds = app, tokens, secure, body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] not in ("http", "websocket") or not (is_page(path) or path == PATH):
            await self._app(scope, receive, send)
            return
        if path == PATH and scope["type"] == "http" and self._tokens.are_required():
            await (await self._login(scope, receive))(scope, receive, send)
            return
        token = _cookie(scope)
        if token and "authorization" not in Headers(scope=scope):
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + token.encode("latin-1"))]}
        asks = path == "/" and scope["type"] == "http" and (token or "authorization" not in Headers(scope=scope))
        if asks and self._tokens.are_required() and not self._may_read(token):
            await RedirectResponse(PATH, 303, _plain_headers())(scope, receive, send)
            return
        await self._app(scope, receive, _with_policy(send) if scope["type"] == "http" else send)

    def _may_read(self, secret: str) -> bool:
        token = self._tokens.find(secret)
        return token is not None and token.allows("read")

    async def _login(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] in ("GET", "HEAD"):
            return _form("")
        if scope["method"] != "POST" or not _from_here(Headers(scope=scope)):
            return _form("A page of another site must not log in here.", 403)
        try:
            sent = await _all(Body(scope, receive, _LARGEST, self._body_seconds))
        except Answered as error:
            return _form("The form is too large, or came too slowly.", error.status, close=True)
        secret = parse_qs(sent.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if not self._may_read(secret):
            return _form("There is no such token, or it may not read.", 401)
        answer = RedirectResponse("/", 303, _plain_headers())
        answer.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=self._secure, path="/")
        return answer


def _from_here(headers: Headers) -> bool:
    """Whether a form comes from a page of ours. A browser says so itself; an old one, or none, tells the origin.

    Our pages send no referrer, so that a browser hides their origin too: it says 'null'.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


async def _all(body: Body) -> bytes:
    parts, more = [], True
    while more:
        message = await body()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _form(problem: str, status: int = 200, *, close: bool = False) -> Response:
    headers = _plain_headers() | {"Content-Security-Policy": _LOGIN_POLICY} | ({"Connection": "close"} if close else {})
    return HTMLResponse(_FORM % problem, status, headers)


def _plain_headers() -> dict[str, str]:
    return {
        "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
    }  # fmt: skip


def _cookie(scope: Scope) -> str:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(Headers(scope=scope).get("cookie", ""))
    except CookieError:
        return ""
    value = jar[COOKIE].value if COOKIE in jar else ""
    return value if value.isascii() and value.isprintable() else ""


def _with_policy(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Content-Security-Policy"] = _POLICY
        await send(message)

    return sent
