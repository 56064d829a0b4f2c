"""Linear Road on one expressway: how many events a second the app takes, and how long answers take at the real rate.

    python bench/linear_road.py [--quick] [--times 2]

One expressway makes 12 million events in three hours, 1,100 a second. First the app reads a log that is there already,
as fast as it can. Then the log grows as it would on the road, a file each second, or `--times` as fast: a response is
the time from when a second's file is there to when the answers of the commit are delivered. Linear Road allows five
seconds, and ten for expenditures. All answers of both runs are compared with the oracle's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from examples.linear_road.app import linear_road
from examples.linear_road.events import Road, cut
from examples.linear_road.oracle import Answers, answers
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session

NEEDED = 12_000_000 / (3 * 3600)
#: Seconds that an answer may take, and the column that tells when its event was.
ALLOWED = {"tolls": 5, "alerts": 5, "balances": 5, "expenditures": 10}
#: So many seconds of event time at the end may lack answers: the watermark has not passed them.
OPEN = 2


class Running:
    """The app in a folder of its own, with an empty log; `out` has what it answers."""

    def __init__(self, spark: SparkSession, root: Path, road: Road, cars: int) -> None:
        self.root = root
        for name in ("log", "history"):
            (root / name).mkdir(parents=True)
        road.history(cars).write_csv(root / "history" / "tolls.csv", include_header=False)
        made = linear_road(root)
        for name, flow in made.answers.items():
            made.app.sink(flow, ps.to_jsonl(root / "out" / name), name=name)
        self.run: Run = made.app.start(root / "state", spark=spark)
        self.files = 0

    def put(self, events: pl.DataFrame) -> float:
        """Adds a file to the log; when it was there."""
        hidden = self.root / ".hidden"
        events.write_csv(hidden, include_header=False)
        self.files += 1
        hidden.rename(self.root / "log" / f"{self.files:06}.csv")
        return time.time()

    def answers(self, name: str) -> list[tuple[float, dict[str, int]]]:
        """What was answered, and when it was delivered."""
        found = []
        for file in sorted((self.root / "out" / name).glob("*.jsonl")):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            found += [(file.stat().st_mtime, {key: row[key] for key in row if key != "pane"}) for row in rows]
        return found

    def finish(self) -> None:
        """Waits until all that is there is committed and delivered."""
        self.run.catch_up()
        newest = self.run.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
        while any(at < newest for at in self.run.delivery.positions.values()):
            self.run.wait(0.05)


def check(running: Running, wanted: Answers, until: int) -> None:
    """Refuses answers that are not the oracle's, those that are missing, and events that were refused."""
    counters = running.run.store.counters()
    refused = {name: many for name, many in counters.items() if name.endswith((".late", ".dead", ".duplicate"))}
    assert not any(refused.values()), f"events were refused: {refused}"
    for name in ALLOWED:
        found = sorted(tuple(row.values()) for _, row in running.answers(name))
        place = 1 if name == "tolls" else 0
        lacking = set(getattr(wanted, name)).difference(found)
        wrong = set(found).difference(getattr(wanted, name))
        assert not wrong, f"{name}: {sorted(wrong)[:3]} are not the oracle's"
        assert not [row for row in lacking if row[place] < until - OPEN], f"{name}: {len(lacking)} are missing"


def throughput(spark: SparkSession, root: Path, road: Road, log: pl.DataFrame) -> tuple[float, Running]:
    """Events a second of a log that is there; the first tenth warms up."""
    running = Running(spark, root, road, int(log["vid"].to_numpy().max()))
    parts = list(cut(log, 20))
    for part in parts[:2]:
        running.put(part)
    running.finish()
    for part in parts[2:]:
        running.put(part)
    begun = time.perf_counter()
    running.finish()
    seconds = time.perf_counter() - begun
    return sum(part.height for part in parts[2:]) / seconds, running


def responses(
    spark: SparkSession, root: Path, road: Road, log: pl.DataFrame, times: float, warm: int
) -> tuple[dict[str, list[float]], Running]:
    """How long each answer took, of a log that grows second by second; the first ones warm up."""
    running = Running(spark, root, road, int(log["vid"].to_numpy().max()))
    arrived: dict[int, float] = {}
    begun = time.time()
    for (second,), part in sorted(log.partition_by("time", as_dict=True).items()):
        time.sleep(max(0.0, begun + (int(second) + 1) / times - time.time()))
        arrived[int(second)] = running.put(part)
    running.finish()
    found = {
        name: [at - arrived[row["time"]] for at, row in running.answers(name) if row["time"] >= warm]
        for name in ALLOWED
    }
    return found, running


def tell_speed(report: Report, events: int, speed: float) -> None:
    head = ["events", "events/s", "one expressway needs", "expressways"]
    line = [f"{events:,}", f"{speed:,.0f}", f"{NEEDED:,.0f}", f"{speed / NEEDED:.1f}"]
    report.table("A log that is there already", head, [line])


def tell_responses(report: Report, rate: float, taken: dict[str, list[float]]) -> None:
    lines = []
    for name, allowed in ALLOWED.items():
        mine = taken[name]
        if len(mine) < 2:
            continue  # an hour has a few accidents, and minutes may have none
        cuts = statistics.quantiles(mine, n=100)
        within = sum(one <= allowed for one in mine) / len(mine)
        times = [f"{seconds:.2f} s" for seconds in (cuts[49], cuts[98], max(mine))]
        lines.append([name, f"{len(mine):,}", *times, f"{allowed} s", f"{within:.1%}"])
    head = ["answer", "answers", "median", "99th percentile", "longest", "allowed", "within it"]
    report.table(f"A log that grows by {rate:,.0f} events a second", head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Linear Road on one expressway.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the traffic, for two minutes")
    parser.add_argument("--times", type=float, default=1.0, help="how much faster than on the road the log grows")
    given = parser.parse_args()
    minutes, cars, warm = (2, 3_100, 40) if given.quick else (6, 31_000, 90)
    road = Road(minutes, cars, accidents=10)
    log = road.events()
    wanted = answers(log.to_dicts(), road.history(int(log["vid"].to_numpy().max())).to_dicts())
    report = Report("linear_road", "python bench/linear_road.py")
    spark = spark_session("linear_road", master="local[2]", memory="2g")
    root = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        speed, running = throughput(spark, root / "all", road, log)
        check(running, wanted, 60 * minutes)
        running.run.stop()
        tell_speed(report, log.height, speed)
        taken, running = responses(spark, root / "live", road, log, given.times, warm)
        check(running, wanted, 60 * minutes)
        running.run.stop()
        tell_responses(report, given.times * log.height / (60 * minutes), taken)
        report.note("All answers are the oracle's.")
        if not given.quick:
            report.write()
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
