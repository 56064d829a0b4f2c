"""Subscriptions: every pane, in order, to every client; slow ones and those that come back included."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import httpx
import pytest

from penstock.serve.server import Server
from penstock.serve.settings import Limits
from tests import outbox

PATH = "/api/v1/views/trending/subscribe"
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"


def events(response: httpx.Response) -> Iterator[tuple[str, int | None, Any]]:
    """What comes, event by event: its kind, its id, its data."""
    kind, id, data = "", None, None
    for line in response.iter_lines():
        if line.startswith("event:"):
            kind = line[7:]
        elif line.startswith("id:"):
            id = int(line[4:])
        elif line.startswith("data:"):
            data = json.loads(line[6:])
        elif not line and kind:
            yield kind, id, data
            kind, id, data = "", None, None


def followed(client: httpx.Client, count: int, headers: dict[str, str] | None = None, **asked: object) -> list[Any]:
    with client.stream("GET", PATH, headers=headers, params=asked) as response:
        assert response.status_code == 200
        return list(islice(events(response), count))


def test_the_first_event_tells_the_position_and_then_panes_come(client: httpx.Client, filled):
    with client.stream("GET", PATH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = events(response)
        kind, id, data = next(found)
        assert (kind, data["view"], id) == ("position", "trending", data["position"])
        filled.commit(("x", 7, 2))
        kind, pane, data = next(found)
    assert (kind, data["pane"] == pane, data["tag"], data["posts"]) == ("pane", True, "x", 3)
    assert (data["kind"], data["timing"], data["window_start"]) == ("insert", "early", "2024-05-01T12:00:00Z")


def test_a_client_goes_on_after_the_last_event_that_it_has(client: httpx.Client, filled):
    for number in range(5):
        filled.commit((f"t{number}", 1, 50))
    all_of_them = followed(client, 11, {"Last-Event-ID": "0"})
    ids = [id for kind, id, _ in all_of_them if kind == "pane"]
    assert ids == sorted(ids)
    assert len(ids) == 10
    rest = followed(client, 4, {"Last-Event-ID": str(ids[-4])})
    assert [id for kind, id, _ in rest if kind == "pane"] == ids[-3:]


def test_a_snapshot_comes_before_the_panes(client: httpx.Client):
    found = followed(client, 6, snapshot=True)
    assert [kind for kind, _, _ in found] == ["position"] + ["row"] * 5
    assert {row["tag"] for kind, _, row in found if kind == "row"} == {"x", "y", None, "=cmd()"}


def test_panes_that_are_gone_are_answered_with_410(client: httpx.Client, filled):
    filled.store.trim_outbox(outbox.panes(filled.store)["id"][-1])
    filled.commit(("x", 7, 2))
    answer = client.get(PATH, headers={"Last-Event-ID": "2"})
    assert answer.status_code == 410
    assert "snapshot" in answer.json()["hint"]
    assert client.get(PATH, headers={"Last-Event-ID": "999999"}).status_code == 410
    assert client.get(PATH, headers={"Last-Event-ID": "first"}).status_code == 422


def test_a_subscription_ends_with_the_view_and_with_the_server(serving: Callable[..., Server], filled):
    server = serving()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        with client.stream("GET", PATH) as response:
            found = events(response)
            next(found)
            filled.store.drop("trending")
            filled.store.delivered({"x": 1})
            assert next(found)[0] == "end"
        with client.stream("GET", "/api/v1/views/totals/subscribe") as response:
            found = events(response)
            next(found)
            threading.Thread(target=server.stop).start()
            assert [kind for kind, _, _ in found] == ["end"]


def test_one_that_has_gone_away_is_not_counted_any_more(serving: Callable[..., Server], filled):
    server = serving()
    hub = server.app.state.service.hub
    with httpx.Client(base_url=server.url, timeout=30) as client, client.stream("GET", PATH) as response:
        found = events(response)
        next(found)
        assert hub.subscribers == {"trending": 1}
    end = time.monotonic() + 30
    while hub.subscribers and time.monotonic() < end:
        time.sleep(0.02)
    assert hub.subscribers == {}


def test_more_subscribers_than_allowed_are_refused(serving: Callable[..., Server]):
    server = serving(limits=Limits(subscribers=1))
    with httpx.Client(base_url=server.url, timeout=30) as client, client.stream("GET", PATH) as response:
        found = events(response)
        next(found)
        assert client.get(PATH).status_code == 503
        assert client.get("/api/v1/views").status_code == 200


async def _one(host: str, port: int, panes: int, slow: bool, begun: asyncio.Event) -> list[int]:
    """A client on a bare socket. A slow one reads a few bytes at a time."""
    made = socket.socket()
    if slow:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (host, port))
    reader, writer = await asyncio.open_connection(sock=made, limit=1 << 20 if not slow else 512)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    seen: list[int] = []
    text = b""
    while len(seen) < panes:
        part = await reader.read(256 if slow else 1 << 16)
        assert part
        text += part
        *lines, text = text.split(b"\n")
        for place, line in enumerate(lines):
            if line.startswith(b"event: position"):
                begun.set()
            if line.startswith(b"event: pane"):
                seen.append(int(lines[place - 1].split(b":")[1]) if place else -1)
        if slow and begun.is_set():
            await asyncio.sleep(0.001)
    writer.close()
    return seen


@pytest.mark.parametrize("count", [500 if DEEP else 60])
def test_all_subscribers_get_every_pane_in_order_though_one_is_slow(serving: Callable[..., Server], filled, count: int):
    server = serving(limits=Limits(panes=20_000))  # the slow one falls behind what is kept
    commits, size = (40, 20) if DEEP else (20, 20)

    async def all_of_them() -> list[list[int]]:
        begun = [asyncio.Event() for _ in range(count)]
        clients = [
            asyncio.create_task(_one("127.0.0.1", server.port, commits * size, number == 0, begun[number]))
            for number in range(count)
        ]
        for event in begun:
            await event.wait()
        for commit in range(commits):
            rows = [(f"tag {n}", commit, 50) for n in range(size)]
            await asyncio.to_thread(filled.commit, *rows)
        return await asyncio.gather(*clients)

    seen = asyncio.run(asyncio.wait_for(all_of_them(), 300))
    told = outbox.panes(filled.store).filter(view="trending")["id"].to_list()
    assert all(len(ids) == commits * size for ids in seen)
    expected = told[-commits * size :]
    assert all(
        [id for id in ids if id >= 0] == [e for e, id in zip(expected, ids, strict=True) if id >= 0] for ids in seen
    )
