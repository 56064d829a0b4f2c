"""Hostile SQL over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

from penstock.serve.server import Server
from penstock.serve.settings import Limits

QUERY = "/api/v1/query"
ENDLESS = "SELECT count(*) AS n FROM " + ", ".join(f"trending t{n}" for n in range(24))
TERMS = "SELECT tag FROM trending WHERE " + " OR ".join(f"posts = {n}" for n in range(4_000))


def test_six_hostile_questions_do_not_stop_lookups(serving: Callable[..., Server]) -> None:
    """Asks six endless questions at once: lookups go on, and each question is stopped."""
    server = serving(limits=Limits(statement_seconds=1, processes=2))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        statuses: list[int] = []
        asked = [
            threading.Thread(target=lambda: statuses.append(client.post(QUERY, json={"sql": ENDLESS}).status_code))
            for _ in range(6)
        ]
        for thread in asked:
            thread.start()
        assert client.get("/api/v1/views/trending").status_code == 200
        for thread in asked:
            thread.join()
        assert set(statuses) <= {503, 504}
        assert client.post(QUERY, json={"sql": "SELECT count(*) AS n FROM trending"}).status_code == 200


def test_a_question_of_many_terms_is_planned_outside_the_server(serving: Callable[..., Server]) -> None:
    """Asks for thousands of terms: planned in another process, within its time, while lookups go on."""
    server = serving(limits=Limits(statement_seconds=1, processes=1))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        thread = threading.Thread(target=lambda: client.post(QUERY, json={"sql": TERMS}))
        thread.start()
        while thread.is_alive():
            assert client.get("/api/v1/views/trending").status_code == 200
        thread.join()


def test_a_client_that_hangs_up_frees_the_process(serving: Callable[..., Server]) -> None:
    """Asks an endless question and hangs up: the question is stopped and the process answers the next one."""
    server = serving(limits=Limits(statement_seconds=50, processes=1))
    address = urlsplit(server.url)
    assert address.hostname is not None
    body = f'{{"sql": "{ENDLESS}"}}'
    head = f"POST {QUERY} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    with httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.post(QUERY, json={"sql": "SELECT 1 AS n"}).status_code == 200
        with socket.create_connection((address.hostname, address.port)) as hostile:
            hostile.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            free = server.app.state.service.askers._selects._free
            until = time.monotonic() + 30
            while not free.locked() and time.monotonic() < until:
                client.get("/health")
        began = time.monotonic()
        assert client.post(QUERY, json={"sql": "SELECT 1 AS n"}).json()["rows"] == [{"n": 1}]
        assert time.monotonic() - began < 40


def test_a_lookup_knows_nothing_of_duckdb(serving: Callable[..., Server]) -> None:
    """Looks for a larger process behind lookups: they pass one that has no DuckDB and no planner."""
    server = serving()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.get("/api/v1/views/trending").status_code == 200
        for process in server.app.state.service.askers._users._all:
            with open(f"/proc/{process.pid}/maps") as maps:
                assert "duckdb" not in maps.read()
