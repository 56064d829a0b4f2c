"""Exactly once: the process is killed at random moments and at each step of the commit protocol, and nothing is lost.

After the last restart every view equals a plain recomputation from the events, duplicates are told apart, and the
outbox holds each pane once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from penstock.store import Reader, StoreError
from tests.faults.app import STEPS

APP = Path(__file__).parent / "app.py"
ROOT = Path(__file__).parent.parent.parent
START = 1_714_564_800  # 2024-05-01T12:00:00Z
KILLS = 200 if os.environ.get("PENSTOCK_DEEP") == "1" else 6


def events(count: int) -> list[dict]:
    """Events in disorder of up to 15 seconds, one in ten twice."""
    chance = random.Random(5)
    made = []
    for number in range(count):
        at = START + number * 0.2 - chance.random() * 15
        made.append({"id": number, "k": "abc"[number % 3], "v": chance.randrange(1000), "at": at})
        if chance.random() < 0.1:
            made.append(dict(made[-1]))
    return made


def write(root: Path, name: str, rows: list[dict]) -> None:
    hidden = root / f".{name}"
    hidden.write_text("".join(json.dumps({**row, "at": _iso(row["at"])}) + "\n" for row in rows))
    hidden.rename(root / "in" / f"{name}.json")


def _iso(seconds: float) -> str:
    return pl.Series([int(seconds * 1e6)]).cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").item()


def start(root: Path, *step: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(APP), str(root), *step],
        stdout=subprocess.PIPE, stderr=(root / "stderr").open("a"), text=True, env=environment,
    )  # fmt: skip


def wait_for(process: subprocess.Popen, word: str) -> bool:
    assert process.stdout is not None
    return any(line.strip() == word for line in process.stdout)


def commits(root: Path) -> int:
    try:
        reader = Reader(root / "state")
    except StoreError:  # the first process has not made it yet
        return 0
    last = reader.last()
    reader.close()
    return 0 if last is None else last.number


def check(root: Path, rows: list[dict]) -> None:
    """The views against a plain recomputation: nothing is late here, so all that counts is each id once."""
    reader = Reader(root / "state")
    once = {row["id"]: row for row in rows}.values()
    total = reader.query("SELECT n, s, ids FROM total").rows()
    assert total == [(len(once), sum(row["v"] for row in once), len(once))]
    counted: dict[tuple, list[int]] = {}
    for row in once:
        micros = int(row["at"] * 1e6)
        start_of = micros - micros % 10_000_000
        counted.setdefault((row["k"], start_of), []).append(row["v"])
    shown = reader.query("SELECT k, window_start, n, s FROM counts").rows()
    expected = {
        (k, pl.Series([at]).cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M:%S").item(), len(v), sum(v))
        for (k, at), v in counted.items()
    }
    assert set(shown) == expected
    assert len(shown) == len(expected)
    assert reader.query("SELECT sum(n) FROM sessions").item() == len(once)
    assert reader.query("SELECT count(*) FROM __refused WHERE kind = 'duplicate'").item() == len(rows) - len(once)
    panes = reader.panes(0, 1 << 30)
    identity = ["view", "key", "start", "end", "index", "kind"]
    assert panes.select(identity).is_unique().all(), "a pane stands in the outbox twice"
    delivered = [json.loads(line)["pane"] for file in sorted((root / "panes").glob("*.jsonl")) for line in file.open()]
    assert delivered == panes.filter(pl.col("view") == "sessions")["id"].to_list(), "the files hold each pane once"
    numbers = reader.query('SELECT count(*), max("number") FROM __commits').row(0)
    assert numbers[0] == numbers[1], "commits are numbered without gaps"
    reader.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def test_killed_at_random_moments_nothing_is_lost_and_nothing_counts_twice(root: Path):
    rows, chance = events(60 * (KILLS + 4)), random.Random(11)
    cut = len(rows) // (KILLS + 1)
    for number in range(KILLS):
        write(root, f"{number:04}", rows[number * cut : (number + 1) * cut])
        for part in range(3):  # more epochs to be killed in
            write(root, f"{number:04}-again-{part}", rows[number * cut + part : number * cut + part + 5])
        process = start(root)
        assert wait_for(process, "ready"), (root / "stderr").read_text()[-3000:]
        goal = commits(root) + chance.randrange(1, 4)
        while commits(root) < goal and process.poll() is None:
            if chance.random() < 0.02:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
    everything = rows + [
        row
        for number in range(KILLS)
        for part in range(3)
        for row in rows[number * cut + part : number * cut + part + 5]
    ]
    write(root, "9999", rows[KILLS * cut :])
    (root / "END").touch()
    process = start(root)
    assert wait_for(process, "done"), (root / "stderr").read_text()[-3000:]
    process.wait()
    check(root, everything)


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_each_step_of_the_commit_protocol(root: Path, step: str):
    rows = events(400)
    for number in range(5):
        write(root, f"{number:04}", rows[number * 90 : (number + 1) * 90 if number < 4 else None])
    process = start(root, step)
    process.wait()
    assert process.returncode == -signal.SIGKILL, (root / "stderr").read_text()[-3000:]
    (root / "END").touch()
    process = start(root)
    assert wait_for(process, "done"), (root / "stderr").read_text()[-3000:]
    process.wait()
    check(root, rows)
