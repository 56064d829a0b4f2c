"""Serving while epochs run: point lookups, subscribers, and how soon one reads one's own writes.

    python bench/serving.py            # some three minutes; writes bench/results/serving.md
    python bench/serving.py --seconds 5
    python bench/serving.py --segments # lookups in a view whose state is in segments; writes serving-segments.md

An app reads made-up events at a steady rate and is served by its own process, as `penstock run` does it. The clients
are processes of their own, on the same machine. Lookups are due at fixed times: one that has to wait counts from when
it was due, not from when it could be sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import queue
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.client import Client
from penstock.control import Live
from penstock.serve.server import Server
from penstock.serve.service import Host
from penstock.serve.settings import Limits, Settings
from penstock.sources import Chance

RATE, KEYS = 50_000, 10_000
CLIENTS, LOOKUPS = 32, 200
SUBSCRIBERS = 500
POSTED, A_POST = 10_000, 500
RESULTS = Path(__file__).parent / "results" / "serving.md"


def events(numbers: np.ndarray, times: np.ndarray, chance: Chance) -> dict[str, object]:
    return {"key": (chance.uniform() * KEYS).astype(np.int64), "at": times.astype("datetime64[us]")}


def app(state: str | None = None) -> ps.App:
    made = ps.App("serving")
    clicks = made.stream(
        "clicks", ps.generator(events, rate=RATE), schema="key bigint, at timestamp", event_time="at",
        watermark=ps.bounded("1 second"), keep="none",
    )  # fmt: skip
    made.view("by_key", clicks.group_by("key").agg(n=ps.count()), state=state)
    made.view("by_second", clicks.group_by("key % 20 AS part").window(ps.fixed("1 second")).agg(n=ps.count()))
    return made


def posts_only() -> ps.App:
    made = ps.App("freshness")
    posts = made.stream("posts", ps.http("posts"), schema="tag string, n bigint", keep="none")
    made.view("by_tag", posts.group_by("tag").agg(n=ps.sum("n")))
    return made


# the clients, in processes of their own


class Wire:
    """A connection that asks one thing after the other."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> Wire:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        return self

    async def get(self, path: str) -> bytes:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))[15:])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(body)
        return body


async def lookups(port: int, seconds: float) -> dict[str, Any]:
    """So many lookups a second by all clients, each due at a time of its own; milliseconds."""
    taken: list[float] = []

    async def one(number: int) -> None:
        wire = await Wire(port).open()
        gap, chance = CLIENTS / LOOKUPS, random.Random(number)
        due = time.perf_counter() + chance.random() * gap
        end = due + seconds
        while due < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            body = await wire.get(f"/api/v1/views/by_key?key.key={chance.randrange(KEYS)}")
            taken.append((time.perf_counter() - due) * 1000)
            assert b'"rows":[{' in body
            due += gap

    await asyncio.gather(*(one(number) for number in range(CLIENTS)))
    return {"count": len(taken), **quantiles(taken)}


async def subscribers(port: int, seconds: float) -> dict[str, Any]:
    """Many clients on one view, one of which reads a row a second; whether all the others got the same, in order."""

    async def one(slow: bool, until: asyncio.Event) -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
        writer.write(b"GET /api/v1/views/by_second/subscribe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seen: list[int] = []
        while not until.is_set():
            try:
                line = await asyncio.wait_for(reader.readline(), 0.5)
            except TimeoutError:
                continue
            if line.startswith(b"id: "):
                seen.append(int(line[4:]))
                if slow:
                    await asyncio.sleep(1.0)
        writer.close()
        return seen

    until = asyncio.Event()
    clients = [asyncio.create_task(one(number == 0, until)) for number in range(SUBSCRIBERS)]
    await asyncio.sleep(seconds)
    until.set()
    slow, *rest = await asyncio.gather(*clients)
    last = min(ids[-1] for ids in rest)
    first = max(ids[0] for ids in rest)
    spans = {tuple(id for id in ids if first < id <= last) for ids in rest}
    return {
        "clients": len(rest) + 1, "panes": len(next(iter(spans))), "same": len(spans) == 1,
        "ordered": all(ids == sorted(set(ids)) for ids in [slow, *rest]), "slow": len(slow),
    }  # fmt: skip


def freshness(port: int, seconds: float) -> dict[str, Any]:
    """Events sent at a steady rate: until they are durable, and from there until a question after their token is
    answered; milliseconds. One of four answers is asked after."""
    posted: list[float] = []
    seen: list[float] = []
    turns = int(seconds * POSTED / A_POST)
    clients = [Client(f"http://127.0.0.1:{port}") for _ in range(8)]
    free = queue.SimpleQueue[Client]()
    for client in clients:
        free.put(client)
    rows = [{"tag": f"tag-{number % 1000}", "n": 1} for number in range(A_POST)]

    def post(due: float, number: int) -> None:
        client = free.get()
        token = client.stream("posts").send(rows)
        durable = time.perf_counter()
        posted.append((durable - due) * 1000)
        if number % 4 == 0:
            assert client.view("by_tag").get(tag="tag-1", after=token, timeout="60s") is not None
            seen.append((time.perf_counter() - durable) * 1000)
        free.put(client)

    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        waiting = []
        for number in range(turns):
            due = began + number * A_POST / POSTED
            time.sleep(max(0.0, due - time.perf_counter()))
            waiting.append(pool.submit(post, due, number))
        for one in waiting:
            one.result()
    rate = turns * A_POST / (time.perf_counter() - began)
    for client in clients:
        client.close()
    return {"posted": quantiles(posted), "seen": quantiles(seen), "count": len(seen), "rate": rate}


def quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{p}": ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))] for p in (50, 95, 99)}


def apart(what: str, port: int, amount: float) -> dict[str, Any]:
    """Runs clients in a process of their own."""
    command = [sys.executable, __file__, "--client", what, "--port", str(port), "--seconds", str(amount)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return found | {"cores": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds}


# the app


def epochs(live: Live, since: int) -> tuple[int, float]:
    """The last commit, and the mean seconds of epochs of the clicks since one."""
    sql = """SELECT number, json_extract(timings, '$.reduce') + json_extract(timings, '$.merge') AS s FROM __commits
        WHERE number > ?1 AND stream = 'clicks' ORDER BY number"""
    found = live.store.query(sql, [since])
    return (found["number"][-1], statistics.mean(found["s"])) if found.height else (since, 0.0)


@contextmanager
def serving(made: ps.App) -> Iterator[tuple[Live, int]]:
    """An app that runs and is served, and the port."""
    with tempfile.TemporaryDirectory() as folder:
        live = Live(made, Path(folder), master="local[2]").start()
        try:
            host = Host(live.index, live.failures, live.failed)
            with Server(Path(folder), Settings(port=0, limits=Limits(rate=1e6, burst=1e6)), host) as server:
                yield live, server.port
        finally:
            live.stop()


def measure(seconds: float) -> list[tuple[str, str]]:
    with serving(app()) as (live, port):
        found = rows(live, port, seconds)
    return found + fresh_rows(seconds)


def rows(live: Live, port: int, seconds: float) -> list[tuple[str, str]]:
    while live.store.query("SELECT count(*) FROM by_key").item() < KEYS * 0.99:
        live.wait(0.5)
    live.index("by_key", ["key"])
    mark, _ = epochs(live, 0)
    live.wait(seconds)
    mark, quiet = epochs(live, mark)
    looked = apart("lookups", port, seconds)
    mark, asked = epochs(live, mark)
    followed = apart("subscribers", port, seconds)
    mark, pushed = epochs(live, mark)
    alike = "every pane, in order" if followed["same"] and followed["ordered"] else "NOT ALL THE SAME"
    pushed_to = f"{alike}: {followed['panes']} each, {followed['slow']} the slow one"
    return [
        (f"point lookups, {CLIENTS} clients, {LOOKUPS}/s ({looked['count']})", shown(looked)),
        ("of that the clients' own work", f"{looked['cores']:.2f} cores"),
        (f"{followed['clients']} subscribers, one at a row a second", pushed_to),
        ("of that the clients' own work", f"{followed['cores']:.2f} cores"),
        ("reduce and merge of an epoch, nobody asks", f"{quiet * 1000:.0f} ms"),
        ("the same during the lookups", f"{asked * 1000:.0f} ms"),
        (f"the same with {SUBSCRIBERS} subscribers", f"{pushed * 1000:.0f} ms"),
    ]  # fmt: skip


def in_segments(seconds: float, rounds: int) -> list[tuple[str, str]]:
    """Point lookups of the same view with its state in segments, while they are written and merged: every round.

    The app's own process answers, and `penstock serve` in a process apart, taking turns. The load tells whether others
    used the cores too: it is the machine's, over the last minute.
    """
    lines = []
    with serving(app("sharded")) as (live, port):
        while (view := live.store.sharded("by_key")) is None or view.rows < KEYS:
            live.wait(0.5)
        live.wait(seconds / 2)
        with served_apart(live.store.directory) as other:
            for _ in range(rounds):
                for who, at in (("served by the app", port), ("served apart", other)):
                    before = os.getloadavg()[0]
                    looked = apart("lookups", at, seconds)
                    view = live.store.sharded("by_key")
                    segments = 0 if view is None else len(view.segments)
                    what = f"point lookups in segments, {CLIENTS} clients, {LOOKUPS}/s ({looked['count']}); {who}; "
                    load = f"{segments} segments; load {before:.1f} before, {os.getloadavg()[0]:.1f} after"
                    lines.append((what + load, shown(looked)))
                    print(lines[-1], flush=True)
    return lines


@contextmanager
def served_apart(directory: Path) -> Iterator[int]:
    """The port of `penstock serve` for an app's directory."""
    command = [sys.executable, "-m", "penstock.cli", "serve", "--dir", str(directory), "--port", "0", "--rate", "1e6"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        line = ""
        while "/api/v1" not in line:
            line = process.stdout.readline()
            assert line, "penstock serve has ended"
        yield int(line.partition("/api/v1")[0].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


def fresh_rows(seconds: float) -> list[tuple[str, str]]:
    """The same app with nothing else to do than to take in what is posted."""
    with serving(posts_only()) as (_, port):
        with Client(f"http://127.0.0.1:{port}") as client:
            client.view("by_tag").get(after=client.stream("posts").send([{"tag": "warm", "n": 0}]), timeout="60s")
        apart("freshness", port, 5)  # to warm up
        fresh = apart("freshness", port, seconds)
    return [
        (f"POST of {A_POST} events, {POSTED:,} events/s, until they are durable", shown(fresh["posted"])),
        (f"from that answer until `?after=` answers ({fresh['count']})", shown(fresh["seen"])),
    ]  # fmt: skip


def shown(found: dict[str, float]) -> str:
    return f"{found['p50']:.1f} / {found['p95']:.1f} / {found['p99']:.1f} ms"


def write(found: list[tuple[str, str]], seconds: float, options: str = "") -> str:
    cores = os.cpu_count()
    lines = [
        "# Serving while epochs run", "",
        f"`python bench/serving.py --seconds {seconds:g}{options}` on {cores} cores, Python "
        f"{platform.python_version()}: an app reads {RATE:,} events a second into 10 000 keys and is served by its "
        "own process; clients, Spark and the app share the cores. Times are the median, 95 and 99 of 100, from when a "
        "request was due.", "",
        "| what | |", "|---|---|", *(f"| {what} | {told} |" for what, told in found), "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--client", choices=("lookups", "subscribers", "freshness"))
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--segments", action="store_true", help="only lookups, with the state in segments")
    parser.add_argument("--rounds", type=int, default=3, help="of lookups in segments; each is reported")
    given = parser.parse_args()
    if given.client == "freshness":
        print(json.dumps(freshness(given.port, given.seconds)))
    elif given.client is not None:
        run = lookups if given.client == "lookups" else subscribers
        print(json.dumps(asyncio.run(run(given.port, given.seconds))))
    else:
        found = in_segments(given.seconds, given.rounds) if given.segments else measure(given.seconds)
        text = write(found, given.seconds, " --segments" if given.segments else "")
        results = RESULTS.with_name("serving-segments.md") if given.segments else RESULTS
        results.write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
