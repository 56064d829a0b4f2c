"""What it costs to write panes and to deliver them: this version against an earlier one, taking turns.

    git worktree add ../before 8d6c89c
    python bench/outbox.py --before ../before/src        # writes bench/results/outbox.md

Both run the same code below in a process of their own, with a store in SQLite and sinks that call a function. Commits
have panes and nothing else, so that CPU seconds are those of the outbox: writing, reading, decoding, positions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

ROUNDS = 3
SOURCE = Path(__file__).parent.parent / "src"


@dataclass(frozen=True)
class Load:
    """So many views with a sink each, and commits with so many panes of so many of the views."""

    views: int
    firing: int
    commits: int
    panes: int

    @property
    def total(self) -> int:
        return self.firing * self.commits * self.panes


LOADS = {
    "20 views and 20 sinks, 20 panes of each view in a commit": Load(20, 20, 40, 20),
    "20 views and 20 sinks, 500 panes of each view in a commit": Load(20, 20, 6, 500),
    "20 views and 20 sinks, 20 panes of one view in a commit": Load(20, 1, 100, 20),
    "one view and one sink, 50,000 panes in a commit": Load(1, 1, 4, 50_000),
}


def panes_of(plan, count: int, chance: random.Random) -> pl.DataFrame:
    """Panes of one view, as the kernel fires them."""
    from penstock.kernel.fire import pane_schema

    start = 1_714_564_800_000_000
    columns = {
        "user": [f"user {chance.randrange(1_000_000)}" for _ in range(count)],
        "__start": [start] * count,
        "__end": [start + 10_000_000] * count,
        "n": [chance.randrange(1000) for _ in range(count)],
        "total": [chance.random() * 1000 for _ in range(count)],
        "newest": [start + chance.randrange(10_000_000) for _ in range(count)],
        "__insert": [True] * count,
        "__timing": ["early"] * count,
        "__index": [0] * count,
        "__final": [False] * count,
    }
    return pl.DataFrame([pl.Series(name, columns[name]).cast(kind) for name, kind in pane_schema(plan).items()])


def measured(load: Load) -> dict[str, float]:
    """CPU and wall-clock seconds of the commits and of the deliveries after each."""
    import penstock as ps
    from penstock.kernel.plan import Plan
    from penstock.sinks import Delivery, to_function
    from penstock.store import Commit, open_store
    from penstock.store.generations import with_panes

    stream = ps.stream(
        "s", schema="user string, x double, at timestamp", event_time="at", watermark=ps.bounded("1 second")
    )
    view = (
        stream.group_by("user")
        .window(ps.fixed("10 seconds"))
        .agg(n=ps.count(), total=ps.sum("x"), newest=ps.max("at"))
        .trigger(ps.each())
    )
    chance, taken = random.Random(0), [0]

    def take(rows: list[dict[str, object]]) -> None:
        taken[0] += len(rows)

    with tempfile.TemporaryDirectory() as directory:
        store = open_store(Path(directory) / "state")
        store.lock()
        plan = Plan(view)
        store.prepare({f"v{number}": plan for number in range(load.views)})
        name = next(name for name in signature(Delivery).parameters if name.startswith("commit_position"))
        saves = {name: store.delivered}  # the earlier version saves the position of one sink at a time
        delivery = Delivery(
            store, {f"sink{number}": (f"v{number}", view, to_function(take)) for number in range(load.views)},
            **saves, trim=store.trim_outbox, patience=600,
        )  # fmt: skip
        frames = [panes_of(plan, load.panes, chance) for _ in range(load.firing)]
        cpu = {"write": 0.0, "deliver": 0.0}
        began = time.perf_counter()
        for number in range(load.commits):
            changes = {
                f"v{(place + number) % load.views}": with_panes(plan, frame) for place, frame in enumerate(frames)
            }
            at = time.process_time()
            store.commit(Commit(kind="tick", now=number, changes=changes))
            written = time.process_time()
            delivery.deliver()
            cpu["write"] += written - at
            cpu["deliver"] += time.process_time() - written
        wall = time.perf_counter() - began
        assert not delivery.failures, delivery.failures
        assert taken[0] == load.total, (taken[0], load.total)
        delivery.close()
        store.close()
    return {**cpu, "wall": wall}


def run(source: Path, name: str) -> dict[str, float]:
    """Measures a load with the code of a source tree, in a process of its own."""
    command = [sys.executable, __file__, "--load", name]
    environment = {**os.environ, "PYTHONPATH": str(source.absolute()), "POLARS_MAX_THREADS": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--before", type=Path, help="the source tree of an earlier version")
    options.add_argument("--load", help="measure this load in this process, and print what it took")
    asked = options.parse_args()
    if asked.load:
        print(json.dumps(measured(LOADS[asked.load])))
        return
    if asked.before is None:
        options.error("say where an earlier version is: --before ../before/src")
    from bench.side_by_side import Report  # it imports this version

    report = Report("outbox", "python bench/outbox.py")
    for name, load in LOADS.items():
        rows = []
        both: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
        for _ in range(ROUNDS):
            both["before"].append(run(asked.before, name))
            both["now"].append(run(SOURCE, name))
        for version, answers in both.items():
            write, deliver = (
                statistics.median(answer[part] / load.total * 1e6 for answer in answers)
                for part in ("write", "deliver")
            )
            each = [(answer["write"] + answer["deliver"]) / load.total * 1e6 for answer in answers]
            wall = statistics.median(answer["wall"] for answer in answers)
            rows.append([
                version, f"{write:.1f} µs", f"{deliver:.1f} µs", f"{statistics.median(each):.1f} µs",
                f"{min(each):.1f}-{max(each):.1f}", f"{wall:.2f} s",
            ])  # fmt: skip
        before, now = (
            statistics.median([answer["write"] + answer["deliver"] for answer in both[version]])
            for version in ("before", "now")
        )
        rows.append(["before / now", "", "", f"{before / now:.1f}", "", ""])
        report.table(name, ["", "write", "deliver", "CPU per pane", "all", "wall clock"], rows)
    report.write()


if __name__ == "__main__":
    main()
