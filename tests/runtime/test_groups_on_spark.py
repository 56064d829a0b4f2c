"""Groups on Spark: the slow code of one stream holds up neither the epochs, ticks nor sinks of another."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.app import App
from tests.faults.support import until

SCHEMA = "k string, at timestamp"


def write(folder: Path, number: int, *keys: str) -> None:
    """Events of a minute, as one file."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"k": key, "at": f"2024-05-01 12:{number:02}:00"}) for key in keys]
    (folder / f".{number}").write_text("\n".join(lines) + "\n")
    (folder / f".{number}").rename(folder / f"{number:03}.json")


def counts(run: Any, view: str) -> dict[str, int]:
    return dict(run.store.query(f"SELECT k, sum(n) FROM {view} GROUP BY k").rows())


def delivered(file: Path) -> set[str]:
    return {line for part in file.glob("*.jsonl") for line in part.read_text().splitlines()} if file.is_dir() else set()


def test_slow_code_of_one_group_holds_up_no_other(spark, tmp_path):
    begun, release, pools = tmp_path / "begun", tmp_path / "release", set[str | None]()
    app = App("apart")
    (tmp_path / "fast").mkdir()
    slow = app.stream("slow", ps.files(tmp_path / "slow"), schema=SCHEMA, event_time="at")
    fast = app.stream(
        "fast", ps.files(tmp_path / "fast"), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("0 seconds", idle="1 second"),
    )  # fmt: skip

    def wait_for_the_test(frames):
        for frame in frames:
            begun.touch()
            while not release.exists():
                time.sleep(0.01)
            yield frame

    def waiting(df):
        pools.add(df.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool"))
        return df.coalesce(1).mapInArrow(wait_for_the_test, df.schema)

    app.view("of_slow", slow.transform(waiting, schema=SCHEMA).group_by("k").agg(n=ps.count()))
    windows = fast.group_by("k").window(ps.fixed("1 second")).agg(n=ps.count())
    app.view("of_fast", windows)
    app.sink("of_fast", ps.to_jsonl(tmp_path / "panes"))
    write(tmp_path / "slow", 0, "a", "b")
    run = app.start(tmp_path / "state", spark=spark, tick=0.05)
    try:
        until(begun.exists, run)
        for number in range(3):
            write(tmp_path / "fast", number, "x")
            until(lambda number=number: counts(run, "of_fast").get("x") == number + 1, run)
        # The last window closes because the stream is idle: only a tick does that. And its pane is delivered.
        until(lambda: run.store.query("SELECT count(*) FROM of_fast WHERE final = 1").item() == 3, run)
        until(lambda: len(delivered(tmp_path / "panes")) == 3, run)
        kinds = set(run.store.query("SELECT DISTINCT kind FROM __commits").to_series())
        assert kinds == {"epoch", "tick"}
        assert counts(run, "of_slow") == {}, "its epoch still runs"
        assert run.groups.of("slow").pool in pools
        release.touch()
        until(lambda: counts(run, "of_slow") == {"a": 1, "b": 1}, run)
    finally:
        release.touch()
        run.stop()


def test_a_view_over_both_streams_connects_their_groups_while_both_run(spark, tmp_path):
    app = App("connected")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = app.stream("one", ps.files(tmp_path / "one", files_per_epoch=1), schema=SCHEMA, event_time="at")
    two = app.stream("two", ps.files(tmp_path / "two", files_per_epoch=1), schema=SCHEMA, event_time="at")
    app.view("of_one", one.group_by("k").agg(n=ps.count()))
    app.view("of_two", two.group_by("k").agg(n=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=0.05)
    both = one.union(two).group_by("k").agg(n=ps.count())
    try:
        stop, written = threading.Event(), {"one": 0, "two": 0}

        def produce(name: str) -> None:
            while not stop.wait(0.05) and written[name] < 15:
                write(tmp_path / name, written[name], "x", name)
                written[name] += 1

        producers = [threading.Thread(target=produce, args=(name,)) for name in written]
        for producer in producers:
            producer.start()
        until(lambda: counts(run, "of_one") and counts(run, "of_two"), run)
        assert run.groups.of("one") is not run.groups.of("two")
        before = counts(run, "of_one"), counts(run, "of_two")
        run.add_view("both", both)
        assert run.groups.of("one") is run.groups.of("two")
        since = {name: run.store.query(f"SELECT n FROM of_{name} WHERE k = 'x'").item() for name in written}
        until(lambda: counts(run, "both").get("one") and counts(run, "both").get("two"), run)
        stop.set()
        for producer in producers:
            producer.join()
        run.catch_up()
        ends = {"one": counts(run, "of_one"), "two": counts(run, "of_two")}
        assert ends == {name: {"x": many, name: many} for name, many in written.items()}, "none was lost"
        total = counts(run, "both")
        assert total["x"] == total["one"] + total["two"]
        for name, early in zip(written, before, strict=True):
            assert written[name] - since[name] <= total[name] <= written[name] - early[name]
    finally:
        stop.set()
        run.stop()
