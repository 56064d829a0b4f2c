"""State beyond memory: up to ten million keys in a view and in a processor, the memory that they take, and the cost.

    python bench/keys.py [--quick] [--only KEYS KIND]

Each app runs in a process of its own with a Java heap of 1 GB, as a user runs it. First every key comes once; then
epochs of 250,000 events on random keys are measured. Memory is what the processes hold at most meanwhile: Python with
the engine, Java with Spark and RocksDB, and Spark's Python workers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from bench.surge import memory_of

START = 1_700_000_000_000_000
SCHEMA = "at timestamp, player bigint, score bigint"
PER_FILE, EPOCHS = 250_000, 6
HEAP = "1g"


class Statistics(ps.Processor):
    """A player's games, points and best game."""

    output = "player bigint, games bigint"
    games = ps.value("bigint", default=0)
    points = ps.value("bigint", default=0)
    best = ps.value("bigint", default=0)

    def on_event(self, key: int, event: Any, time: Any) -> None:
        self.games += 1
        self.points += event.score
        self.best = max(self.best, event.score)
        if self.games % 1000 == 0:
            self.emit(player=key, games=self.games)


def write(folder: Path, keys: int) -> int:
    """Files in which every key comes once, and some with random keys; how many there are of the first kind."""
    chance = np.random.default_rng(3)
    fills = max(1, keys // 1_000_000)
    chunks = [*np.array_split(chance.permutation(keys), fills)]
    chunks += [chance.integers(0, keys, PER_FILE) for _ in range(EPOCHS)]
    for number, players in enumerate(chunks):
        at = START + number * 1_000_000 + np.arange(len(players)) % 1_000_000
        scores = chance.integers(0, 1000, len(players))
        table = {"at": pa.array(at, pa.timestamp("us", tz="UTC")), "player": players, "score": scores}
        pq.write_table(pa.table(table), folder / f"{number:04}.parquet")
        os.utime(folder / f"{number:04}.parquet", (number, number))  # Spark reads the oldest first
    return fills


def app(kind: str, folder: Path) -> tuple[ps.App, str]:
    """The app, and the stream whose epochs count."""
    made = ps.App("keys")
    games = made.stream(
        "games", ps.files(folder, format="parquet", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("5 seconds", idle=None), max_ahead=None, keep="none" if kind == "view" else "all",
    )  # fmt: skip
    if kind == "view":
        found = {"games": ps.count(), "points": ps.sum("score"), "best": ps.max("score")}
        made.view("players", games.group_by("player").agg(**found).trigger(ps.never()))
        return made, "games"
    made.process("players", games, Statistics, by="player", keep="none")
    return made, "players"


def run(kind: str, folder: Path, fills: int) -> dict[str, float]:
    """In a process of its own: seconds of an epoch, and the most memory."""
    most = [0.0, 0.0, 0.0]
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            for place, amount in enumerate(memory_of(os.getpid())):
                most[place] = max(most[place], amount)

    made, stream = app(kind, folder)
    with tempfile.TemporaryDirectory() as work:
        options = {"spark.driver.memory": HEAP}
        watcher = threading.Thread(target=look, daemon=True)
        started = made.start(Path(work) / "state", master="local[2]", conf=options, tick=3600.0)
        watcher.start()
        begun = time.perf_counter()
        started.catch_up()
        whole = time.perf_counter() - begun
        taken = [
            (told["durationMs"]["triggerExecution"] / 1000, told["numInputRows"])
            for told in started.progress(stream)
            if told["durationMs"].get("addBatch")
        ]
        done.set()
        started.stop()
    later = [seconds for seconds, _ in taken[-(EPOCHS - 1) :]]
    return {
        "epoch": statistics.median(later), "whole": whole, "python": most[0], "java": most[1], "workers": most[2],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs=2, metavar=("KEYS", "KIND"), help="so many keys, in a 'view' or a 'processor'")
    parser.add_argument("--run", nargs=3, metavar=("KIND", "FOLDER", "FILLS"))
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(given.run[0], Path(given.run[1]), int(given.run[2]))))
        return
    lines = []
    sizes, kinds = (10_000, 100_000) if given.quick else (100_000, 1_000_000, 10_000_000), ("view", "processor")
    name, said_so = "keys", ""
    if given.only:
        sizes, kinds = (int(given.only[0]),), (given.only[1],)
        name, said_so = f"keys-{'-'.join(given.only)}", f" --only {' '.join(given.only)}"
    for keys in sizes:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            fills = write(Path(folder), keys)
            for kind in kinds:
                command = [sys.executable, __file__, "--run", kind, folder, str(fills)]
                said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                told = json.loads(said.splitlines()[-1])
                memory = f"{told['python']:,.0f} + {told['java']:,.0f} + {told['workers']:,.0f}"
                total = told["python"] + told["java"] + told["workers"]
                cost = told["epoch"] / PER_FILE * 1e6
                lines.append(
                    [f"{keys:,}", kind, f"{told['epoch']:.2f} s", f"{cost:.1f} µs", memory, f"{total:,.0f} MB"]
                )
    report = Report(name, f"python bench/keys.py{said_so}")
    head = ["keys", "as a", f"an epoch of {PER_FILE:,}", "an event", "most memory: Python + Java + workers", "together"]
    report.table("Players' statistics by keys in the state, events on random keys", head, lines)
    if not given.quick:
        report.write()


if __name__ == "__main__":
    main()
