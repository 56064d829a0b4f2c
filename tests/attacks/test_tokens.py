"""Attacks with tokens that are gone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from penstock.errors import PenstockError
from penstock.serve.server import Server
from penstock.serve.settings import Settings
from penstock.serve.tokens import FILE, Tokens

VIEW = "/api/v1/views/trending"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_no_token_means_no_access_after_the_last_one_was_removed(serving: Callable[..., Server], filled):
    """Comes without a token after the last token was removed: 401, also after a restart."""
    tokens = Tokens(filled.directory)
    tokens.create(["read"], "only")
    server = serving()
    tokens.remove("only")
    for one in (server, serving()):
        answer = httpx.get(one.url + VIEW)
        assert answer.status_code == 401
        assert "--no-tokens" in answer.json()["hint"]
        assert httpx.get(one.url + "/").headers["location"] == "/login"
        assert httpx.get(one.url + "/health").status_code == 200


def test_a_file_of_tokens_that_vanishes_opens_nothing(serving: Callable[..., Server], filled):
    """Gets the file of tokens deleted while the server runs: 401 as before."""
    token = Tokens(filled.directory).create(["read"])
    server = serving()
    assert httpx.get(server.url + VIEW, headers=bearer(token)).status_code == 200
    (filled.directory / FILE).unlink()
    assert httpx.get(server.url + VIEW).status_code == 401


def test_no_tokens_has_to_be_said_and_does_not_open_what_has_tokens(serving: Callable[..., Server], filled):
    """Hopes that --no-tokens opens an app that has tokens: the server does not start."""
    tokens = Tokens(filled.directory)
    tokens.create(["read"], "only")
    with pytest.raises(PenstockError, match="has tokens"):
        serving(no_tokens=True)
    tokens.remove("only")
    server = serving(no_tokens=True)
    assert httpx.get(server.url + VIEW).status_code == 200
    with pytest.raises(PenstockError, match="everyone who reaches"):
        Settings(host="0.0.0.0", no_tokens=True).check(has_tokens=False)
    tokens.create(["read"], "next")
    assert httpx.get(server.url + VIEW).status_code == 401


def ends_within(made: socket.socket, seconds: float) -> bytes:
    """What comes until the other side hangs up, which must not take longer."""
    made.settimeout(seconds)
    parts = []
    while part := made.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("had_token", [True, False])
def test_an_open_subscription_ends_with_its_token(serving: Callable[..., Server], filled, had_token: bool):
    """Keeps a subscription open after its token was removed: it ends within a second, and says why."""
    tokens = Tokens(filled.directory)
    token = tokens.create(["read"], "reader") if had_token else ""
    server = serving()
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as made:
        head = f"GET {VIEW}/subscribe HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        made.sendall(head.encode())
        while b"event: position" not in made.recv(65536):
            pass
        if had_token:
            tokens.remove("reader")
        else:  # it came while no token was needed
            tokens.create(["read"], "first")
        began = time.monotonic()
        rest = ends_within(made, 10)
        assert b"the token was removed" in rest
        assert time.monotonic() - began < 2


def test_a_request_that_waits_is_not_answered_after_its_token_was_removed(serving: Callable[..., Server], filled):
    """Has a lookup wait while its token is removed: 401 instead of rows."""
    tokens = Tokens(filled.directory)
    token = tokens.create(["admin"], "reader")
    server = serving()
    with httpx.Client(base_url=server.url, headers=bearer(token), timeout=60) as client:
        sent = client.post(
            "/api/v1/streams/posts", content=b'{"tag":"a"}', headers={"Content-Type": "application/x-ndjson"}
        )
        answers: list[int] = []
        params = {"after": sent.json()["token"], "timeout": "30s"}
        waiting = threading.Thread(target=lambda: answers.append(client.get(VIEW, params=params).status_code))
        waiting.start()
        with httpx.Client(base_url=server.url) as other:
            while not server.app.state.service.pulse._waiting:
                other.get("/health")
        tokens.remove("reader")
        filled.commit(("a", 1, 40), segment=1)
        waiting.join(60)
    assert answers == [401]


def test_an_open_page_ends_with_its_token(serving: Callable[..., Server], filled):
    """Keeps a page of the dashboard open after its token was removed: its websocket ends within a second."""
    tokens = Tokens(filled.directory)
    token = tokens.create(["read"], "reader")
    server = serving()
    with httpx.Client(base_url=server.url, headers=bearer(token), timeout=60) as client:
        assert client.get("/").status_code == 200
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as made:
        made.sendall(
            b"GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            + f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        seen = b""
        while b'"sid"' not in seen:
            part = made.recv(65536)
            assert part, seen
            seen += part
        assert seen.startswith(b"HTTP/1.1 101")
        tokens.remove("reader")
        made.settimeout(2)
        while not made.recv(65536).endswith(b"\x88\x02\x03\xf0"):  # the frame that closes, for a policy
            pass


def test_a_damaged_file_of_tokens_lets_nobody_in(serving: Callable[..., Server], filled, tmp_path: Path):
    """Damages the file of tokens: nobody gets in."""
    token = Tokens(filled.directory).create(["read"])
    server = serving()
    (filled.directory / FILE).write_text("{")
    for headers in ({}, bearer(token)):
        assert httpx.get(server.url + VIEW, headers=headers).status_code >= 400
