"""Spouts and bolts: what they remember, when they are called, and what is refused."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime
from typing import ClassVar

import pytest

import penstock as ps
from penstock.errors import DefinitionError, PenstockError
from penstock.model.commits import Commit
from penstock.testing import TestStream, run_topology
from penstock.topology.local import LocalRun
from penstock.topology.orders import AT_ONCE
from tests.topology.bolts import SENTENCES, Count, FailsTwice, Manual, Split, counted, truth, words

STREAM = ps.stream("sentences", schema="sentence string")


class Numbers(ps.Spout):
    """Numbers up to a hundred, each emitted again until it is acked."""

    outputs = "n bigint"

    def __init__(self, count: int = 100) -> None:
        self.left = list(range(count))
        self.acked: list[int] = []
        self.failed: list[int] = []
        self.dropped: list[int] = []

    def open(self, context, collector):
        self.collector, self.lock = collector, threading.Lock()

    def next_tuple(self):
        with self.lock:
            if self.left:
                n = self.left.pop(0)
                self.collector.emit((n,), message_id=n)

    def ack(self, message_id):
        self.acked.append(message_id)

    def fail(self, message_id):
        self.failed.append(message_id)
        self.left.append(message_id)

    def give_up(self, message_id):
        self.dropped.append(message_id)


class FailsSome(ps.BasicBolt):
    """Fails numbers below ten twice, and 99 for ever."""

    outputs = "n bigint"

    def execute(self, tup, collector):
        if tup.n == 99 or (tup.n < 10 and tup.attempt < 2):
            raise ps.FailedTuple("too early")
        return [tup.values]


def remembered(run: LocalRun, component: str, task: int = 0) -> ps.Spout:
    """A component as it would be taken up in the next epoch."""
    import pickle

    data = run.memory.part("tasks")[pickle.dumps((component, task))]
    return run.crew._prepared[component, task].taken_up(data)


def numbers(guarantee: str, spout: ps.Spout | None = None) -> LocalRun:
    builder = ps.TopologyBuilder().spout("numbers", spout or Numbers())
    builder.bolt("some", FailsSome, 2).shuffle("numbers")
    run = LocalRun(builder.build("numbers", guarantee=guarantee))
    for second in range(20):
        run.commit(Commit(second * 1_000_000))
    return run


def test_a_spout_of_code_hears_of_its_messages_and_emits_again_what_failed():
    run = numbers("at_least_once")
    spout = remembered(run, "numbers")
    assert sorted(spout.acked) == list(range(99))
    assert sorted(set(spout.failed)) == [*range(10), 99]
    assert spout.dropped == [99]
    assert len(spout.failed) == 22
    assert sorted(row["n"] for row in run.played.rows["some"]) == list(range(99))
    assert [json.loads(one["row"]) for one in run.played.dead] == [{"from": "numbers", "n": 99}]


def test_exactly_once_a_spout_of_code_is_asked_once_however_often_its_epoch_is_done():
    run = numbers("exactly_once")
    spout = remembered(run, "numbers")
    assert sorted(spout.acked) == list(range(99))
    assert (spout.failed, spout.dropped) == ([], [99])
    assert sorted(row["n"] for row in run.played.rows["some"]) == list(range(99))


def test_at_most_once_nobody_is_told():
    run = numbers("at_most_once")
    spout = remembered(run, "numbers")
    assert (spout.acked, spout.failed, spout.dropped) == ([], [], [])
    assert sorted(row["n"] for row in run.played.rows["some"]) == list(range(10, 99))
    assert run.played.counters["lost"] == 11


def test_a_spout_of_code_emits_so_much_at_once_and_no_more_than_may_be_pending():
    class Never(ps.Bolt):
        def execute(self, tup):
            """It never acks."""

    builder = ps.TopologyBuilder().spout("numbers", Numbers(10 * AT_ONCE))
    builder.bolt("never", Never, 1).shuffle("numbers")
    run = LocalRun(builder.build("numbers", max_pending=1500))
    pending = []
    for _ in range(4):
        run.commit(Commit(0))
        pending.append(run.played.pending)
    assert pending == [1000, 1500, 1500, 1500]


class Attributes(ps.BasicBolt):
    """Counts by an attribute, and has something that no pickle takes."""

    outputs = "task bigint, n bigint"
    prepared: ClassVar[list[str]] = []

    def __init__(self, start: int) -> None:
        self.n = start

    def prepare(self, context, collector):
        self.lock, self.context = threading.Lock(), context
        Attributes.prepared.append(context.component)

    def execute(self, tup, collector):
        with self.lock:
            self.n += 1
        yield self.context.task, self.n


def test_attributes_are_remembered_over_epochs_and_restarts():
    Attributes.prepared.clear()
    builder = ps.TopologyBuilder().spout("sentences", STREAM)
    builder.bolt("attributes", Attributes(10), 1).shuffle("sentences")
    script = TestStream(STREAM).add(("a",), ("b",)).add(("c",)).restart().add(("d",))
    found = run_topology(builder, script)
    assert [row["n"] for row in found.rows["attributes"]] == [11, 12, 13, 14]
    assert len(Attributes.prepared) == 2, "once in a process"


def test_attributes_that_grow_or_cannot_be_remembered_are_refused():
    class Grows(ps.BasicBolt):
        def execute(self, tup, collector):
            self.all = "x" * 2_000_000

    class Opens(ps.BasicBolt):
        def execute(self, tup, collector):
            self.lock = threading.Lock()

    for bolt, said in ((Grows, "1,000,000 may be"), (Opens, "cannot be stored")):
        builder = ps.TopologyBuilder().spout("sentences", STREAM)
        builder.bolt("bolt", bolt, 1).shuffle("sentences")
        with pytest.raises(PenstockError, match=said):
            run_topology(builder, TestStream(STREAM).add(("a",)))


class Life(Manual):
    said: ClassVar[list[str]] = []

    def prepare(self, context, collector):
        super().prepare(context, collector)
        self.said.append("prepare")

    def activate(self):
        self.said.append("activate")

    def execute(self, tup):
        self.said.append("tick" if tup.is_tick else tup.sentence)
        self.collector.ack(tup)

    def deactivate(self):
        self.said.append("deactivate")
        self.collector.emit(("the end of an epoch",))

    def cleanup(self):
        self.said.append("cleanup")


def test_the_life_of_a_bolt():
    Life.said.clear()
    builder = ps.TopologyBuilder().spout("sentences", STREAM)
    builder.bolt("life", Life, 1, tick="1 second").shuffle("sentences")
    found = run_topology(builder, TestStream(STREAM).add(("a",), ("b",)).clock("+1 second").add(("c",)))
    assert Life.said == [
        "prepare", "activate", "a", "b", "deactivate", "activate", "tick", "deactivate", "activate", "c", "deactivate",
        "cleanup",
    ]  # fmt: skip
    assert len(found.rows["life"]) == 3


def test_ticks_come_when_they_are_due_and_several_as_one():
    class Ticks(ps.BasicBolt):
        outputs = "at timestamp"

        def execute(self, tup, collector):
            if tup.is_tick:
                yield (tup.at,)

    builder = ps.TopologyBuilder().spout("sentences", STREAM)
    builder.bolt("ticks", Ticks, 1, tick="10 seconds").shuffle("sentences")
    script = TestStream(STREAM).add(("a",)).clock("00:00:09").clock("00:00:11").clock("00:01:00").add(("b",))
    found = run_topology(builder, script)
    day = datetime(2000, 1, 1, tzinfo=UTC)
    assert [(row["at"] - day).seconds for row in found.rows["ticks"]] == [11, 60]


class Sessions(ps.StatefulBolt):
    """Lists by two fields; forgets them at an end."""

    outputs = "user string, page string, seen array<string>"

    def execute(self, tup, collector):
        key = (tup.user, tup.page)
        seen = self.state.setdefault(key, [])
        seen.append(tup.what)
        if tup.what == "end":
            yield tup.user, tup.page, self.state.pop(key)


def test_state_by_several_fields_is_changed_in_place_and_forgotten():
    stream = ps.stream("clicks", schema="user string, page string, what string")
    builder = ps.TopologyBuilder().spout("clicks", stream)
    builder.bolt("sessions", Sessions, 3).fields("clicks", "user", "page")
    run = LocalRun(builder.build("sessions"))
    script = (
        TestStream(stream).add(("ann", "/", "a"), ("bob", "/", "a")).add(("ann", "/", "b")).add(("ann", "/", "end"))
    )
    sizes = []
    for commit in script.commits():
        run.commit(commit)
        sizes.append(len(run.state("sessions")))
    assert run.played.rows["sessions"] == [{"user": "ann", "page": "/", "seen": ["a", "b", "end"]}]
    assert sizes == [2, 2, 1]


def test_only_changed_keys_are_written():
    run = LocalRun(words(STREAM, Manual).build("words"))
    commits = list(TestStream(STREAM).add(("a b c d",)).add(("a",)).commits())
    run.commit(commits[0])
    settled = run.commit(commits[1])
    assert len(settled.outcome.state["count"]) == 1


def test_the_state_of_another_key_is_not_here():
    class Peeks(ps.StatefulBolt):
        outputs = "n bigint"

        def execute(self, tup, collector):
            self.state["other"] = 1

    builder = ps.TopologyBuilder().spout("sentences", STREAM)
    builder.bolt("peeks", Peeks, 1).fields("sentences", "sentence")
    found = run_topology(builder, TestStream(STREAM).add(("a",)), tries=1)
    assert "the state of 'other' is not available" in found.dead[0]["reason"]


class Errors(ps.BasicBolt):
    outputs: ClassVar = {"default": "n bigint", "errors": "text string, why string"}

    def execute(self, tup, collector):
        try:
            collector.emit({"n": int(tup.sentence)})
        except ValueError as error:
            collector.emit((tup.sentence, type(error).__name__), stream="errors")


def test_streams_by_name_with_their_own_fields():
    builder = ps.TopologyBuilder().spout("sentences", STREAM)
    builder.bolt("numbers", Errors, 2).shuffle("sentences")
    builder.bolt("count", CountErrors, 1).fields("numbers", "why", stream="errors")
    found = run_topology(builder, TestStream(STREAM).add(("1",), ("x",), ("y",)), outputs=["numbers", "count"])
    assert found.rows == {
        "numbers": [{"n": 1}],
        "count": [{"why": "ValueError", "n": 1}, {"why": "ValueError", "n": 2}],
    }


class CountErrors(ps.StatefulBolt):
    outputs = "why string, n bigint"

    def execute(self, tup, collector):
        n = self.state[tup.why] = self.state.get(tup.why, 0) + 1
        collector.emit((tup["why"], n))


def test_a_row_of_the_wrong_type_fails_its_tuple():
    class Wrong(ps.BasicBolt):
        outputs = "n bigint"

        def execute(self, tup, collector):
            collector.emit((tup.sentence,))

    builder = ps.TopologyBuilder().spout("sentences", STREAM)
    builder.bolt("wrong", Wrong, 1).shuffle("sentences")
    found = run_topology(builder, TestStream(STREAM).add(("a",)), tries=1)
    assert "the field 'n' of the output: 'a' is not of type bigint" in found.dead[0]["reason"]


def test_metrics_tell_what_components_did_and_who_is_slow():
    run = LocalRun(words(STREAM, FailsTwice).build("words", guarantee="at_least_once"))
    (commit,) = TestStream(STREAM).add(*((one,) for one in SENTENCES)).commits()
    settled = run.commit(commit)
    assert settled.counters["first:executed"] == settled.counters["first:failed"] == len(SENTENCES)
    assert settled.counters["split:emitted"] == sum(truth(SENTENCES).values())
    assert settled.notes["topology"]["slowest"] in ("first", "split", "count")
    assert settled.notes["topology"]["components"]["count"]["seconds"] >= 0


def test_the_status_shows_what_components_did():
    from rich.console import Console

    from penstock.cli.components import components_table
    from penstock.cli.figures import Figures

    counters = {"events": 9, "split:executed": 1000, "split:emitted": 5000, "split:microseconds": 2500}
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(components_table(Figures(0, counters={"words": counters, "lines": {"events": 3}})))
    last = " ".join(console.export_text().splitlines()[-1].split())
    assert last == "words split 1 000 5 000 0 0 2.5 µs"


def broken(declare, said: str, **options) -> None:
    def build() -> None:
        builder = ps.TopologyBuilder().spout("sentences", STREAM)
        declare(builder)
        builder.build("t", **options)

    with pytest.raises(DefinitionError, match=said):
        build()


def test_what_cannot_be_a_topology_is_refused():
    broken(lambda b: b.bolt("split", Split), "takes no tuples")
    broken(lambda b: b.bolt("split", Split).shuffle("sentence"), "did you mean 'sentences'")
    broken(lambda b: b.bolt("split", Split).shuffle("sentences", "errors"), "unknown output stream")
    broken(lambda b: b.bolt("split", Split).fields("sentences", "word"), "unknown field")
    broken(lambda b: b.bolt("split", Split).fields("sentences"), "not grouped by any field")
    broken(lambda b: b.bolt("count", Count).shuffle("sentences"), "which are the keys of its state")
    broken(lambda b: b.bolt("sentences", Split), "already")
    broken(lambda b: b.bolt("a b", Split), "cannot be a component's name")
    broken(lambda b: b.bolt("split", Numbers), "is not a bolt")
    broken(lambda b: b.bolt("bare", ps.BasicBolt), "has no execute")
    broken(lambda b: b.bolt("split", Split, 0), "cannot have 0 tasks")
    broken(lambda b: None, "has no bolt")
    broken(lambda b: b.bolt("split", Split).shuffle("sentences"), "unknown guarantee", guarantee="always")
    broken(lambda b: b.bolt("split", Split).shuffle("sentences"), "unknown output stream", outputs="count")
    broken(lambda b: b.spout("again", STREAM, 3), "leave out the number")
    broken(lambda b: b.spout("code", STREAM.transform(lambda df: df, schema="a string")), "only Spark can run")
    broken(lambda b: b.spout("spark", STREAM.select("soundex(sentence) AS a")), "only Spark can compute")
    counts = STREAM.group_by("sentence").agg(n=ps.count()).retracting().changes("counts")
    broken(lambda b: b.spout("changes", counts), "are not kept anywhere")

    def circle(builder):
        builder.bolt("one", Split).shuffle("two")
        builder.bolt("two", Split).shuffle("one")

    broken(circle, "form a cycle")


def test_a_field_may_have_the_name_of_anything_that_a_tuple_has():
    class Names(ps.BasicBolt):
        outputs = "source string, count bigint, attempt string"

        def execute(self, tup, collector):
            yield tup.source, tup["count"], tup.attempt

    stream = ps.stream("numbers", schema="source string, count bigint, attempt string, roots string, id string")
    builder = ps.TopologyBuilder().spout("numbers", stream)
    builder.bolt("one", Names, 1).shuffle("numbers")
    builder.bolt("two", Names, 1).shuffle("one")
    row = ("here", 3, "first")
    found = run_topology(builder, TestStream(stream).add((*row, "r", "i")), guarantee="exactly_once")
    assert [tuple(one.values()) for one in found.rows["two"]] == [row]


def test_bolts_may_be_declared_in_any_order():
    builder = ps.TopologyBuilder()
    builder.bolt("count", Count, 2).fields("split", "word")
    builder.bolt("split", Split, 2).shuffle("sentences")
    builder.spout("sentences", STREAM)
    found = run_topology(builder, TestStream(STREAM).add(*((one,) for one in SENTENCES)))
    assert counted(found.rows["count"]) == truth(SENTENCES)
