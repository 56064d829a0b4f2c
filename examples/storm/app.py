"""The two topologies that everybody knows: exclamation marks, and the word count."""

import penstock as ps

SENTENCES = (
    "the cow jumped over the moon",
    "an apple a day keeps the doctor away",
    "four score and seven years ago",
    "snow white and the seven dwarfs",
    "i am at two with nature",
)


def sentences(numbers, times, chance):
    """Made-up events: a sentence each."""
    picked = (chance.uniform() * len(SENTENCES)).astype(int)
    return {"sentence": [SENTENCES[number] for number in picked]}


class Exclamation(ps.Bolt):
    """Adds exclamation marks, and acks by hand."""

    outputs = "word string"

    def prepare(self, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.emit((tup.word + "!!!",), anchors=tup)
        self.collector.ack(tup)


class TestWords(ps.Spout):
    """Names, one after the other; what fails is emitted again."""

    outputs = "word string"
    names = ("nathan", "mike", "jackson", "golda", "bertels")

    def __init__(self, count=100):
        self.count, self.next, self.again = count, 0, []

    def open(self, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.again or self.next < self.count:
            number = self.again.pop() if self.again else self.next
            self.next = max(self.next, number + 1)
            self.collector.emit((self.names[number % len(self.names)],), message_id=number)

    def fail(self, message_id):
        self.again.append(message_id)


class SplitSentence(ps.BasicBolt):
    """A basic bolt acks by itself, and what it emits is anchored."""

    outputs = "word string"

    def execute(self, tup, collector):
        for word in tup.sentence.split():
            collector.emit((word,))


class WordCount(ps.StatefulBolt):
    """The state of a word is in the task that the word always comes to, and is committed with the epoch."""

    outputs = "word string, count bigint"

    def execute(self, tup, collector):
        count = self.state[tup.word] = self.state.get(tup.word, 0) + 1
        collector.emit((tup.word, count))


app = ps.App("storm")

exclaim = ps.TopologyBuilder()
exclaim.spout("word", TestWords, 1)
exclaim.bolt("exclaim1", Exclamation, 3).shuffle("word")
exclaim.bolt("exclaim2", Exclamation, 2).shuffle("exclaim1")
exclamations = app.topology("exclamation", exclaim, guarantee="at_least_once")
app.view("exclaimed", exclamations.group_by("word").agg(times=ps.count()))

text = app.stream("text", ps.generator(sentences, rate=1000, seed=1), schema="sentence string")
words = ps.TopologyBuilder()
words.spout("sentences", text)
words.bolt("split", SplitSentence, 4).shuffle("sentences")
words.bolt("count", WordCount, 4).fields("split", "word")
counts = app.topology("word_count", words, guarantee="exactly_once")
app.view("counts", counts.group_by("word").agg(count=ps.max("count"), tuples=ps.count()))
