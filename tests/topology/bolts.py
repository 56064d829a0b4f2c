"""Components that the tests of topologies share."""

from __future__ import annotations

from collections import Counter
from typing import Any
from zlib import crc32

import penstock as ps

SENTENCES = ["to be or not to be", "that is the question", "be", "or not", "the rest is silence"]


class Split(ps.BasicBolt):
    outputs = "word string"

    def execute(self, tup, collector):
        for word in tup.sentence.split():
            collector.emit((word,))


class Count(ps.StatefulBolt):
    """The number of each word, emitted whenever it changes."""

    outputs = "word string, n bigint"

    def execute(self, tup, collector):
        n = self.state[tup.word] = self.state.get(tup.word, 0) + 1
        yield tup.word, n


class Manual(ps.Bolt):
    """Emits each sentence anchored, and acks it: what others change."""

    outputs = "sentence string"

    def prepare(self, context, collector):
        self.context, self.collector = context, collector

    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)


class FailsTwice(Manual):
    """Fails each tuple twice, after it has emitted."""

    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)
        if tup.attempt < 2:
            self.collector.fail(tup, "not yet")
        else:
            self.collector.ack(tup)


class LosesAcks(Manual):
    """Does its work, and forgets to ack at first."""

    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)
        if tup.attempt:
            self.collector.ack(tup)


class Raises(Manual):
    """Raises on some sentences for ever, on others at first."""

    def execute(self, tup):
        chance = crc32(tup.sentence.encode()) % 4
        if chance == 0 or (chance == 1 and not tup.attempt):
            raise ValueError(f"no {tup.sentence}")
        super().execute(tup)


class Holds(Manual):
    """Holds what comes until a tick, then emits all of it as one, anchored to all, and acks."""

    outputs = "sentence string"

    def prepare(self, context, collector):
        super().prepare(context, collector)
        self.held: list[Any] = []

    def execute(self, tup):
        if not tup.is_tick:
            self.held.append(tup)
        elif self.held:
            self.collector.emit((" ".join(one.sentence for one in self.held),), anchors=self.held)
            for one in self.held:
                self.collector.ack(one)
            self.held = []


def truth(sentences: list[str]) -> Counter[str]:
    return Counter(word for sentence in sentences for word in sentence.split())


def words(stream: Any, first: Any, tick: str | None = None) -> ps.TopologyBuilder:
    """The word count, with one more bolt before it."""
    builder = ps.TopologyBuilder()
    builder.spout("sentences", stream)
    builder.bolt("first", first, 3, tick=tick).shuffle("sentences")
    builder.bolt("split", Split, 2).shuffle("first")
    builder.bolt("count", Count, 3).fields("split", "word")
    return builder


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    """The last count of each word."""
    found: Counter[str] = Counter()
    for row in rows:
        found[row["word"]] = max(found[row["word"]], row["n"])
    return found
