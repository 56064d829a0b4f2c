"""Linear Road: how many events a second the app takes, and how many expressways it holds within the response times.

    python bench/linear_road.py [--minutes 3]
    python bench/linear_road.py --from 3            # the rating alone, which begins with three expressways
    python bench/linear_road.py --expressways 2     # one step, of two expressways
    python bench/linear_road.py --quick             # a tenth of the traffic, to see that it works

First the app reads the log of one expressway that is there already, as fast as it can. Then the rating: L expressways
(1, 2, 3, 4, 6, 8, 12, …) write their log at its real rate, a file each second. A response is the time from when a
second's file is there to when the answers are delivered. Linear Road allows five seconds, and ten for expenditures. L
is held if all answers after the warm-up are within that and no file came late. All answers are compared with the
oracle's, also those of the warm-up.

To save time the first step has half of the expressways that the throughput would do for. From there L goes up to the
first that is not held, or down to the first that is. The rating is the highest L held. The first 30 seconds of a step,
in which each car appears for the first time, are there before the clock starts.

This is not the published run of three hours with traffic that grows: a step takes three minutes, with constant traffic
of 1,170 events a second for each expressway. Three hours of one expressway are 12 million events, 1,111 a second on
average.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from examples.linear_road.app import linear_road
from examples.linear_road.events import EVERY, EXPENDITURE, Road, cut, expressways, last_car, merged
from examples.linear_road.oracle import Answers, answers
from penstock.runtime.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.runtime.run import Run

#: Events a second of one expressway, on average over three hours.
NEEDED = 12_000_000 / (3 * 3600)
#: Seconds that an answer may take.
ALLOWED = {"tolls": 5, "alerts": 5, "balances": 5, "expenditures": 10}
#: So many seconds of event time at the end may lack answers: the watermark has not passed them.
OPEN = 2
#: A file may come this many seconds after its time. If it comes later, the log is not fed at its real rate.
LATEST_FILE = 1.0
#: A step ends early if answers are this many seconds behind: it is not held, and the rest would take long.
HOPELESS = 30
#: How many expressways steps have.
NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Seconds between two looks at how far answers are behind.
LOOK_EVERY = 5


@dataclass(frozen=True)
class Expressway:
    """The log of one expressway, the file with its historical tolls, and the oracle's answers."""

    log: pl.DataFrame
    history: Path
    answers: Answers


class Expressways:
    """The expressways of all steps: each is made once, and the oracle's answers with it."""

    def __init__(self, road: Road, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.minutes, self._folder = road.minutes, folder
        self._roads, self._ready = expressways(road), list[Expressway]()

    def first(self, number: int) -> list[Expressway]:
        """The first ones; what is missing is made in parallel."""
        missing = list(islice(self._roads, max(0, number - len(self._ready))))
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            self._ready += pool.map(partial(prepare, self._folder), *zip(*missing, strict=True))
        return self._ready[:number]


def prepare(folder: Path, road: Road, log: pl.DataFrame) -> Expressway:
    """Writes the historical tolls, and computes the answers: no car is on two expressways, so each goes by itself."""
    history, file = road.history(last_car(log)), folder / f"tolls-{road.xway}.csv"
    history.write_csv(file, include_header=False)
    requests = log.filter(pl.col("type") == EXPENDITURE)
    asked = history.join(requests, on=("vid", "day", "xway"), how="semi")
    return Expressway(log, file, answers(log.to_dicts(), asked.to_dicts()))


class RunningApp:
    """The app in a folder of its own, with an empty log; `out` has what it answers."""

    def __init__(self, spark: SparkSession, root: Path, roads: Sequence[Expressway]) -> None:
        self.root, self.file_time = root, 0.0
        for name in ("log", "history", "prepared"):
            (root / name).mkdir(parents=True)
        for road in roads:
            os.link(road.history, root / "history" / road.history.name)
        definition = linear_road(root)
        for name, flow in definition.answers.items():
            definition.app.sink(flow, ps.to_jsonl(root / "out" / name), name=name)
        self.run: Run = definition.app.start(root / "state", spark=spark)

    def prepare(self, parts: Sequence[pl.DataFrame]) -> list[Path]:
        """Files that are ready to be put into the log."""
        files = [self.root / "prepared" / f"{number:06}.csv" for number in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            part.write_csv(file, include_header=False)
        return files

    def put(self, file: Path) -> float:
        """Puts a prepared file into the log; when it was there."""
        self.file_time = max(time.time(), self.file_time + 0.01)
        os.utime(file, (self.file_time, self.file_time))  # files are read in the order of their times
        file.rename(self.root / "log" / file.name)
        return time.time()

    def answers(self, name: str) -> list[tuple[float, dict[str, int]]]:
        """What was answered, and when it was delivered."""
        delivered = []
        for file in sorted((self.root / "out" / name).glob("*.jsonl")):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            delivered += [(file.stat().st_mtime, {key: row[key] for key in row if key != "pane"}) for row in rows]
        return delivered

    def newest_answer(self) -> int:
        """The second of the newest toll."""
        newest = max((self.root / "out" / "tolls").glob("*.jsonl"), default=None)
        times = [json.loads(line)["time"] for line in newest.read_text().splitlines()] if newest else []
        return max(times, default=0)

    def finish(self) -> None:
        """Waits until all that is there is committed and delivered."""
        self.run.catch_up()
        newest = self.run.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
        while any(at < newest for at in self.run.delivery.positions.values()):
            self.run.wait(0.05)

    def check(self, roads: Sequence[Expressway], until: int) -> None:
        """Fails on wrong answers, on missing ones before a second, and on events that were refused."""
        counters = self.run.store.counters()
        refused = {name: rows for name, rows in counters.items() if name.endswith((".late", ".dead", ".duplicate"))}
        assert not any(refused.values()), f"events were refused: {refused}"
        for name in ALLOWED:
            time_at = 1 if name == "tolls" else 0
            delivered = [tuple(row.values()) for _, row in self.answers(name)]
            right = {row for road in roads for row in getattr(road.answers, name)}
            wrong = set(delivered) - right
            missing = [row for row in right.difference(delivered) if row[time_at] < until - OPEN]
            assert not wrong, f"{name}: {sorted(wrong)[:3]} are not the oracle's"
            assert not missing, f"{name}: {len(missing)} are missing, as {min(missing)}"
            assert len(set(delivered)) == len(delivered), f"{name}: some were delivered twice"


@dataclass(frozen=True)
class Step:
    """What the app did with a number of expressways."""

    expressways: int
    events_a_second: float
    responses: dict[str, list[float]]
    latest_file: float
    fed: bool

    def is_held(self, name: str) -> bool:
        return all(seconds <= ALLOWED[name] for seconds in self.responses[name])

    @property
    def held(self) -> bool:
        return self.fed and bool(self.responses["tolls"]) and all(map(self.is_held, ALLOWED))


def throughput(spark: SparkSession, root: Path, roads: Expressways) -> tuple[int, float]:
    """The events of a log that is there, and how many a second the app takes; the first tenth warms up."""
    one = roads.first(1)
    running = RunningApp(spark, root, one)
    parts = list(cut(one[0].log, 20))
    files = running.prepare(parts)
    for file in files[:2]:
        running.put(file)
    running.finish()
    for file in files[2:]:
        running.put(file)
    begun = time.perf_counter()
    running.finish()
    seconds = time.perf_counter() - begun
    running.check(one, 60 * roads.minutes)
    running.run.stop()
    return one[0].log.height, sum(part.height for part in parts[2:]) / seconds


def feed(running: RunningApp, files: Sequence[Path], label: str) -> tuple[list[float], float]:
    """Puts a file each second; when each was there, and how late the latest was. Ends early if answers are far behind.

    The first seconds come before the clock starts: then the historical tolls are loaded, and each car is known.
    """
    for file in files[:EVERY]:
        running.put(file)
    running.finish()
    begun, latest_file = time.time() - EVERY + 1, 0.0
    arrived = [time.time()] * EVERY
    for second, file in enumerate(files[EVERY:], start=EVERY):
        time.sleep(max(0.0, begun + second - time.time()))
        latest_file = max(latest_file, time.time() - begun - second)
        arrived.append(running.put(file))
        if second % LOOK_EVERY:
            continue
        behind = time.time() - arrived[running.newest_answer()]
        if second % (4 * LOOK_EVERY) == 0 or behind > HOPELESS:
            print(f"{label}: second {second} of {len(files)}, answers are {behind:.1f} s behind", flush=True)
        if behind > HOPELESS:
            break
    return arrived, latest_file


def measure(spark: SparkSession, root: Path, roads: Sequence[Expressway], warm: int) -> Step:
    """One step of the rating."""
    log = merged(road.log for road in roads)
    label = f"L = {len(roads)}"
    print(f"{label}: {log.height:,} events; the app starts and loads the historical tolls", flush=True)
    running = RunningApp(spark, root, roads)
    files = running.prepare([part for _, part in sorted(log.partition_by("time", as_dict=True).items())])
    arrived, latest_file = feed(running, files, label)
    running.finish()
    running.check(roads, len(arrived))
    responses = {
        name: [at - arrived[row["time"]] for at, row in running.answers(name) if row["time"] >= warm]
        for name in ALLOWED
    }
    running.run.stop()
    shutil.rmtree(root)
    fed = len(arrived) == len(files) and latest_file <= LATEST_FILE
    return Step(len(roads), log.height / len(files), responses, latest_file, fed)


def measured_step(spark: SparkSession, root: Path, roads: Expressways, warm: int, number: int) -> Step:
    """A step with its progress."""
    print(f"L = {number}: the log and the oracle's answers are made", flush=True)
    step = measure(spark, root / f"step-{number}", roads.first(number), warm)
    print(f"L = {number}: {'held' if step.held else 'not held'}, all answers are the oracle's", flush=True)
    return step


def rate(measured: Callable[[int], Step], first: int, numbers: Sequence[int]) -> list[Step]:
    """Steps up from the first L to one that is not held; if that is the first, steps down to one that is held."""
    steps: list[Step] = []
    for number in (first, *(number for number in numbers if number > first)):
        steps.append(measured(number))
        if not steps[-1].held:
            break
    lower = [number for number in numbers if number < first]
    while lower and not steps[0].held:
        steps.insert(0, measured(lower.pop()))
    return steps


def first_number(speed: float) -> int:
    """How many expressways the first step has: half of those that the throughput would do for."""
    return max((number for number in NUMBERS if number <= speed / NEEDED / 2), default=1)


def show_throughput(report: Report, events: int, speed: float) -> None:
    head = ["events", "events/s", "one expressway needs", "expressways"]
    line = [f"{events:,}", f"{speed:,.0f}", f"{NEEDED:,.0f}", f"{speed / NEEDED:.1f}"]
    report.table("A log of one expressway that is there already", head, [line])


def show_steps(report: Report, steps: Sequence[Step], minutes: int, warm: int) -> None:
    head = ["L", "events/s", "answer", "answers", "median", "99 %", "longest", "allowed", "within it", "held"]
    lines = [line for step in steps for line in step_lines(step)]
    title = f"L expressways at their real rate: {minutes} minutes each step, the first {warm} seconds warm up"
    report.table(title, head, lines)
    for step in steps:
        if not step.fed:
            is_late = step.latest_file > LATEST_FILE
            reason = f"a file came {step.latest_file:.1f} s late" if is_late else f"answers were {HOPELESS} s behind"
            report.note(f"L = {step.expressways}: the log was not fed to its end at its real rate, as {reason}.")
    each = steps[0].events_a_second / steps[0].expressways
    report.note(
        f"This is not the published run of three hours with traffic that grows: a step takes {minutes} minutes, with "
        f"constant traffic of {each:,.0f} events a second for each expressway. "
        "All answers are the oracle's, also those of the warm-up."
    )


def step_lines(step: Step) -> Iterator[list[str]]:
    """A line for each kind of answer. In the first minutes there may be no accident, and so no alert."""
    for name, seconds in step.responses.items():
        if not seconds:
            continue
        cuts = statistics.quantiles(seconds * 2 if len(seconds) == 1 else seconds, n=100, method="inclusive")
        within = sum(one <= ALLOWED[name] for one in seconds) / len(seconds)
        yield [
            f"{step.expressways}", f"{step.events_a_second:,.0f}", name, f"{len(seconds):,}",
            *(f"{each:.2f} s" for each in (cuts[49], cuts[98], max(seconds))),
            f"{ALLOWED[name]} s", f"{within:.2%}", "yes" if step.is_held(name) else "no",
        ]  # fmt: skip


def show_rating(report: Report, steps: Sequence[Step]) -> None:
    held, failed = [step.expressways for step in steps if step.held], [step for step in steps if not step.held]
    if held and failed:
        report.note(f"**The rating is L = {held[-1]}**: L = {failed[0].expressways} is not held.")
    elif held:
        report.note(f"L = {held[-1]} is held, and no higher L was tried.")
    else:
        report.note(f"L = {failed[0].expressways} is not held.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Linear Road: the app's throughput, and its rating.")
    parser.add_argument("--minutes", type=int, help="how long a step takes")
    parser.add_argument("--from", type=int, dest="first", metavar="L", help="the rating alone, begun with L")
    parser.add_argument("--expressways", type=int, metavar="L", help="a step of L expressways alone")
    parser.add_argument("--quick", action="store_true", help="a tenth of the traffic, for two minutes, up to L = 2")
    options = parser.parse_args()
    minutes = options.minutes or (2 if options.quick else 3)
    warm = 60 if minutes > 2 else 40
    road = Road(minutes, 3_100 if options.quick else 31_000, accidents=10)
    first = options.expressways or options.first
    numbers = () if options.expressways else NUMBERS[:2] if options.quick else NUMBERS
    report = Report("linear_road" + "-rating" * (options.first is not None), " ".join(["python", *sys.argv]))
    spark = spark_session("linear_road", master="local[2]", memory="2g")
    root = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        roads = Expressways(road, root / "roads")
        if not first:
            events, speed = throughput(spark, root / "throughput", roads)
            show_throughput(report, events, speed)
            first = 1 if options.quick else first_number(speed)
        steps = rate(partial(measured_step, spark, root, roads, warm), first, numbers)
        show_steps(report, steps, minutes, warm)
        show_rating(report, steps)
        if not options.quick and not options.expressways:
            report.write()
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
