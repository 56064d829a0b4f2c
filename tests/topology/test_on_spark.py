"""Topologies on Spark do what the run without Spark does, and commit it with what they remember."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.testing import TestStream, run_topology
from tests.topology.bolts import SENTENCES, Count, FailsTwice, Holds, LosesAcks, Split, counted, truth, words
from tests.topology.test_components import FailsSome, Numbers
from tests.topology.test_groupings import Through, Where

pytestmark = pytest.mark.xdist_group("spark")
LINES = [f"{one} {number % 5}" for number, one in enumerate(SENTENCES * 4)]


def put(folder: Path, number: int, lines: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps({"sentence": line}) + "\n" for line in lines)
    (folder / f".{number}").write_text(text)
    (folder / f".{number}").rename(folder / f"{number}.json")


def until(run, done, seconds: float = 300.0) -> None:
    """Waits for something that the app does by itself."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not come"
        run.wait(0.1)


def last_counts(run, view: str) -> Counter[str]:
    return Counter(dict(run.store.query(f"SELECT word, n FROM {view}").iter_rows()))


def test_a_word_count_is_exact_though_bolts_fail_and_the_app_is_started_again(spark, tmp_path):
    app = App("topologies")
    lines = app.stream("lines", ps.files(tmp_path / "in", files_per_epoch=1), schema="sentence string")
    exact = app.topology("exact", words(lines.where("sentence <> 'nothing'"), FailsTwice), guarantee="exactly_once")
    app.view("totals", exact.group_by("word").agg(n=ps.max("n"), rows=ps.count()))
    app.sink(exact, ps.to_jsonl(tmp_path / "out"))
    for number in range(4):
        put(tmp_path / "in", number, [*LINES[number * 5 : number * 5 + 5], "nothing"])
        if number % 2:
            run = app.start(tmp_path / "run", spark=spark, tick=3600.0)
            run.catch_up()
            found = last_counts(run, "totals")
            assert found == truth(LINES[: number * 5 + 5])
            run.stop()
    counters = run.store.counters()
    assert counters["exact.failed"] == 2 * len(LINES)
    assert counters["exact.first:executed"] == len(LINES)
    rows = [json.loads(line) for path in (tmp_path / "out").glob("*.jsonl") for line in path.open()]
    assert counted(rows) == truth(LINES)
    script = TestStream(lines).add(*((line,) for line in LINES))
    same = run_topology(exact, script).rows["count"]
    assert Counter((row["word"], row["n"]) for row in same) == Counter((row["word"], row["n"]) for row in rows)


@pytest.mark.deep
def test_trees_that_time_out_are_tried_again_until_all_are_complete(spark, tmp_path):
    app = App("trees")
    lines = app.stream("lines", ps.files(tmp_path / "in"), schema="sentence string")
    put(tmp_path / "in", 1, SENTENCES)
    builder = ps.TopologyBuilder().spout("lines", lines)
    builder.bolt("loses", LosesAcks, 2).shuffle("lines")
    builder.bolt("split", Split, 2).local_or_shuffle("loses")
    builder.bolt("count", Count, 2).fields("split", "word")
    trees = app.topology("trees", builder, timeout="1 second", tries=2)
    app.view("totals", trees.group_by("word").agg(n=ps.max("n")))
    run = app.start(tmp_path / "run", spark=spark, tick=0.05)
    try:
        until(run, lambda: run.store.counters().get("trees.completed", 0) >= len(SENTENCES))
    finally:
        run.stop()
    assert last_counts(run, "totals") == Counter({word: 2 * n for word, n in truth(SENTENCES).items()})
    counters = run.store.counters()
    assert counters["trees.timed_out"] == len(SENTENCES)
    assert counters["trees.replayed"] == len(SENTENCES)
    assert run.store.query("SELECT count(*) FROM __memory_trees WHERE part IN ('trees', 'again')").item() == 0


def test_tuples_are_held_until_a_tick_while_a_spout_of_code_emits_again_what_failed(spark, tmp_path):
    app = App("held")
    lines = app.stream("lines", ps.files(tmp_path / "in"), schema="sentence string")
    put(tmp_path / "in", 1, SENTENCES)
    builder = ps.TopologyBuilder().spout("lines", lines).spout("numbers", Numbers(20))
    builder.bolt("holds", Holds, 1, tick="1 second").global_("lines")
    builder.bolt("some", FailsSome, 2).shuffle("numbers")
    held = app.topology("held", builder, timeout="1 hour", outputs=["holds", "some"])
    app.view("joined", held.group_by("sentence").agg(n=ps.count()))
    app.view("numbers", held.stream_of("some").group_by("n").agg(times=ps.count()))
    run = app.start(tmp_path / "run", spark=spark, tick=0.05)
    try:
        until(run, lambda: run.store.counters().get("held.completed", 0) >= len(SENTENCES) + 20)
    finally:
        run.stop()
    assert run.store.query("SELECT sentence, n FROM joined").rows() == [(" ".join(SENTENCES), 1)]
    assert dict(run.store.query("SELECT n, times FROM numbers").iter_rows()) == dict.fromkeys(range(20), 1)
    assert run.store.counters()["held.replayed"] == 20


def test_a_topology_is_fed_by_a_view_and_feeds_one(spark, tmp_path):
    app = App("fed")
    lines = app.stream("lines", ps.files(tmp_path / "in"), schema="sentence string")
    put(tmp_path / "in", 1, SENTENCES)
    lengths = app.view("lengths", lines.group_by("length(sentence) AS size").agg(n=ps.count()))
    app.sink(lengths, ps.to_jsonl(tmp_path / "panes"))
    panes = app.stream("panes", ps.files(tmp_path / "panes"), schema="size int, n bigint, kind string")
    builder = ps.TopologyBuilder().spout("panes", panes.where("kind = 'insert'"))
    builder.bolt("sizes", Sizes, 2).shuffle("panes")
    app.view("sizes", app.topology("told", builder, guarantee="exactly_once").group_by("text").agg(n=ps.count()))
    run = app.start(tmp_path / "run", spark=spark, tick=0.05)
    sizes = Counter(len(one) for one in SENTENCES)
    try:
        until(run, lambda: run.store.counters().get("told.events", 0) >= len(sizes))
    finally:
        run.stop()
    assert dict(run.store.query("SELECT text, n FROM sizes").iter_rows()) == {f"{s}: {n}": 1 for s, n in sizes.items()}


class Sizes(ps.BasicBolt):
    outputs = "text string"

    def execute(self, tup, collector):
        collector.emit({"text": f"{tup.size}: {tup.n}"})


@pytest.mark.deep
def test_groupings_divide_tuples_on_spark_as_they_do_without(spark, tmp_path):
    app = App("groupings")
    numbers = app.stream("numbers", ps.files(tmp_path / "in", files_per_epoch=1), schema="n bigint, word string")
    (tmp_path / "in").mkdir()
    for number in range(2):
        rows = [{"n": number * 24 + n, "word": f"w{n % 7}"} for n in range(24)]
        (tmp_path / "in" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    builder = ps.TopologyBuilder().spout("numbers", numbers)
    builder.bolt("through", Through, 3).shuffle("numbers")
    for kind, *fields in (("shuffle",), ("fields", "word"), ("all",), ("global_",)):
        for source in ("numbers", "through"):
            name = f"{kind.strip('_')}_{source}"
            getattr(builder.bolt(name, Where, 4), kind)(source, *fields)
            builder.bolt(f"end_{name}", Through2, 4).local_or_shuffle(name)
    names = [name for name in builder._bolts if name.startswith("end_")]
    found = app.topology("places", builder, guarantee="at_most_once", outputs=names)
    for name in names:
        app.view(name, found.stream_of(name).group_by("task", "word").agg(n=ps.count()))
    run = app.start(tmp_path / "run", spark=spark, tick=3600.0)
    run.catch_up()
    answers = {name: run.store.query(f"SELECT task, word, n FROM {name}").rows() for name in names}
    run.stop()
    by_task = {name: Counter[int]() for name in names}
    for name, rows in answers.items():
        for task, _, n in rows:
            by_task[name][task] += n
    for source in ("numbers", "through"):
        assert by_task[f"end_all_{source}"] == dict.fromkeys(range(4), 48)
        assert by_task[f"end_global_{source}"] == {0: 48}
        even = by_task[f"end_shuffle_{source}"]
        assert sum(even.values()) == 48
        assert max(even.values()) - min(even.values()) <= 6, "one for each that emits, in each epoch"
    places = {
        name: {(task, word) for task, word, _ in answers[f"end_fields_{name}"]} for name in ("numbers", "through")
    }
    assert places["numbers"] == places["through"]
    assert len(places["numbers"]) == 7


class Through2(ps.BasicBolt):
    outputs = "task bigint, word string"

    def execute(self, tup, collector):
        yield tup.task, tup.word


def test_topologies_of_code_alone_run_by_the_clock_each_with_its_own_components(spark, tmp_path):
    app = App("alone")
    for name, count in (("short", 5), ("long", 30)):
        builder = ps.TopologyBuilder().spout("numbers", Numbers(count), 2)
        builder.bolt("some", FailsSome, 2).shuffle("numbers")
        made = app.topology(name, builder, guarantee="exactly_once")
        app.view(f"{name}_numbers", made.group_by("n").agg(times=ps.count()))
    run = app.start(tmp_path / "run", spark=spark, tick=0.05)

    def completed(name: str) -> int:
        return run.store.counters().get(f"{name}.completed", 0)

    try:
        until(run, lambda: completed("short") >= 10 and completed("long") >= 60)
    finally:
        run.stop()
    for name, count in (("short", 5), ("long", 30)):
        found = dict(run.store.query(f"SELECT n, times FROM {name}_numbers").iter_rows())
        assert found == dict.fromkeys(range(count), 2), "each of its two tasks has all of them"
