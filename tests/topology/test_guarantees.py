"""What Storm promises: at least once, at most once, exactly once, when bolts fail, acks are lost and time runs out."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

import penstock as ps
from penstock.model.commits import Commit
from penstock.testing import TestStream, run_topology
from penstock.topology.local import LocalRun
from tests.topology.bolts import (
    SENTENCES,
    Count,
    FailsTwice,
    Holds,
    LosesAcks,
    Manual,
    Raises,
    Split,
    counted,
    truth,
    words,
)

STREAM = ps.stream("sentences", schema="sentence string")
GUARANTEES = ("at_most_once", "at_least_once", "exactly_once")
BOLTS = [Manual, FailsTwice, LosesAcks, Raises, Holds]


def script(sentences=SENTENCES, epochs: int = 2) -> TestStream:
    made, size = TestStream(STREAM), -(-len(sentences) // epochs)
    for first in range(0, len(sentences), size):
        made = made.add(*((one,) for one in sentences[first : first + size]))
    return made


def holds(found: Counter[str], want: Counter[str], guarantee: str) -> None:
    if guarantee == "exactly_once":
        assert found == want
    elif guarantee == "at_least_once":
        assert found >= want
    else:
        assert found <= want


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("first", [Manual, FailsTwice, LosesAcks, Holds])
def test_counts_are_at_least_at_most_or_exactly_the_truth_and_every_tree_completes(first, guarantee):
    made = script()
    for _ in range(4):
        made = made.clock("+1 second")
    tick = "1 second" if first is Holds else None
    found = run_topology(words(STREAM, first, tick), made, guarantee=guarantee, timeout="30 seconds")
    holds(counted(found.rows["count"]), truth(SENTENCES), guarantee)
    assert found.pending == 0
    assert found.dead == []
    if guarantee == "at_least_once":
        assert found.counters["completed"] == len(SENTENCES)


def test_a_bolt_that_fails_each_tuple_twice_is_tried_three_times():
    least = run_topology(words(STREAM, FailsTwice), script(), guarantee="at_least_once")
    assert counted(least.rows["count"]) == Counter({word: 3 * n for word, n in truth(SENTENCES).items()})
    assert (least.counters["failed"], least.counters["replayed"]) == (10, 10)
    most = run_topology(words(STREAM, FailsTwice), script(), guarantee="at_most_once")
    assert most.counters["lost"] == len(SENTENCES)
    once = run_topology(words(STREAM, FailsTwice), script(epochs=1), guarantee="exactly_once")
    assert once.counters["failed"] == 10
    assert once.epochs == 1


def test_what_fails_too_often_is_a_dead_letter_with_the_reason():
    for guarantee in ("at_least_once", "exactly_once"):
        found = run_topology(words(STREAM, FailsTwice), script(), guarantee=guarantee, tries=2)
        assert sorted(json.loads(one["row"])["sentence"] for one in found.dead) == sorted(SENTENCES)
        assert {one["reason"] for one in found.dead} == {"the bolt 'first' failed a tuple: not yet"}
        assert found.pending == 0
        if guarantee == "exactly_once":
            assert found.rows["count"] == []


def test_poison_is_left_out_and_the_rest_is_exact():
    sentences = [f"{one} {number}" for one in SENTENCES for number in range(20)]
    found = run_topology(words(STREAM, Raises), script(sentences, 5), guarantee="exactly_once")
    gone = [json.loads(one["row"])["sentence"] for one in found.dead]
    assert 0 < len(gone) < len(sentences)
    assert counted(found.rows["count"]) == truth([one for one in sentences if one not in gone])
    assert {one["reason"] for one in found.dead} == {
        f"the bolt 'first' failed a tuple: ValueError: no {x}" for x in gone
    }


def test_a_lost_ack_times_out_and_the_message_is_tried_again():
    run = LocalRun(words(STREAM, LosesAcks).build("words", timeout="10 seconds"))
    for commit in script(epochs=1).commits():
        run.commit(commit)
    assert run.played.pending == len(SENTENCES)
    begun, deadline = commit.now, run.due
    assert deadline == begun + 10_000_000
    run.commit(Commit(deadline - 1))
    assert run.played.pending == len(SENTENCES)
    run.commit(Commit(deadline))
    assert run.played.counters["timed_out"] == len(SENTENCES)
    assert run.due == deadline, "they are tried again at once"
    run.commit(Commit(deadline))
    assert run.played.pending == 0
    assert run.played.counters["completed"] == len(SENTENCES)


def test_exactly_once_a_lost_ack_is_counted_and_what_it_did_stays():
    found = run_topology(words(STREAM, LosesAcks), script(), guarantee="exactly_once", timeout="10 seconds")
    assert counted(found.rows["count"]) == truth(SENTENCES)
    assert found.counters["timed_out"] == len(SENTENCES)
    assert (found.dead, found.pending) == ([], 0)


class HoldsTooLong(Manual):
    """Acks a tuple when the next one comes."""

    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)
        if getattr(self, "last", None) is not None:
            self.collector.ack(self.last)
        self.last = tup


def test_an_ack_that_comes_after_the_timeout_is_not_heard():
    builder = ps.TopologyBuilder()
    builder.spout("sentences", STREAM)
    builder.bolt("first", HoldsTooLong, 1).shuffle("sentences")
    made = TestStream(STREAM).add(("a",)).clock("+1 minute").add(("b",))
    found = run_topology(builder, made, settle=False, timeout="30 seconds", tries=2)
    assert found.counters["timed_out"] == 1
    assert found.counters["replayed"] == 1
    assert found.pending == 1, "the one that it holds now"


def test_tuples_that_are_held_over_epochs_complete_when_they_are_acked():
    made = script().clock("+500 milliseconds").restart().clock("+1 second")
    run = LocalRun(words(STREAM, Holds, tick="1 second").build("words"))
    pending = []
    for commit in made.commits():
        if commit is None:
            run.restart()
            continue
        run.commit(commit)
        pending.append(run.played.pending)
    assert pending == [3, 5, 5, 0]
    assert counted(run.played.rows["count"]) == truth(SENTENCES)


def test_a_tuple_of_two_trees_is_of_both():
    class Pairs(Holds):
        pass

    class Fails(ps.BasicBolt):
        def execute(self, tup, collector):
            raise ps.FailedTuple("never")

    builder = ps.TopologyBuilder()
    builder.spout("sentences", STREAM)
    builder.bolt("pairs", Pairs, 1, tick="1 second").shuffle("sentences")
    builder.bolt("fails", Fails, 1).shuffle("pairs")
    made = TestStream(STREAM).add(("a",), ("b",)).clock("+1 second")
    found = run_topology(builder, made, tries=1, settle=False, outputs=[])
    assert sorted(json.loads(one["row"])["sentence"] for one in found.dead) == ["a", "b"]


def test_an_emit_without_anchors_is_no_part_of_the_tree():
    class Loose(Manual):
        def execute(self, tup):
            self.collector.emit(tup.values)
            self.collector.ack(tup)

    class Never(ps.Bolt):
        def execute(self, tup):
            """It never acks."""

    builder = ps.TopologyBuilder()
    builder.spout("sentences", STREAM)
    builder.bolt("loose", Loose, 1).shuffle("sentences")
    builder.bolt("never", Never, 1).shuffle("loose")
    assert run_topology(builder, script(), settle=False).pending == 0
    builder = ps.TopologyBuilder()
    builder.spout("sentences", STREAM)
    builder.bolt("anchored", Manual, 1).shuffle("sentences")
    builder.bolt("never", Never, 1).shuffle("anchored")
    assert run_topology(builder, script(), settle=False).pending == len(SENTENCES)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_random_topologies_hold_what_they_promise_wherever_the_driver_dies(guarantee, seed):
    chance = Random(seed)
    bolts = [bolt for bolt in BOLTS if bolt is not Raises or guarantee != "at_least_once"]
    sentences = [f"{chance.choice(SENTENCES)} {chance.randrange(4)}" for _ in range(30)]
    builder = ps.TopologyBuilder()
    builder.spout("sentences", STREAM)
    before = "sentences"
    for number in range(chance.randrange(3)):
        bolt = chance.choice(bolts)
        tick = "1 second" if bolt is Holds else None
        grouped = builder.bolt(f"b{number}", bolt, chance.randrange(1, 4), tick=tick)
        kind = chance.choice(("shuffle", "local_or_shuffle", "global_", "fields"))
        getattr(grouped, kind)(before, *(("sentence",) if kind == "fields" else ()))
        before = f"b{number}"
    builder.bolt("split", Split, 2).shuffle(before)
    builder.bolt("count", Count, 2).fields("split", "word")
    topology = builder.build("words", guarantee=guarantee, tries=9)
    run = LocalRun(topology)
    made = script(sentences, 4)
    for _ in range(12):
        made = made.clock("+1 second")
    now = 0
    for commit in made.commits():
        while chance.random() < 0.3:  # it dies before the commit, and another does the epoch again
            dying = LocalRun(topology)
            dying.memory.parts = {part: dict(keys) for part, keys in run.memory.parts.items()}
            dying.commit(commit)
            run.restart()
        run.commit(commit)
        now = commit.now
    for _ in range(200):
        if run.is_quiet:
            break
        now = max(now + 1_000_000, run.due)
        run.commit(Commit(now))
    gone = [json.loads(one["row"]).get("sentence", "") for one in run.played.dead]
    want = truth(sentences) - truth(gone) if guarantee == "exactly_once" else truth(sentences)
    holds(counted(run.played.rows["count"]), want, guarantee)
    assert run.is_quiet
