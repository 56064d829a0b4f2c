"""The demo `flights`: a week of departures, cut and restarted, equals its recomputation; killed, it goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from penstock.cli.load import load_app
from penstock.dev.demos import flights
from penstock.dev.demos.flights import Replay
from penstock.model.time import SECOND, instant
from penstock.store import Reader, StoreError
from tests.outbox import panes
from tests.strategies import DEEP

pytestmark = pytest.mark.xdist_group("spark")
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "penstock.cli", "demo", "flights", "--no-serve")
LONGEST = 180.0


@pytest.fixture(scope="module")
def week() -> pl.DataFrame:
    """The departures of the second week of January."""
    rows = flights.departures()
    departed = rows["departed"].to_physical()
    return rows.filter((departed >= instant("2013-01-07T05:00:00Z")) & (departed < instant("2013-01-14T05:00:00Z")))


def replay(rows: pl.DataFrame, folder: Path) -> Replay:
    return Replay(rows, folder, speed=10**12, is_read=lambda: True)


def test_most_departures_are_out_of_order_some_by_many_hours():
    rows = flights.departures()
    assert rows.height == 328_521
    behind = rows["scheduled"].cum_max() - rows["scheduled"]
    lags = behind.dt.total_minutes()
    assert (lags > 0).mean() > 0.5
    assert (lags > 10 * 60).sum() > 20


def test_a_replay_goes_on_where_another_was_killed(week, tmp_path):
    first = replay(week, tmp_path / "in")
    first.put(instant("2013-01-09T00:00:00Z"))
    second = replay(week, tmp_path / "in")
    assert second.done == first.done > 0
    second.run()
    assert second.done == week.height
    written = pl.concat([pl.read_parquet(file) for file in sorted((tmp_path / "in").glob("*.parquet"))])
    assert written.equals(week.select(written.columns))


def test_a_week_of_departures_equals_its_recomputation_across_a_restart(week, tmp_path, spark):
    feed = replay(week, tmp_path / "in")
    app = flights.app(tmp_path / "in")
    at, end = feed.at, int(week["departed"].to_physical()[-1])
    while at <= end:
        run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
        try:
            for _ in range(8):
                at += 11 * 3600 * SECOND
                feed.put(at)
                run.catch_up()
        finally:
            run.stop()
    reader = Reader(tmp_path / "state")
    proofs = flights.prove(week, reader.query)
    assert all(proof.holds for proof in proofs)
    assert [proof.view for proof in proofs] == ["by_airport", "by_carrier"]
    assert all(proof.rows > 50 for proof in proofs)
    assert sum(proof.late for proof in proofs) > 0
    timings = dict(panes(reader).filter(kind="insert")["timing"].value_counts().iter_rows())
    assert all(timings[timing] > 0 for timing in ("early", "on time", "late"))
    assert panes(reader).filter(kind="retract").height > 0
    assert not any(proof.holds for proof in flights.prove(week.head(-100), reader.query)), (
        "the proof tells a difference"
    )


def test_the_example_is_the_demo():
    example = load_app(ROOT / "examples" / "flights" / "app.py")
    demo = flights.app(Path("departures"))
    assert {name: view.fingerprint() for name, view in example.views.items()} == {
        name: view.fingerprint() for name, view in demo.views.items()
    }
    assert [view.firing for view in example.views.values()] == [view.firing for view in demo.views.values()]


@pytest.mark.skipif(not DEEP, reason="only with PENSTOCK_DEEP=1: tests/faults kills apps by default")
def test_killed_and_resumed_the_demo_still_proves_its_result(tmp_path):
    common = ["--dir", str(tmp_path / "demo"), "--speed", "1 day", "--master", "local[2]"]
    with subprocess.Popen([*COMMAND, *common], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        end = time.monotonic() + LONGEST
        while _epochs(tmp_path / "demo") < 3:
            assert running.poll() is None
            assert time.monotonic() < end, "it took too long"
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
    before = Reader(tmp_path / "demo").counters()["departures.events"]
    done = subprocess.run(
        [*COMMAND, *common, "--resume", "--for", "2s"], capture_output=True, text=True, timeout=LONGEST, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.count("live = recomputed") == 2
    assert Reader(tmp_path / "demo").counters()["departures.events"] > before


def _epochs(directory: Path) -> int:
    try:
        return int(Reader(directory).query("SELECT count(*) FROM __commits WHERE kind = 'epoch'").item())
    except StoreError:
        return 0
