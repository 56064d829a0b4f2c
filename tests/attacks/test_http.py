"""Attacks on the HTTP server: each is tried on a real one."""

from __future__ import annotations

import json
import logging
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from penstock.errors import PenstockError
from penstock.serve.server import Server
from penstock.serve.settings import Limits, Settings
from penstock.serve.tokens import Tokens

VIEW = "/api/v1/views/trending"
STREAM = "/api/v1/streams/posts"
LINES = {"Content-Type": "application/x-ndjson"}


def raw(server: Server, text: bytes, seconds: float = 30.0) -> bytes:
    """What the server answers to these very bytes; nothing where it hangs up on them."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as made:
        found = b""
        with suppress(ConnectionError):
            made.sendall(text)
            while b"\r\n\r\n" not in found and (part := made.recv(65536)):
                found += part
        return found


def status(answer: bytes) -> int:
    """The status of an answer; 0 where there was none."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


# tokens and scopes


@pytest.fixture
def locked(serving: Callable[..., Server], filled) -> tuple[Server, dict[str, str]]:
    """A server with a token of each scope."""
    tokens = Tokens(filled.directory)
    made = {scope: tokens.create([scope], scope) for scope in ("read", "write", "admin")}
    return serving(), made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_each_scope_does_what_it_says_and_no_more(locked):
    """Uses a read token to write, or a write token to read: 403."""
    server, tokens = locked
    with httpx.Client(base_url=server.url) as client:
        allowed = {}
        for scope, token in tokens.items():
            sent = client.post(STREAM, content=b'{"tag":"a"}', headers={**LINES, **bearer(token)}).status_code
            asked = client.post("/api/v1/query", json={"sql": "SELECT 1 AS n"}, headers=bearer(token)).status_code
            allowed[scope] = (client.get(VIEW, headers=bearer(token)).status_code, asked, sent)
        assert allowed == {"read": (200, 200, 403), "write": (403, 403, 200), "admin": (200, 200, 200)}
        assert client.get("/health").status_code == 200
        assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer x", "Basic eDp5", "bearer ps_" + "a" * 43, "Bearer " + "x" * 5000, "Bearer é"],
)
def test_bad_tokens_are_answered_with_401(locked, value: str):
    """Sends a token that is empty, made up, oversized or of another scheme: 401."""
    server, _ = locked
    answer = httpx.get(server.url + VIEW, headers={"Authorization": value.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_two_authorization_headers_are_refused(locked):
    """Sends two Authorization headers: 401."""
    server, tokens = locked
    headers = [("Authorization", f"Bearer {tokens['read']}"), ("Authorization", "Bearer x")]
    assert httpx.get(server.url + VIEW, headers=headers).status_code == 401


def test_a_token_in_the_url_is_refused_and_no_log_holds_one(locked, caplog: pytest.LogCaptureFixture):
    """Reads the logs for tokens: tokens in URLs are rejected, and no log line holds one."""
    server, tokens = locked
    with caplog.at_level(logging.DEBUG):
        assert httpx.get(server.url + VIEW, params={"token": tokens["read"]}).status_code == 400
        httpx.get(server.url + VIEW, headers=bearer(tokens["read"]))
        server.stop()
    own = [record for record in caplog.records if record.name.startswith(("penstock", "uvicorn"))]
    assert own
    assert [repr(vars(record)) for record in own if tokens["read"] in record.getMessage() + repr(vars(record))] == []


def test_a_removed_token_is_worth_nothing_at_once(locked, filled):
    """Uses a removed token: 401 at once."""
    server, tokens = locked
    assert httpx.get(server.url + VIEW, headers=bearer(tokens["read"])).status_code == 200
    Tokens(filled.directory).remove("read")
    assert httpx.get(server.url + VIEW, headers=bearer(tokens["read"])).status_code == 401


def test_tokens_are_kept_as_digests_that_only_their_owner_reads(tmp_path: Path):
    """Reads the file of tokens: it holds digests, mode 0600."""
    token = Tokens(tmp_path).create(["read"])
    path = tmp_path / "tokens.json"
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_other_machines_are_let_in_with_tokens_only(tmp_path: Path):
    """Reaches a server that was opened to the network without tokens: it does not start."""
    with pytest.raises(PenstockError, match="everyone who reaches"):
        Settings(host="0.0.0.0").check(has_tokens=False)
    Settings(host="0.0.0.0").check(has_tokens=True)
    Settings(host="0.0.0.0", insecure=True).check(has_tokens=False)
    Settings(host="::1").check(has_tokens=False)
    with pytest.raises(PenstockError, match="TLS"):
        Settings(cert=tmp_path).check(has_tokens=False)


# other origins, other names


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "a b", "[::1"]
)
def test_a_name_that_someone_points_here_is_not_answered(serving: Callable[..., Server], host: str):
    """Points a name of theirs at 127.0.0.1 (DNS rebinding): 421 for any other Host."""
    answer = raw(serving(), f"GET {VIEW} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert status(answer) in (400, 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1"},
    ],
)
def test_pages_of_other_origins_cannot_send(client: httpx.Client, headers: dict[str, str]):
    """Posts from a page of another origin: 403."""
    assert client.post(STREAM, content=b"{}", headers={**LINES, **headers}).status_code == 403
    assert client.post("/api/v1/query", json={"sql": "SELECT 1"}, headers=headers).status_code == 403


def test_pages_of_other_origins_cannot_read(client: httpx.Client):
    """Reads from a page of another origin: no CORS header, so that the browser keeps the answer."""
    answer = client.get(VIEW, headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    ahead = client.options(VIEW, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    assert ahead.status_code == 405
    assert not [name for name in ahead.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", [VIEW, "/health", "/metrics", "/nothing", "/api/v1/openapi.json"])
def test_every_answer_has_the_headers_against_framing_and_guessing(client: httpx.Client, path: str):
    """Frames an answer or has a browser guess its type: headers forbid it."""
    headers = client.get(path).headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers
    if path != "/nothing":
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


# paths, heads and bodies


@pytest.mark.parametrize(
    "path",
    ["/api/v1/views/..%2f..%2fetc%2fpasswd", "/api/v1/views/../../../etc/passwd",
     "/api/v1/streams/..%2F..%2Ftokens.json",
     "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/views/%00", "/api/v1/views/trending%00", "/tokens.json", "/store.db",
     "/api/v1/views/__meta", "/api/v1/views/sqlite_schema", "/api/v1/views/%F0%28%8C%28", "//evil.example/%2f.."],
)  # fmt: skip
def test_paths_lead_nowhere_else(serving: Callable[..., Server], path: str):
    """Asks for paths outside of the API (.., %2f, NUL): 404."""
    answer = raw(serving(), f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert status(answer) == 404


@pytest.mark.parametrize(
    "inside", ["x' OR '1'='1", "x'; DROP TABLE trending;--", 'x" OR ""="', "x) UNION SELECT * FROM __meta --"]
)
def test_keys_of_lookups_are_values(client: httpx.Client, inside: str):
    """Puts SQL into keys and names: values stay values, unknown names are rejected."""
    assert client.get(VIEW, params={"key.tag": inside}).json()["rows"] == []
    assert client.get(VIEW, params={f"key.{inside}": "x"}).status_code == 422
    assert client.get(VIEW, params={"null": inside}).status_code == 422
    assert client.get(f"/api/v1/views/{inside}").status_code == 404
    assert client.get(VIEW).json()["rows"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", {0, 400, 431}),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {0, 400, 414, 431}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n", {0, 400, 431}),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            {400, 404},
        ),
        (b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", {400}),
        (b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", {400, 413}),
        (b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", {400, 415}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", {400, 421}),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Bad: a\x00b\r\n\r\n", {400}),
        (b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n", {400}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}),
        (b"EAT / HTTP/1.1\r\nHost: localhost\r\n\r\n", {404, 405}),
    ],
)
def test_heads_that_are_tricks_are_refused(serving: Callable[..., Server], head: bytes, expected: set[int]):
    """Smuggles requests, or sends huge or malformed heads: 400 or hung up."""
    assert status(raw(serving(), head)) in expected


def test_a_name_that_a_proxy_might_add_changes_nothing(client: httpx.Client):
    """Sends headers as a proxy would: they change nothing."""
    tricks = {"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "evil.example", "X-Original-URL": "/metrics",
              "X-HTTP-Method-Override": "DELETE"}  # fmt: skip
    assert client.get(VIEW, headers=tricks).status_code == 200


def test_a_slow_body_is_given_up(serving: Callable[..., Server]):
    """Sends a body byte by byte: 408 after 30 seconds."""
    server = serving(limits=Limits(body_seconds=0.3))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as made:
        made.sendall(
            f"POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        assert status(made.recv(4096)) == 408
    assert httpx.get(server.url + "/health").status_code == 200


def test_a_slow_head_is_given_up(serving: Callable[..., Server]):
    """Sends a head byte by byte: hung up after 10 seconds."""
    server = serving(limits=Limits(head_seconds=0.3))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as made:
        made.sendall(b"GET /health HTTP/1.1\r\nHost: local")
        assert made.recv(4096) == b""
    with httpx.Client(base_url=server.url) as client:  # one that is quick may stay connected
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            assert client.get("/health").status_code == 200


@pytest.mark.parametrize("length", ["999999999999", "9" * 40])
def test_a_body_that_says_it_is_large_is_refused_before_it_comes(serving: Callable[..., Server], length: str):
    """Announces a huge body: 413 before it is read."""
    head = f"POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    assert status(raw(serving(), head.encode())) in (400, 413)


def nested() -> bytes:
    return b'{"tag":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.mark.parametrize(
    "body",
    [nested(), b'{"tag":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}", b'{"likes":' + b"9" * 100_000 + b"}",
     b'{"likes": 1e999999999}', b'{"at": "' + b"9" * 10_000 + b'"}', b"\xff\xfe{}", b'{"tag": "\\ud800"',
     b"\x00" * 1000],
    ids=range(8),
)  # fmt: skip
def test_json_bombs_are_lines_that_do_not_fit(client: httpx.Client, body: bytes):
    """Posts JSON bombs (nesting, huge numbers, broken text): 422, and the server lives."""
    answer = client.post(STREAM, content=body, headers=LINES)
    assert answer.status_code in (200, 422)  # a nested value is text to a column of text
    assert client.get("/health").status_code == 200


def test_patterns_that_take_for_ever_are_stopped(serving: Callable[..., Server], filled):
    """Asks a query that never ends: 504 after its time limit."""
    filled.commit(*(("a" * 2_000 + str(n), 1, 0) for n in range(200)))
    server = serving(limits=Limits(statement_seconds=0.5))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        either = " OR ".join(f"{table}.tag LIKE :p" for table in "abc")
        sql = f"SELECT count(*) AS n FROM trending a, trending b, trending c WHERE {either}"
        began = time.monotonic()
        answer = client.post("/api/v1/query", json={"sql": sql, "parameters": {"p": "%a_" * 100 + "!"}})
        assert answer.status_code == 504
        assert time.monotonic() - began < 30
        assert client.get(VIEW, params={"limit": 1}).status_code == 200


# too much


def test_a_client_that_asks_too_often_is_told_to_wait(serving: Callable[..., Server]):
    """Sends too many requests a second: 429."""
    server = serving(limits=Limits(rate=1, burst=3))
    with httpx.Client(base_url=server.url) as client:
        found = [client.get(VIEW) for _ in range(6)]
    assert [answer.status_code for answer in found[:3]] == [200, 200, 200]
    assert found[-1].status_code == 429
    assert found[-1].headers["retry-after"] == "1"


def test_more_requests_at_once_than_allowed_are_told_to_come_back(serving: Callable[..., Server]):
    """Holds more requests open than allowed: 503, and /health still answers."""
    server = serving(limits=Limits(requests=1))
    with httpx.Client(base_url=server.url, timeout=30) as client:
        token = client.post(STREAM, content=b'{"tag":"a"}', headers=LINES).json()["token"]
        for _ in range(50):  # our own request may come first, and the waiting one is then told to come back
            with socket.create_connection(("127.0.0.1", server.port)) as made:
                made.sendall(f"GET {VIEW}?after={token}&timeout=30s HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                time.sleep(0.1)
                answer = client.get(VIEW)
                if answer.status_code == 503:
                    assert client.get("/health").status_code == 200
                    break
        assert answer.headers["retry-after"] == "1"


def test_errors_do_not_tell_where_things_lie(client: httpx.Client, filled):
    """Provokes errors to learn paths of the machine: no answer holds one."""
    for path in (f"{VIEW}?cursor=x", "/api/v1/views/none", "/nothing"):
        assert str(filled.directory) not in client.get(path).text
    assert str(filled.directory) not in json.dumps(client.get("/api/v1/openapi.json").json())
