"""The kernel against the same aggregations written by hand in Polars and in DuckDB, on the same Arrow data.

    python bench/kernel.py [--quick]

Three questions: what does the kernel cost over hand-written columns; what do 10, 100, 1000 views cost over one; what
does it cost to merge an epoch's deltas into small and large state.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, measure, middle, milliseconds, ratio
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import LocalKernel
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.share import share
from penstock.model.time import BEGINNING, instant

EVENTS = 250_000
START = instant("2024-05-01T12:00:00Z")
DIMENSIONS = {"country": 12, "device": 4, "plan": 3, "kind": 6, "status": 5}
TEXTS = ", ".join(f"{name} string, {name}_id int" for name in DIMENSIONS)
SCHEMA = f"key bigint, user string, {TEXTS}, v bigint, x double, at timestamp"
QUICK = "--quick" in sys.argv


def events() -> pa.Table:
    """250 k events in Arrow: two keys with 1000 values, five small dimensions as text and as numbers, ten seconds."""
    chance = np.random.default_rng(0)
    columns: dict[str, pa.Array] = {
        "key": pa.array(chance.integers(0, 1000, EVENTS)),
        "user": pa.array([f"user-{n:04}" for n in chance.integers(0, 1000, EVENTS)]),
    }
    for name, size in DIMENSIONS.items():
        drawn = chance.integers(0, size, EVENTS)
        columns[name] = pa.array([f"{name}-{n}" for n in drawn])
        columns[f"{name}_id"] = pa.array(drawn.astype(np.int32))
    columns["v"] = pa.array(chance.integers(0, 1000, EVENTS))
    columns["x"] = pa.array(chance.random(EVENTS))
    columns["at"] = pa.array(START + np.arange(EVENTS) * 40, pa.timestamp("us", tz="UTC"))
    return pa.table(columns)


STREAM = ps.stream("events", schema=SCHEMA, event_time="at", watermark=ps.bounded("10 seconds"), max_ahead=None)


def admitted(table: pa.Table) -> pl.DataFrame:
    """Events as a task has them: with their time and their place in the log."""
    rows = pl.from_arrow(table)
    assert isinstance(rows, pl.DataFrame)
    rows = rows.with_columns(
        pl.lit(0, pl.Int32).alias("__source"),
        pl.lit(0, pl.Int32).alias("__partition"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("__offset"),
    )
    return admit(STREAM, rows, START).rows


TEN = (pl.col("at").dt.epoch("us") - pl.col("at").dt.epoch("us") % 10_000_000).alias("start")
SIMPLE = {
    "count and sum by a number, 10 s": (
        STREAM.group_by("key").window(ps.fixed("10 seconds")).agg(n=ps.count(), s=ps.sum("v")),
        lambda rows: rows.group_by("key", TEN).agg(pl.len(), pl.col("v").sum()),
        'SELECT key, epoch_us("at") // 10000000, count(*), sum(v) FROM events GROUP BY ALL',
    ),
    "count by a text, 10 s": (
        STREAM.group_by("user").window(ps.fixed("10 seconds")).agg(n=ps.count()),
        lambda rows: rows.group_by("user", TEN).agg(pl.len()),
        'SELECT "user", epoch_us("at") // 10000000, count(*) FROM events GROUP BY ALL',
    ),
    "average and maximum, with a filter": (
        STREAM.where("status = 'status-1'")
        .group_by("key")
        .window(ps.fixed("10 seconds"))
        .agg(a=ps.avg("x"), m=ps.max("v")),
        lambda rows: (
            rows.filter(pl.col("status") == "status-1").group_by("key", TEN).agg(pl.col("x").mean(), pl.col("v").max())
        ),
        """SELECT key, epoch_us("at") // 10000000, avg(x), max(v) FROM events WHERE status = 'status-1' GROUP BY ALL""",
    ),
    "count and average by two texts, no window": (
        STREAM.group_by("country", "kind").agg(n=ps.count(), a=ps.avg("x")),
        lambda rows: rows.group_by("country", "kind").agg(pl.len(), pl.col("x").mean()),
        "SELECT country, kind, count(*), avg(x) FROM events GROUP BY ALL",
    ),
}


def against_hand_written(report: Report, table: pa.Table) -> None:
    rows = admitted(table)
    plain = pl.from_arrow(table)
    assert isinstance(plain, pl.DataFrame)
    connection = duckdb.connect()
    connection.register("events", table)
    lines = []
    for name, (view, by_hand, sql) in SIMPLE.items():
        plan = Plan(view)
        taken = measure(
            {
                "kernel": lambda plan=plan: reduce(plan, "events", rows, BEGINNING),
                "polars": lambda by_hand=by_hand: by_hand(plain.lazy()).collect(),
                "duckdb": lambda sql=sql: connection.sql(sql).to_arrow_table(),
            },
            rounds=7 if QUICK else 25,
        )
        times = middle(taken)
        lines.append(
            [
                name,
                *(milliseconds(times[n]) for n in ("kernel", "polars", "duckdb")),
                f"{ratio(taken, 'polars', 'kernel'):.2f}",
            ]
        )
    report.table(
        f"Reduce of {EVENTS:,} events, one view",
        ["view", "kernel", "Polars by hand", "DuckDB", "kernel's speed, of Polars by hand"],
        lines,
    )


def different_views(count: int, numbers: bool) -> list[ps.View]:
    """Views that differ in keys, windows, filters or aggregates, each of at most 1000 groups."""
    chance = random.Random(7)
    sizes = {f"{name}_id" if numbers else name: size for name, size in DIMENSIONS.items()}
    keys = [c for length in (1, 2, 3) for c in itertools.combinations(sizes, length)]
    keys = [c for c in keys if np.prod([sizes[name] for name in c]) <= 500]
    windows = [*map(ps.fixed, ("10 seconds", "1 minute", "1 hour")), ps.sliding("1 minute", every="10 seconds")]
    filters = [None, "v > 500"]
    filters += [f"{name} = {n}" if numbers else f"{name} = '{name}-{n}'" for name in sizes for n in (1, 2)]
    aggregates = [
        {"n": ps.count()},
        {"n": ps.count(), "s": ps.sum("v")},
        {"a": ps.avg("x"), "m": ps.max("v")},
        {"n": ps.count(), "hi": ps.max("x"), "lo": ps.min("x")},
    ]
    plain = STREAM.group_by(*keys[0]).window(windows[0]).agg(n=ps.count(), s=ps.sum("v"))
    found: dict[ps.View, None] = {plain: None}
    while len(found) < count:
        condition = chance.choice(filters)
        flow = STREAM if condition is None else STREAM.where(condition)
        grouped = flow.group_by(*chance.choice(keys)).window(chance.choice(windows))
        found[grouped.agg(**chance.choice(aggregates))] = None
    return list(found)


def own_expressions(count: int) -> list[ps.View]:
    """Views with nothing in common: each its own key expression."""
    return [
        STREAM.group_by(part=f"pmod(key, {n})").window(ps.fixed("10 seconds")).agg(n=ps.count(), s=ps.sum("v"))
        for n in range(7, 7 + count)
    ]


def many_views(report: Report, table: pa.Table) -> None:
    rows = admitted(table)
    counts = [1, 10, 100] if QUICK else [1, 10, 100, 1000]
    jobs = {}
    for count in counts:
        for kind, numbers in (("numbers", True), ("texts", False)):
            plans = [Plan(view) for view in different_views(count, numbers)]
            sharing, before = share("events", plans, rows), [BEGINNING] * count
            jobs[f"{count} {kind}"] = lambda s=sharing, b=before: s.reduce(rows, b)
        jobs[f"{count} deltas"] = lambda s=sharing, b=before: s.deltas([s.reduce(rows, b)], b)
        if count <= 100:
            jobs[f"{count} apart"] = lambda p=plans: [reduce(plan, "events", rows, BEGINNING) for plan in p]
            own = [Plan(view) for view in own_expressions(count)]
            alone = share("events", own, rows)
            jobs[f"{count} own"] = lambda s=alone, b=before: s.deltas([s.reduce(rows, b)], b)
    taken = measure(jobs, rounds=3 if QUICK else 7)
    times = middle(taken)
    lines = []
    for count in counts:
        cells = [str(count)]
        for kind in ("numbers", "texts", "deltas", "apart", "own"):
            name = f"{count} {kind}"
            known = name in times
            cells.append(f"{milliseconds(times[name])} ({ratio(taken, name, f'1 {kind}'):.1f}×)" if known else "–")
        lines.append(cells)
    report.table(
        f"Different views over one batch of {EVENTS:,} events (× of one view)",
        [
            "views",
            "reduce, dimensions as numbers",
            "reduce, as texts",
            "as texts, and each view's own deltas",
            "as texts, each view on its own",
            "each with a key expression of its own",
        ],
        lines,
    )


def merging(report: Report) -> None:
    view = STREAM.group_by("key").window(ps.fixed("10 seconds")).agg(n=ps.count(), s=ps.sum("v"))
    chance = np.random.default_rng(1)
    lines = []
    for stored in (10_000, 1_000_000) if QUICK else (10_000, 1_000_000, 10_000_000):
        kernel = LocalKernel(view)

        def deltas(keys: np.ndarray, plan: Plan = kernel.plan) -> pl.DataFrame:
            count = len(keys)
            ones = pl.Series(np.ones(count, dtype=np.int64))
            frame = pl.DataFrame({"key": keys, "__start": pl.Series(np.full(count, START)), "__n": ones, "n": ones})
            total = {"s.n": ones, "s.hi": ones * 0, "s.lo": ones}
            return frame.with_columns(**total).select(*plan.delta_schema)

        time = Time(BEGINNING, BEGINNING, START, lambda percent: BEGINNING)
        kernel.step([deltas(np.arange(stored))], time)
        epoch = deltas(chance.choice(max(stored, 200_000), 200_000, replace=False))
        taken = measure({"merge": lambda k=kernel, e=epoch, t=time: k.step([e], t)}, rounds=3 if QUICK else 5)
        seconds = middle(taken)["merge"]
        rate = f"{epoch.height / seconds / 1e6:.2f} M/s"
        lines.append([f"{stored:,}", f"{epoch.height:,}", milliseconds(seconds), rate])
    report.table("Merge and fire, state in memory", ["stored rows", "deltas", "time", "deltas/s"], lines)


if __name__ == "__main__":
    table = events()
    report = Report("kernel", "make bench")
    against_hand_written(report, table)
    many_views(report, table)
    merging(report)
    report.write()
