"""Joins are exactly once: killed around the commits of an epoch, and while tables change."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from penstock.lake.master import Master
from penstock.model.join_played import JoinPlayed
from penstock.store import Reader, StoreError
from penstock.testing import TestStream, join
from tests.conftest import need_spark
from tests.faults.audit import made_up
from tests.faults.join_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import FILE, Process, put_file

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
APP = Path(__file__).parent / "join_app.py"
KILLS = [(step, passes) for step in STEPS for passes in ((1, 2, 3) if DEEP else (1,))][:: 1 if DEEP else 2]


#: So many seconds without a commit, and the app has done all that it can.
QUIET = 30


class OfJoin(Process):
    """One process of the app with the joins."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, dict(os.environ), APP)


@pytest.fixture
def next_process(tmp_path: Path) -> Iterator[list[OfJoin]]:
    need_spark()
    (tmp_path / "in").mkdir()
    (tmp_path / "names").mkdir()
    made = [OfJoin(tmp_path)]
    yield made
    made[0].kill()


def name_keys(root: Path, version: int) -> None:
    """Another version of the table: every key has another name."""
    hidden = root / ".names"
    hidden.write_text("".join(json.dumps({"k": k, "name": f"{k}{version}"}) + "\n" for k in "abcdefghijkl"))
    hidden.rename(root / "names" / "all.json")


@pytest.mark.skipif(not DEEP, reason="for the deep run")
def test_killed_around_the_commits_of_an_epoch_a_join_does_what_the_reference_does(
    tmp_path: Path, next_process: list[OfJoin]
):
    rows, written, begun = made_up(FILE * 8 * (len(KILLS) + 1)), 0, int(time.time())
    name_keys(tmp_path, 1)

    def write(files: int) -> int:
        done = written
        for _ in range(files):
            done += put_file(tmp_path, rows, done, begun)
        return done

    for number, (step, passes) in enumerate(KILLS):
        written = write(3)
        killed, next_process[0] = next_process[0], OfJoin(tmp_path)
        killed.go(f"{step}:{passes}")
        name_keys(tmp_path, number + 2)
        last, quiet = _commits(tmp_path), 0
        while killed.runs:
            time.sleep(1)
            now = _commits(tmp_path)
            last, quiet = now, quiet + 1 if now == last else 0
            if quiet == QUIET:  # an epoch of the join may take all that there is: the next one needs more
                written, quiet = write(1), 0
        assert killed.ends() == -signal.SIGKILL, (step, (tmp_path / "stderr").read_text()[-3000:])
    written = write(2)
    next_process[0].go()
    _wait_for_streams(tmp_path, rows[:written], next_process[0])
    (tmp_path / "END").touch()
    next_process[0].wait_for("done")
    assert next_process[0].ends() == 0
    _compare_streams(tmp_path, rows[:written])
    _compare_names(tmp_path, rows[:written])


def _commits(root: Path) -> int | None:
    """The number of the last commit; None before the first."""
    try:
        reader = Reader(root / "state")
        last = reader.last()
        reader.close()
    except StoreError:
        return None
    return None if last is None else last.number


def _wanted(root: Path, rows: list[dict]) -> JoinPlayed:
    _, events, runs = define(root)
    script = TestStream(events)
    for first in range(0, len(rows), FILE):
        script = script.add(*rows[first : first + FILE])
    return join(runs, script)


def _kept(reader: Reader, root: Path) -> pl.DataFrame:
    return Master(reader).past(define(root)[2]).read().select("id", "k", "other")


def _wait_for_streams(root: Path, rows: list[dict], process: OfJoin) -> None:
    """All that is joined comes by itself, also what found no partner: no more events are needed."""
    want, reader = Counter((row[0], row[1], row[3]) for row in _wanted(root, rows).rows), Reader(root / "state")
    end = time.monotonic() + 600
    while Counter(_kept(reader, root).iter_rows()) != want and time.monotonic() < end:
        assert process.runs, (root / "stderr").read_text()[-3000:]
        time.sleep(0.2)
    reader.close()


def _compare_streams(root: Path, rows: list[dict]) -> None:
    want = _wanted(root, rows)
    reader = Reader(root / "state")
    kept = _kept(reader, root)
    assert None in kept["other"], "some found none"
    assert Counter(kept.iter_rows()) == Counter((row[0], row[1], row[3]) for row in want.rows)
    late = sum(one.event.stream == "events" for one in want.late)
    assert reader.counters().get("runs.late", 0) == late > 0
    assert reader.query("SELECT sum(rows) FROM by_key").item() == kept.height
    reader.close()


def _compare_names(root: Path, rows: list[dict]) -> None:
    """Each event has the name of the version that its commit says it had."""
    reader = Reader(root / "state")
    kept = Master(reader).past(define(root)[1]).read().select("id", "k", "__commit")
    notes = reader.query("SELECT number, timings FROM __commits WHERE kind = 'epoch'").iter_rows()
    versions = {number: json.loads(note).get("tables", {}).get("names") for number, note in notes}
    assert kept.height == len({row["id"] for row in rows})
    found: Counter[str] = Counter()
    for name, count in reader.query("SELECT name, rows FROM by_name").iter_rows():
        found[name] += count
    want: Counter[str] = Counter()
    for _, key, commit in kept.iter_rows():
        want[f"{key}{named_in(root, versions[commit])}"] += 1
    assert found == want
    reader.close()


def named_in(root: Path, version: int) -> int:
    """Which names a version of the table has."""
    rows = pl.read_parquet(root / "state" / "tables" / "names" / str(version) / "*.parquet")
    return int(rows["name"][0][1:])
