"""Point lookups in a view of ten million rows in segments while nothing else runs, in a process and over HTTP.

    python bench/lookups.py                   # some two minutes; writes bench/results/lookups.md
    python bench/lookups.py --rows 1000000

Ten commits bring the keys, each key once. Lookups of random keys are measured over the runs of these commits, and again
when the runs are merged and some small commits have followed. The client over HTTP is a process of its own with one
connection that asks one thing after the other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import penstock as ps  # noqa: E402
from bench.side_by_side import Report  # noqa: E402
from penstock.kernel.fire import Time  # noqa: E402
from penstock.kernel.plan import Plan  # noqa: E402
from penstock.kernel.reduce import reduce  # noqa: E402
from penstock.model.time import BEGINNING  # noqa: E402
from penstock.query.key_pages import KeyPages  # noqa: E402
from penstock.serve.server import Server  # noqa: E402
from penstock.serve.settings import Limits, Settings  # noqa: E402
from penstock.state.compact import Merge  # noqa: E402
from penstock.state.layout import layouts  # noqa: E402
from penstock.state.segment import SegmentFile  # noqa: E402
from penstock.state.step import SegmentChanges, ShardStep, fixed_time, steps  # noqa: E402
from penstock.store import Commit, Reader, SqlStore, open_store  # noqa: E402
from penstock.store.segment_lookup import SegmentQuestion  # noqa: E402

NOW = 1_700_000_000_000_000
COMMITS, LOOKUPS, WARM = 10, 5_000, 500
STREAM = ps.stream("games", schema="player bigint, score bigint")
VIEW = STREAM.group_by("player").agg(games=ps.count(), points=ps.sum("score"), best=ps.max("score"))


def commit(store: SqlStore, players: np.ndarray) -> None:
    """One epoch with an event of each of these players."""
    view = store.sharded("players")
    assert view is not None
    events = pl.DataFrame({"player": players, "score": players % 1000}).with_columns(
        __at=pl.lit(NOW, pl.Int64), __arrived=pl.lit(NOW, pl.Int64), __partition=pl.lit(0, pl.Int32),
        __offset=pl.int_range(len(players)),
    )  # fmt: skip
    deltas = reduce(view.plan, "games", events, BEGINNING).deltas
    now = fixed_time(view.plan, Time(BEGINNING, BEGINNING, NOW, lambda percent: BEGINNING))
    work = ShardStep("players", view.plan, view.root, view.segments, view.closed, view.next_run, now)
    changes = SegmentChanges(view.root, uuid.uuid4().hex)
    for stepped in steps(work, [deltas], view.shards):
        changes.add(stepped)
    store.commit(Commit(kind="tick", now=NOW, segments={"players": changes.change(view.plan)}))


def merge(store: SqlStore) -> None:
    """All runs into one."""
    view = store.sharded("players")
    assert view is not None
    merged = Merge(view.root, layouts(view.plan)["rows"], view.segments, is_oldest=True)
    file = SegmentFile(view.root, f"{uuid.uuid4().hex}.arrow")
    merged.write(file, merged.pieces)
    assert store.replace_segments("players", list(view.segments), file.close(), NOW)


def timed(look_up: Callable[[int], object], rows: int) -> list[float]:
    """Milliseconds of lookups of random keys, after some to warm up."""
    chance, taken = random.Random(1), []
    for number in range(WARM + LOOKUPS):
        key, began = chance.randrange(rows), time.perf_counter()
        look_up(key)
        if number >= WARM:
            taken.append((time.perf_counter() - began) * 1000)
    return taken


def over_http(port: int, rows: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def look_up(key: int) -> None:
        connection.request("GET", f"/api/v1/views/players?key.player={key}")
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        assert body.count(b'"games"') == 2, body

    return timed(look_up, rows)


def measure(directory: Path, store: SqlStore, rows: int, what: str) -> list[list[str]]:
    view = store.sharded("players")
    assert view is not None
    runs = len({segment.run for segment in view.segments})
    name = f"{what}: {runs} runs, {len(view.segments)} segments"
    pages = KeyPages(Reader(directory), 1 << 20)

    def look_up(key: int) -> None:
        answer = pages.answer(SegmentQuestion("players", {"player": [key]}))
        assert answer is not None
        assert len(answer[0][1]) == 1

    lines = [[name, "in the process", *quantiles(timed(look_up, rows))]]
    pages.close()
    with Server(directory, Settings(port=0, limits=Limits(rate=1e6, burst=1e6))) as server:
        command = [sys.executable, __file__, "--client", str(server.port), "--rows", str(rows)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    lines.append([name, "over HTTP", *quantiles(json.loads(answer.stdout))])
    print(lines, flush=True)
    return lines


def quantiles(taken: list[float]) -> list[str]:
    ordered = sorted(taken)
    return [f"{ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]:.2f} ms" for p in (50, 95, 99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--client", type=int, help="the port that a client asks")
    given = parser.parse_args()
    if given.client is not None:
        print(json.dumps(over_http(given.client, given.rows)))
        return
    chance = np.random.default_rng(3)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        directory = Path(folder)
        store = open_store(directory)
        store.lock()
        store.prepare({"players": Plan(VIEW)})
        store.shard("players", 16)
        for players in np.array_split(chance.permutation(given.rows), COMMITS):
            commit(store, players)
        lines = measure(directory, store, given.rows, "before a merge")
        merge(store)
        for _ in range(3):
            commit(store, chance.integers(0, given.rows, 50_000))
        lines += measure(directory, store, given.rows, "after it")
        store.close()
    report = Report("lookups", f"python bench/lookups.py --rows {given.rows}")
    head = ["segments", "lookup", "median", "95 of 100", "99 of 100"]
    report.table(f"A row by its key, of {given.rows:,} in segments; {os.cpu_count()} cores", head, lines)
    report.write()


if __name__ == "__main__":
    main()
