"""The driver's part of a commit with many panes: its memory with the panes in files, and with all of them passing it.

    python bench/panes.py                    # about a minute; writes bench/results/panes.md
    python bench/panes.py --panes 250000

One process does what two tasks do: it steps a view, fires a pane of each key, and writes segments and pane files.
Another one does what the driver does: it takes what the tasks have sent, and commits.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import penstock as ps  # noqa: E402
from bench.side_by_side import Report  # noqa: E402
from penstock.kernel.fire import Time  # noqa: E402
from penstock.kernel.plan import Plan  # noqa: E402
from penstock.kernel.reduce import reduce  # noqa: E402
from penstock.model.time import BEGINNING  # noqa: E402
from penstock.runtime.commit.shards import FEW_PANES  # noqa: E402
from penstock.runtime.epoch.shard_job import ShardJob  # noqa: E402
from penstock.state.step import ShardStep, fixed_time, parted  # noqa: E402
from penstock.store import Commit, SqlStore, open_store  # noqa: E402

NOW, TASKS = 1_700_000_000_000_000, 2
STREAM = ps.stream("games", schema="player bigint, score bigint")
TOTALS = {"games": ps.count(), "points": ps.sum("score"), "best": ps.max("score")}
VIEW = STREAM.group_by("player").agg(**TOTALS).trigger(ps.each())


def opened(directory: Path) -> SqlStore:
    store = open_store(directory)
    store.lock()
    store.prepare({"players": Plan(VIEW)})
    return store


def do_tasks(directory: Path, panes: int, few_panes: int | None) -> None:
    """Steps the view; leaves what the tasks send in a file."""
    store = opened(directory)
    store.shard("players", 16)
    view = store.sharded("players")
    assert view is not None
    players = np.random.default_rng(3).permutation(panes)
    events = pl.DataFrame({"player": players, "score": players % 1000}).with_columns(
        __at=pl.lit(NOW, pl.Int64), __arrived=pl.lit(NOW, pl.Int64), __partition=pl.lit(0, pl.Int32),
        __offset=pl.int_range(panes),
    )  # fmt: skip
    deltas = reduce(view.plan, "games", events, BEGINNING).deltas
    now = fixed_time(view.plan, Time(BEGINNING, BEGINNING, NOW, lambda percent: BEGINNING))
    step = ShardStep("players", view.plan, view.root, view.segments, view.closed, view.next_run, now)
    job = ShardJob(step, TASKS, "1-bench", (), tuple(parted(view.plan, deltas, TASKS)), few_panes)
    records = [record for number in range(TASKS) for record in job.records(number)]
    with open(directory / "sent", "wb") as file:
        pickle.dump((ShardJob(step, TASKS, "1-bench", few_panes=few_panes), records), file)
    store.close()


def do_commit(directory: Path) -> dict[str, float]:
    """What the driver does with it: megabytes at most, and seconds of CPU."""
    store = opened(directory)
    began = time.process_time()
    with open(directory / "sent", "rb") as file:
        job, records = pickle.load(file)
    store.commit(Commit("tick", NOW, segments={"players": job.gathered(records)}))
    seconds = time.process_time() - began
    store.close()
    return {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, "seconds": seconds}


def measured(panes: int, few_panes: int | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        more = [] if few_panes is None else ["--few", str(few_panes)]
        command = [sys.executable, __file__, "--panes", str(panes), *more]
        subprocess.run([*command, "--tasks", directory], check=True)
        sent = subprocess.run([*command, "--commit", directory], check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(sent.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panes", type=int, nargs="*", default=[250_000, 1_000_000, 2_000_000])
    parser.add_argument("--few", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tasks", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--commit", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tasks is not None:
        do_tasks(options.tasks, options.panes[0], options.few)
        return
    if options.commit is not None:
        print(json.dumps(do_commit(options.commit)))
        return
    lines = []
    for panes in options.panes:
        through, filed = measured(panes, None), measured(panes, FEW_PANES // TASKS)
        line = [f"{one['memory']:,.0f} MB" for one in (through, filed)]
        lines.append([f"{panes:,}", *line, *(f"{one['seconds']:.2f} s" for one in (through, filed))])
        print(lines[-1], flush=True)
    report = Report("panes", "python bench/panes.py --panes " + " ".join(map(str, options.panes)))
    head = ["panes in a commit", "through the driver", "in files", "its CPU, through it", "its CPU, in files"]
    report.table("Memory of the driver's Python process at most, and its CPU for the commit", head, lines)
    report.write()


if __name__ == "__main__":
    main()
