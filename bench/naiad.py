"""The Naiad experiment at this machine's size: posts, the components of who mentions whom, and the top tag in mine.

    python bench/naiad.py [--quick]

Posts come as Parquet files. The app of `examples/mentions` keeps components and tags by component up to date. First as
many posts as there are, as fast as they go: the rate. Then posts at a part of that rate, in files of a quarter of a
second, while questions are asked: *stale* is the answer that the store has at once; *fresh* waits until all posts
written before the question are in it, those that are being computed too. A stale answer is as old as it says.
"""

from __future__ import annotations

import runpy
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.side_by_side import Report
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session
from penstock.store import Reader

QUICK = "--quick" in sys.argv
FILES, PER_FILE = (6, 10_000) if QUICK else (20, 100_000)
WARM = 2
SECONDS = 15.0 if QUICK else 60.0
PART, EVERY = 0.6, 0.25
PEOPLE = 50_000 if QUICK else 200_000
EXAMPLE = Path(__file__).parent.parent / "examples" / "mentions"
PAPER = {"rate": "32,000 posts/s", "fresh": "0.5 to 0.9 s", "stale": "under 10 ms"}


class Producer(threading.Thread):
    """Writes posts at a rate; how many are written so far."""

    def __init__(self, folder: Path, make: Any, rate: float, written: int) -> None:
        super().__init__(daemon=True)
        self._folder, self._rate, self.written, self.over = folder, rate, written, threading.Event()
        size = max(1, int(rate * EVERY))
        self._frames = [make(size, seed=1_000 + number, people=PEOPLE) for number in range(20)]

    def run(self) -> None:
        number, due = 0, time.monotonic()
        while not self.over.wait(max(0.0, due - time.monotonic())):
            frame = self._frames[number % len(self._frames)]
            hidden = self._folder.parent / "writing"
            frame.write_parquet(hidden)
            hidden.rename(self._folder / f"live{number:06}.parquet")
            self.written += frame.height
            number, due = number + 1, due + EVERY


def write(folder: Path, make: Any) -> None:
    """All posts of the first part, beside the folder that is read."""
    folder.mkdir()
    for number in range(FILES):
        make(PER_FILE, seed=number, people=PEOPLE).write_parquet(folder / f"{number:06}.parquet")


def give(ready: Path, folder: Path, names: list[str]) -> int:
    """Posts that are ready come into the folder that is read; how many."""
    for name in names:
        (ready / name).rename(folder / name)
    return len(names) * PER_FILE


def committed(run: Run) -> tuple[int, int]:
    """How many posts are committed, and by which commit."""
    sql = "SELECT coalesce(max(\"commit\"), 0) FROM __epochs WHERE stream = 'posts'"
    return run.store.counters().get("posts.events", 0), run.store.query(sql).item()


def catch_up(run: Run, total: int) -> float:
    """Waits until all posts are in the views; how many seconds."""
    begun = time.perf_counter()
    while committed(run)[0] < total:
        run.wait(0.02)
    run.wait_through("posts", committed(run)[1], 600.0)
    return time.perf_counter() - begun


def ask(run: Run, reader: Reader, top: str, producer: Producer) -> dict[str, list[float]]:
    """Stale answers all the time, and fresh ones one after the other."""
    taken: dict[str, list[float]] = {"stale": [], "fresh": [], "behind": []}
    over = threading.Event()

    def stale() -> None:
        number = 0
        while not over.wait(0.02):
            begun = time.perf_counter()
            reader.query(top, [f"u{number % 1000}"])
            taken["stale"].append(time.perf_counter() - begun)
            taken["behind"].append(float(producer.written - committed(run)[0]))
            number += 1

    thread = threading.Thread(target=stale, daemon=True)
    thread.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        begun, wanted = time.perf_counter(), producer.written
        while committed(run)[0] < wanted:
            run.wait(0.002)
        run.wait_through("posts", committed(run)[1], 120.0)
        reader.query(top, ["u17"])
        taken["fresh"].append(time.perf_counter() - begun)
        run.wait(0.05)
    over.set()
    thread.join()
    return taken


def shown(values: list[float]) -> str:
    """The median, and what 19 of 20 are under."""
    if not values:
        return "–"
    ordered = sorted(values)
    late = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    unit, by = ("ms", 1000) if late < 0.1 else ("s", 1)
    return f"{statistics.median(values) * by:.2f} {unit} ({late * by:.2f} {unit})"


def main() -> None:
    report = Report("naiad", "python bench/naiad.py")
    app, make = runpy.run_path(str(EXAMPLE / "app.py")), runpy.run_path(str(EXAMPLE / "posts.py"))["posts"]
    spark = spark_session("bench", master="local[2]", memory="3g")
    root = Path(tempfile.mkdtemp())
    try:
        (root / "posts").mkdir()
        write(root / "ready", make)
        names = sorted(path.name for path in (root / "ready").iterdir())
        run = app["make"](root / "posts").start(root / "state", spark=spark, tick=1.0)
        for name in names[:WARM]:
            catch_up(run, int(name[:6]) * PER_FILE + give(root / "ready", root / "posts", [name]))
        given = give(root / "ready", root / "posts", names[WARM:])
        rate = given / catch_up(run, FILES * PER_FILE)
        for view, column in (("people", "user"), ("tags", "component")):
            run.store.index(view, column)
        reader = Reader(root / "state")
        producer = Producer(root / "posts", make, PART * rate, FILES * PER_FILE)
        producer.start()
        run.wait(2.0)
        taken = ask(run, reader, app["TOP"], producer)
        producer.over.set()
        producer.join()
        labels = reader.query("SELECT count(*), count(DISTINCT component) FROM people").row(0)
        rows = [
            ["posts a second", f"{rate:,.0f}", PAPER["rate"]],
            [f"fresh answer, at {PART * rate:,.0f} posts/s", shown(taken["fresh"]), PAPER["fresh"]],
            ["stale answer, meanwhile", shown(taken["stale"]), PAPER["stale"]],
            ["posts that a stale answer lacks", f"{statistics.median(taken['behind']):,.0f}", "–"],
        ]
        head = ["", "here, 2 cores", "Naiad's paper"]
        report.table("The top tag in my component: median (19 of 20 are under)", head, rows)
        report.note(f"{labels[0]:,} people in {labels[1]:,} components; {len(taken['fresh'])} fresh answers.")
        if not QUICK:
            report.write()
        reader.close()
        run.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
