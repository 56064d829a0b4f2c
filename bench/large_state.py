"""Views of up to ten million keys against an earlier version, in processes that take turns; and by executors.

    git worktree add ../before f246bfe
    python bench/large_state.py --before ../before                 # writes bench/results/large_state.md
    python bench/large_state.py --executors                        # writes bench/results/large_state-executors.md
    python bench/large_state.py --before ../before --panes         # writes bench/results/large_state-panes.md

First every key comes once; then epochs of 250,000 events on random keys are measured (with `--executors` of 1,000,000).
With `--panes` each key that changes fires a pane in each epoch: up to 1,000,000 while the keys come, then 250,000.
Memory is what the driver's Python process holds at most, with the pages of mapped files that it has touched.
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
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

START = 1_700_000_000_000_000
SCHEMA = "at timestamp, player bigint, score bigint"
SIZES = (1_000, 100_000, 1_000_000, 10_000_000)


def write(folder: Path, keys: int, events: int, epochs: int, files: int = 1) -> None:
    """Epochs in which every key comes once, and some with random keys; each has so many files, one for a task."""
    chance = np.random.default_rng(3)
    chunks = [*np.array_split(chance.permutation(keys), max(1, keys // 1_000_000))]
    chunks += [chance.integers(0, keys, events) for _ in range(epochs)]
    for number, players in enumerate(chunks):
        at = START + number * 1_000_000 + np.arange(len(players)) % 1_000_000
        scores = chance.integers(0, 1000, len(players))
        table = pa.table({"at": pa.array(at, pa.timestamp("us", tz="UTC")), "player": players, "score": scores})
        for part in range(files):
            path, rows = folder / f"{number:04}-{part}.parquet", len(players) // files
            pq.write_table(table.slice(part * rows, rows if part < files - 1 else None), path)
            os.utime(path, (number * files + part, number * files + part))  # the oldest are read first


def run(folder: Path, epochs: int, master: str, conf: dict[str, str], files: int, panes: bool) -> dict[str, float]:
    """In a process of its own: seconds of an epoch, and the most memory of the driver's Python."""
    import penstock as ps
    from bench.surge import memory_of

    most, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            most[0] = max(most[0], memory_of(os.getpid())[0])

    app = ps.App("keys")
    games = app.stream(
        "games", ps.files(folder, format="parquet", files_per_epoch=files), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("5 seconds", idle=None), max_ahead=None, keep="none",
    )  # fmt: skip
    totals = {"games": ps.count(), "points": ps.sum("score"), "best": ps.max("score")}
    trigger = ps.each() if panes else ps.never()
    app.view("players", games.group_by("player").agg(**totals).trigger(trigger))
    with tempfile.TemporaryDirectory() as work:
        watcher = threading.Thread(target=look, daemon=True)
        running = app.start(Path(work) / "state", master=master, conf=conf, tick=3600.0, target=None)
        watcher.start()
        running.catch_up()
        taken = [
            report["durationMs"]["triggerExecution"] / 1000
            for report in running.progress("games")
            if report["durationMs"].get("addBatch")
        ]
        done.set()
        running.stop()
    return {"epoch": statistics.median(taken[-(epochs - 1) :]), "memory": most[0]}


def turn(
    tree: Path,
    folder: Path,
    epochs: int,
    master: str = "local[2]",
    conf: dict[str, str] | None = None,
    files: int = 1,
    panes: bool = False,
) -> dict[str, float]:
    """The same in a process with a version's source."""
    paths = os.pathsep.join([str((tree / "src").resolve()), str(tree.resolve())])
    conf = conf or {"spark.driver.memory": "1g"}
    task = {"folder": str(folder), "epochs": epochs, "master": master, "conf": conf, "files": files, "panes": panes}
    command = [sys.executable, str(Path(__file__).resolve()), "--run", json.dumps(task)]
    env = os.environ | {"PYTHONPATH": paths, "PENSTOCK_BENCH_TREE": str(tree.resolve())}
    answer = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def against(before: Path, sizes: tuple[int, ...], rounds: int, epochs: int) -> None:
    from bench.side_by_side import Report

    lines, cost = [], {}
    for keys in sizes:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            write(Path(folder), keys, 250_000, epochs)
            old, new = [], []
            for _ in range(rounds):
                old.append(turn(before, Path(folder), epochs))
                new.append(turn(ROOT, Path(folder), epochs))
        faster = statistics.median(a["epoch"] / b["epoch"] for a, b in zip(old, new, strict=True))
        one, other = (statistics.median(turned["epoch"] for turned in turns) for turns in (old, new))
        cost[keys] = other
        memory = [max(turned["memory"] for turned in turns) for turns in (old, new)]
        lines.append(
            [f"{keys:,}", f"{one:.2f} s", f"{other:.2f} s", f"{250 / other:,.0f} k/s", f"{faster:.2f}",
             f"{memory[0]:,.0f} MB", f"{memory[1]:,.0f} MB"]
        )  # fmt: skip
        print(lines[-1], flush=True)
    report = Report("large_state", f"python bench/large_state.py --before … --rounds {rounds}")
    head = ["keys", "before", "now", "events now", "times as fast", "driver's Python before", "and now"]
    report.table("An epoch of 250,000 events on random keys, all of which are known", head, lines)
    if 100_000 in cost and 10_000_000 in cost:
        ratio = cost[10_000_000] / cost[100_000]
        report.table("The cost of an event", ["10 million keys, of 100,000 keys"], [[f"{ratio:.2f}"]])
    report.write()


def with_panes(before: Path, keys: int, epochs: int) -> None:
    """The driver's memory when each key that changes fires a pane."""
    from bench.side_by_side import Report

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        write(Path(folder), keys, 250_000, epochs)
        turns = {
            name: turn(tree, Path(folder), epochs, panes=True) for name, tree in (("before", before), ("now", ROOT))
        }
    lines = [[name, f"{one['epoch']:.2f} s", f"{one['memory']:,.0f} MB"] for name, one in turns.items()]
    print(lines, flush=True)
    report = Report(
        "large_state-panes", f"python bench/large_state.py --before … --panes --keys {keys} --epochs {epochs}"
    )
    head = ["panes through the driver, and in files", "an epoch of 250,000 panes", "driver's Python at most"]
    report.table(f"{keys:,} keys, a pane of each key that changes; up to 1,000,000 in one epoch", head, lines)
    report.write()


def executors(keys: int, epochs: int, rounds: int) -> None:
    """One executor of one core against two, on a standalone cluster of this machine."""
    from bench.side_by_side import Report
    from penstock.dev.cluster import Cluster

    taken: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        write(Path(folder), keys, 1_000_000, epochs, files=2)
        for _ in range(rounds):
            for count in taken:
                with tempfile.TemporaryDirectory() as home, Cluster(home, workers=count, memory="2g") as cluster:
                    conf = {"spark.driver.memory": "1g", "spark.executor.memory": "1g"}
                    taken[count].append(turn(ROOT, Path(folder), epochs, cluster.master, conf, 2)["epoch"])
    faster = statistics.median(a / b for a, b in zip(taken[1], taken[2], strict=True))
    rows = [[str(count), f"{statistics.median(times):.2f} s"] for count, times in taken.items()]
    report = Report(
        "large_state-executors",
        f"python bench/large_state.py --executors --keys {keys} --epochs {epochs} --rounds {rounds}",
    )
    report.table(f"An epoch of 1,000,000 events, {keys:,} keys; two are {faster:.2f} times as fast as one",
                 ["executors of one core", "an epoch"], rows)  # fmt: skip
    report.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the work tree of the earlier version")
    parser.add_argument("--executors", action="store_true")
    parser.add_argument("--panes", action="store_true")
    parser.add_argument("--keys", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        task = json.loads(options.run)
        task["folder"] = Path(task["folder"])
        print(json.dumps(run(**task)))
    elif options.executors:
        executors(options.keys[-1], options.epochs, options.rounds)
    elif options.before is not None and options.panes:
        with_panes(options.before, options.keys[-1], options.epochs)
    elif options.before is not None:
        against(options.before, tuple(options.keys), options.rounds, options.epochs)
    else:
        parser.error("pass --before PATH or --executors")


if __name__ == "__main__":
    main()
