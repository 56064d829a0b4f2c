"""JSON files, this version against an earlier one: the first 5 million events, one large file, and steady state.

    git worktree add ../before 5824505
    python bench/files.py --before ../before/src        # writes bench/results/files.md

Each version runs in a process of its own, and they take turns. A process starts an app on 5 million events: from the
command to the first commit and to the end. Then, warm, it reads one large file, Yahoo's events, and the same with the
history kept. DuckDB reads Yahoo's events in one shot, which is the limit of the machine.
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
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.side_by_side import Report

SOURCE = Path(__file__).parent.parent / "src"
START = 1_714_564_800_000_000
KEYED = "key string, v bigint, at timestamp"
ADS = "user_id string, page_id string, ad_id string, ad_type string, event_type string, at timestamp, ip string"
#: By folder: files, events in each.
LOADS = {"keyed": (20, 250_000), "large": (1, 1_500_000), "ads": (5, 250_000)}


def write(folder: Path, kind: str) -> None:
    """Makes the files of a load."""
    folder.mkdir(parents=True)
    files, events = LOADS[kind]
    chance = np.random.default_rng(7)
    for number in range(files):
        at = pl.Series("at", START + (np.arange(events) + number * events) * 20).cast(pl.Datetime("us"))
        frame = pl.DataFrame({"at": at.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")})
        if kind == "ads":
            ads = pl.Series(chance.integers(0, 1000, events))
            frame = frame.with_columns(
                user_id=pl.format("user-{}", pl.Series(chance.integers(0, 100, events))),
                page_id=pl.format("page-{}", pl.Series(chance.integers(0, 100, events))),
                ad_id=pl.format("c{}-{}", (ads // 10).cast(pl.String).str.zfill(2), ads % 10),
                ad_type=pl.Series(np.array(["banner", "modal", "mail"])[chance.integers(0, 3, events)]),
                event_type=pl.Series(np.array(["view", "click", "purchase"])[chance.integers(0, 3, events)]),
                ip=pl.lit("1.2.3.4"),
            )
        else:
            frame = frame.with_columns(
                key=pl.format("k{}", pl.Series(chance.zipf(1.3, events) % 100)),
                v=pl.Series(chance.integers(0, 1000, events)),
            )
        path = folder / f"{number:04}.json"
        frame.write_ndjson(path)
        os.utime(path, (START // 1_000_000 + number,) * 2)


def read(folder: Path, kind: str, keep: str = "none") -> dict[str, float]:
    """Reads all files of a load: when the first commit and the end were, and events a second after the first one."""
    import penstock as ps

    began = time.time()
    app = ps.App("files")
    stream = app.stream(
        "events", ps.files(folder / kind), schema=ADS if kind == "ads" else KEYED, event_time="at",
        watermark=ps.bounded("5 seconds", idle=None), max_ahead=None, keep=keep,
    )  # fmt: skip
    flow = stream.where("event_type = 'view'") if kind == "ads" else stream
    key = "left(ad_id, 3)" if kind == "ads" else "key"
    app.view("result", flow.group_by(key=key).window(ps.fixed("10 seconds")).agg(n=ps.count()))
    with tempfile.TemporaryDirectory() as state:
        # Earlier versions have `app.run(…).start()`.
        begin = app.start if hasattr(app, "start") else lambda directory: app.run(directory).start()
        run = begin(Path(state) / "state")
        try:
            while run.store.last() is None:
                run.wait(0.01)
            first = time.time()
            run.catch_up()
            end = time.time()
            rows = run.store.query("SELECT rows, taken FROM __commits WHERE kind = 'epoch' ORDER BY number").rows()
        finally:
            run.stop()
    if os.environ.get("EPOCHS"):
        print(kind, keep, [(count, taken) for count, taken in rows], file=sys.stderr)
    events = sum(count for count, _ in rows)
    assert events == LOADS[kind][0] * LOADS[kind][1], events
    after = events - rows[0][0]
    rate = after / (end - first) if after > events / 4 else events / (end - began)
    return {"first": first, "end": end, "rate": rate}


def measure(folder: Path, began: float) -> dict[str, float]:
    """One process: the start, and then what a warm process does."""
    cold = read(folder, "keyed")
    figures = {"first": cold["first"] - began, "end": cold["end"] - began}
    figures["keyed"] = read(folder, "keyed")["rate"]
    figures["large"] = read(folder, "large")["rate"]
    figures["ads"] = read(folder, "ads")["rate"]
    figures["history"] = read(folder, "ads", keep="all")["rate"]
    return figures


def in_one_shot(folder: Path) -> float:
    """Events a second of DuckDB on Yahoo's events."""
    import duckdb

    query = f"""SELECT left(ad_id, 3) AS key, time_bucket(INTERVAL 10 SECONDS, at) AS start, count(*) AS n
        FROM read_json('{folder}/ads/*.json', format = 'newline_delimited',
            columns = {{ad_id: 'VARCHAR', event_type: 'VARCHAR', at: 'TIMESTAMP'}})
        WHERE event_type = 'view' GROUP BY ALL"""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        duckdb.sql(query).fetchall()
        times.append(time.perf_counter() - begun)
    files, events = LOADS["ads"]
    return files * events / min(times)


def turn(source: Path, folder: Path) -> dict[str, float]:
    """The same in a process with another version's source."""
    paths = os.pathsep.join([str(source.resolve()), str(Path(__file__).parent)])
    command = [sys.executable, __file__, "--measure", str(folder), "--began", str(time.time())]
    answer = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the src folder of the earlier version")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the files here for the next time")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.began)))
        return
    if options.before is None:
        parser.error("--before PATH is needed: the src folder of an earlier version")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for kind in LOADS:
            if not (folder / kind).exists():
                write(folder / kind, kind)
        before, now, limits = [], [], []
        for number in range(options.rounds):
            before.append(turn(options.before, folder))
            now.append(turn(SOURCE, folder))
            limits.append(in_one_shot(folder))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    old, new = ({name: statistics.median(one[name] for one in some) for name in some[0]} for some in (before, now))
    limit = statistics.median(limits)
    report = Report("files", "python bench/files.py --before …")
    names = {"first": "command to first commit", "end": "command to the end of 5 million events"}
    report.table(
        "JSON files, from the command on", ["", "before", "now", "now, of before"],
        [
            [title, f"{old[name]:.1f} s", f"{new[name]:.1f} s", f"{new[name] / old[name]:.2f}"]
            for name, title in names.items()
        ],
    )  # fmt: skip
    names = {
        "keyed": "100 keys, 20 files", "large": "100 keys, one file of 1.5 million events", "ads": "Yahoo, 5 files",
        "history": "Yahoo, with the history kept",
    }  # fmt: skip
    report.table(
        "Events a second, warm", ["", "before", "now", "now, of before"],
        [
            [title, f"{old[name] / 1000:,.0f} k/s", f"{new[name] / 1000:,.0f} k/s", f"{new[name] / old[name]:.2f}"]
            for name, title in names.items()
        ],
    )  # fmt: skip
    report.note(
        f"DuckDB reads Yahoo's events in one shot at {limit / 1000:,.0f} k/s: before {old['ads'] / limit:.2f}, "
        f"now {new['ads'] / limit:.2f} of it. Keeping the history takes {old['ads'] / old['history']:.2f} times the "
        f"time without it before, {new['ads'] / new['history']:.2f} times now."
    )
    report.write()


if __name__ == "__main__":
    main()
