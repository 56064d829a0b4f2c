"""This version against an earlier one, in processes that take turns: events per second, and small epochs.

    git worktree add ../before 8d6c89c
    python bench/versions.py --before ../before/src        # writes bench/results/versions.md

Both read the same files into SQLite, with the history kept. Each process warms up first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parent.parent / "src"
RESULTS = Path(__file__).parent / "results" / "versions.md"


@dataclass(frozen=True)
class Load:
    """Files of events, one per epoch, and so many views over them."""

    files: int
    events: int
    keys: int
    views: int


LOADS = {
    "250,000 events per epoch, 1,000 keys": Load(8, 250_000, 1_000, 1),
    "250,000 events per epoch, 100,000 keys": Load(8, 250_000, 100_000, 1),
    "100 events per epoch": Load(60, 100, 50, 1),
    "10,000 events per epoch, 20 views": Load(20, 10_000, 1_000, 20),
}


def write(load: Load, folder: Path) -> None:
    """Makes the files of a load."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(7)
    for file in range(load.files):
        keys = chance.integers(0, load.keys, load.events)
        values = chance.integers(0, 1000, load.events)
        start = 1_714_564_800 + file * 10
        lines = (
            f'{{"k":"k{key}","v":{value},"at":"{datetime.fromtimestamp(start + number % 10, UTC):%Y-%m-%dT%H:%M:%SZ}"}}'
            for number, (key, value) in enumerate(zip(keys, values, strict=True))
        )
        path = folder / f"{file:04d}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (start, start))


def seconds(load: Load, folder: Path) -> float:
    """How long an app takes to read all files, from the first commit on."""
    import penstock as ps

    app = ps.App("versions")
    events = app.stream(
        "events", ps.files(folder, files_per_epoch=1), schema="k string, v bigint, at timestamp", event_time="at",
        watermark=ps.bounded("5 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    for number in range(load.views):
        app.view(f"v{number}", events.group_by("k").window(ps.fixed(f"{10 + number} seconds")).agg(n=ps.count()))
    with tempfile.TemporaryDirectory() as state:
        # Earlier versions have `app.run(…).start()`.
        begin = app.start if hasattr(app, "start") else lambda *args, **options: app.run(*args, **options).start()
        run = begin(Path(state) / "state", target=None)
        try:
            while run.store.last() is None:
                run.wait(0.01)
            begun = time.perf_counter()
            run.catch_up()
            return time.perf_counter() - begun
        finally:
            run.stop()


def measure(folder: Path) -> dict[str, float]:
    """One process: each load twice, the second one counts."""
    return {
        name: min(seconds(load, folder / str(number)) for _ in range(2))
        for number, (name, load) in enumerate(LOADS.items())
    }


def turn(source: Path, folder: Path) -> dict[str, float]:
    """The same in a process with another version's source."""
    paths = os.pathsep.join([str(source.resolve()), str(Path(__file__).parent)])
    command = [sys.executable, __file__, "--measure", str(folder)]
    answer = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, check=True, capture_output=True, text=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the src folder of the earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure)))
        return
    if options.before is None:
        parser.error("--before PATH is needed: the src folder of an earlier version")
    before: list[dict[str, float]] = []
    now: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as work:
        for number, load in enumerate(LOADS.values()):
            write(load, Path(work) / str(number))
        for number in range(options.rounds):
            before.append(turn(options.before, Path(work)))
            now.append(turn(SOURCE, Path(work)))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by `python bench/versions.py --before …`, {options.rounds} rounds.",
        "",
        "| load | before, ms per epoch | now, ms per epoch | now, of before |",
        "|---|---|---|---|",
    ]
    for name, load in LOADS.items():
        old, new = (statistics.median(one[name] for one in rounds) for rounds in (before, now))
        epochs = load.files - 1
        lines.append(f"| {name} | {1000 * old / epochs:.0f} | {1000 * new / epochs:.0f} | {new / old:.2f} |")
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
