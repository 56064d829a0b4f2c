"""Attacks that use up the file descriptors of a server. It runs in a process of its own with few of them."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from penstock.descriptors import raise_limit
from penstock.runtime.queries.retry import passes
from penstock.serve.tokens import Tokens

LIMIT = 200
LOGIN = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
SUBSCRIBE = b"GET /api/v1/views/trending/subscribe HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Child:
    """The server's process."""

    def __init__(self, directory: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.attacks.server", directory, str(LIMIT), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line())
        self.url = f"http://127.0.0.1:{self.port}"
        self._opened: list[socket.socket] = []

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def connect(self, number: int, text: bytes) -> list[socket.socket]:
        """So many connections that send these bytes and stay."""
        made = [socket.create_connection(("127.0.0.1", self.port), timeout=30) for _ in range(number)]
        for one in made:
            with suppress(ConnectionError):  # refused already
                one.sendall(text)
        self._opened += made
        return made

    def opens_files(self) -> int:
        """Has it open 20 files, as an epoch would; how many connections it has. Fails where it cannot."""
        assert self._process.stdin is not None
        self._process.stdin.write("file\n")
        self._process.stdin.flush()
        return int(self._line())

    def hang_up(self) -> None:
        for one in self._opened:
            one.close()
        self._opened = []

    def answers_again(self) -> bool:
        """Whether the server takes requests again, within half a minute: it notices hung-up connections one by one."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                if httpx.get(self.url + "/health").status_code == 200:
                    return True
            time.sleep(0.05)
        return False

    def close(self) -> None:
        self.hang_up()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@pytest.fixture
def child(filled, request: pytest.FixtureRequest) -> Iterator[Child]:
    Tokens(filled.directory).create(["read"], "someone")
    made = Child(str(filled.directory), *getattr(request, "param", ()))
    yield made
    made.close()


def refused(made: list[socket.socket]) -> int:
    """How many of the connections were hung up on, or answered that there are too many."""
    count = 0
    for one in made:
        one.settimeout(0.01)
        try:
            count += b" 503 " in (answer := one.recv(4096)) or not answer
        except ConnectionError:
            count += 1
        except TimeoutError:
            continue
    return count


def test_half_sent_logins_leave_files_for_the_app(child: Child):
    """Sends a thousand half logins, without a token: most are refused, and the app can open its files."""
    made = child.connect(1_000, LOGIN + b"Content-Length: 100\r\n\r\nto")
    assert child.opens_files() < LIMIT
    assert refused(made) > 500
    child.hang_up()
    assert child.answers_again()


@pytest.mark.parametrize("child", [("0.5",)], indirect=True)
def test_a_body_has_a_time_limit_before_any_token_is_checked(child: Child):
    """Sends half a body without a token: hung up after the time limit of bodies."""
    halves = (b"Content-Length: 100\r\n\r\nto", b"Transfer-Encoding: chunked\r\n\r\n5\r\nto")
    paths = (b"/login", b"/api/v1/streams/posts", b"/nothing")
    for made in [child.connect(1, LOGIN.replace(b"/login", path) + half)[0] for path in paths for half in halves]:
        answer = b""
        with suppress(ConnectionError):
            while part := made.recv(4096):
                answer += part
        assert answer.split(b" ")[1] in (b"401", b"408")


def test_subscribers_leave_files_for_the_app(filled):
    """Opens a thousand subscriptions: those beyond the limit are refused, and the app can open its files."""
    child = Child(str(filled.directory))
    try:
        made = child.connect(1_000, SUBSCRIBE)
        assert child.opens_files() < LIMIT
        assert refused(made) > 500
        child.hang_up()
        assert child.answers_again()
    finally:
        child.close()


def test_the_soft_limit_is_raised():
    """Counts on the usual soft limit of 1,024 open files: it is raised as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
        assert raise_limit() == min(hard, 65_536)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_epoch_without_descriptors_is_retried():
    """Takes the last descriptor in the middle of an epoch: the epoch is retried."""
    assert passes(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert passes(RuntimeError("java.io.FileNotFoundException: offsets/7 (Too many open files)"))
