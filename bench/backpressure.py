"""A slow function and its neighbour: `python bench/backpressure.py [--quick]`.

Two streams of 2,000 events a second each, in files, in one app on two cores. The rows of one go through a function that
takes 4 ms a row, more than two cores can do; the other is only counted. It tells how long the epochs of the slow stream
are, of their target, and how soon an event of the other one is counted: first without the slow stream, then beside it.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from penstock.app import App
from penstock.runtime.spark.session import spark_session

QUICK = "--quick" in sys.argv
SECONDS = 25 if QUICK else 60
RATE, EVERY, EACH, TARGET = 2_000, 0.25, 0.004, 2.0
SCHEMA = "v int, at timestamp"


def slow(row: Any) -> dict[str, Any]:
    time.sleep(EACH)
    return {"v": row.v, "at": row.at}


def app_of(root: Path, beside: bool) -> App:
    app = App("bench")
    quick = app.stream("quick", ps.files(root / "quick"), schema=SCHEMA, event_time="at", watermark=ps.bounded("5s"))
    app.view("quick_rows", quick.group_by().agg(n=ps.count()))
    if beside:
        events = app.stream("slow", ps.files(root / "slow"), schema=SCHEMA, event_time="at", watermark=ps.bounded("5s"))
        app.view("slow_rows", events.map(slow, schema=SCHEMA).group_by().agg(n=ps.count()))
    return app


@contextmanager
def producing(folders: list[Path], written: list[tuple[float, int]]) -> Iterator[None]:
    """Writes files at the rate. `written` gets the time of each, and how many events there were with it."""
    ended = threading.Event()

    def write() -> None:
        number, start = 0, time.time()
        while not ended.wait(max(0.0, start + number * EVERY - time.time())):
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            text = "".join(json.dumps({"v": n, "at": at}) + "\n" for n in range(round(RATE * EVERY)))
            for folder in folders:
                part = folder / f".{number:06}"
                part.write_text(text)
                part.rename(folder / f"{number:06}.json")
            number += 1
            written.append((time.time(), number * round(RATE * EVERY)))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measured(spark: Any, beside: bool) -> tuple[list[float], list[float], list[int]]:
    """Seconds until events of the quick stream are counted; seconds and rows of the slow stream's epochs."""
    root = Path(tempfile.mkdtemp())
    folders = [root / name for name in ("quick", *(["slow"] if beside else []))]
    for folder in folders:
        folder.mkdir()
    written: list[tuple[float, int]] = []
    shown: list[tuple[float, int]] = []
    run = app_of(root, beside).start(root / "state", spark=spark, target=f"{TARGET} seconds")
    try:
        with producing(folders, written):
            end = time.time() + SECONDS
            while time.time() < end:
                counts = run.store.query("SELECT n FROM quick_rows")["n"]
                shown.append((time.time(), counts[0] if len(counts) else 0))
                time.sleep(0.02)
        commits = run.store.query(
            "SELECT stream, rows, timings FROM __commits WHERE kind = 'epoch' ORDER BY number"
        ).rows()
    finally:
        run.stop()
    epochs = [(rows, sum(json.loads(timings).values())) for stream, rows, timings in commits if stream == "slow"]
    delays = []
    for at, count in written[len(written) // 3 :]:
        seen = next((when for when, number in shown if number >= count), None)
        if seen is not None:
            delays.append(seen - at)
    return delays, [seconds for _, seconds in epochs], [rows for rows, _ in epochs]


def main() -> None:
    spark = spark_session("bench-backpressure", master="local[2]", memory="2g")
    report = Report("backpressure", "python bench/backpressure.py" + (" --quick" if QUICK else ""))
    alone, _, _ = measured(spark, beside=False)
    delays, seconds, rows = measured(spark, beside=True)
    high = [statistics.quantiles(some, n=20)[-1] for some in (alone, delays)]
    report.table(
        f"4 ms a row, {RATE:,} events/s, two cores, target {TARGET:.0f} s, {SECONDS} s",
        ["", "value"],
        [
            ["rows of the slow stream's first epochs", ", ".join(map(str, rows[:5]))],
            ["its longest epoch but the first, of the target", f"{max(seconds[1:]) / TARGET:.2f}"],
            ["its epochs in the middle, of the target", f"{statistics.median(seconds[1:]) / TARGET:.2f}"],
            ["an event of the other stream is counted, median, beside / alone",
             f"{statistics.median(delays) / statistics.median(alone):.2f}"],
            ["the same, 95 of 100", f"{high[1] / high[0]:.2f}"],
            ["seconds, 95 of 100: alone, beside", f"{high[0]:.2f}, {high[1]:.2f}"],
        ],
    )  # fmt: skip
    report.write()


if __name__ == "__main__":
    main()
