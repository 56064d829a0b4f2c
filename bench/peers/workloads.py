"""What is compared: the input of each workload, the job that runs on it, and the columns of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.peers import inputs
from bench.peers.inputs import Writer


@dataclass(frozen=True)
class Workload:
    """A job on an input. Every run reads `files` of the input, or only the first one; the difference is steady state.

    `columns` are those of the answer, with DuckDB's types: `bench/peers/duckdb` has the query that computes it.
    `last` is a line behind all files, from which on everything before it is closed. `queries` are those that the job
    runs, and `limit` the seconds that a run may take, if it is longer than others. `cores` are those that a job may
    use; without them it has all. `on_kafka` says that the input is in a topic, and the answer comes into another.
    `view` is the one of Penstock's that has the answer, and `query` DuckDB's, where it is not called as the job.
    """

    name: str
    title: str
    text: str
    job: str
    write: Writer
    columns: Mapping[str, str]
    input: str = ""
    files: int = 20
    has_state: bool = True
    last: str = ""
    queries: int = 1
    limit: float = 0
    cores: int = 0
    on_kafka: bool = False
    view: str = "result"
    query: str = ""

    @property
    def folder(self) -> str:
        """The name of the input, which workloads may share."""
        return self.input or self.name

    def prepared(self, root: Path, files: int, events: int) -> Path:
        """The folder with the input, written unless it is there."""
        return inputs.folder_of(root, self.folder, self.write, files, events, self.last)


#: A line an hour behind the others, of a key that is in no answer.
LATER = '{"key": "end", "v": 0, "at": "2024-05-01T01:00:00.000000Z"}'
#: The same of Nexmark, of nobody.
LATER_BID = (
    '{"auction": 0, "bidder": 0, "price": 0, "channel": "", "url": "", "at": "2015-07-15T01:00:00.000000Z", '
    '"extra": ""}'
)
WINDOWED = {"key": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT", "total": "BIGINT"}
WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            "keys-100", "Windows, 100 keys",
            "JSON lines; counts and sums by one of 100 skewed keys, in windows of ten seconds of event time.",
            "keys", inputs.keyed(100, skewed=True), WINDOWED,
        ),
        Workload(
            "keys-100-one-core", "Windows, 100 keys, on one core", "The same with one of the two cores.",
            "keys", inputs.keyed(100, skewed=True), WINDOWED, input="keys-100", files=10, cores=1,
        ),
        Workload(
            "keys-1k", "Windows, 1,000 keys", "The same by 1,000 skewed keys.",
            "keys", inputs.keyed(1000, skewed=True), WINDOWED,
        ),
        Workload(
            "keys-100k", "Windows, 100,000 keys", "The same by 100,000 skewed keys.",
            "keys", inputs.keyed(100_000, skewed=True), WINDOWED,
        ),
        Workload(
            "keys-1m", "Windows, 1 million keys",
            "The same by a million keys, each as frequent as the others. A second of event time has a million events.",
            "keys", inputs.keyed(1_000_000, skewed=False, each=1), WINDOWED,
        ),
        Workload(
            "keys-10m", "Windows, 10 million keys", "The same by ten million keys.",
            "keys", inputs.keyed(10_000_000, skewed=False, each=1), WINDOWED, files=60, limit=900,
        ),
        Workload(
            "yahoo", "Yahoo, from files",
            "The Yahoo benchmark from JSON lines: only views, joined with a table of 1,000 ads, counted by campaign in "
            "windows of ten seconds.",
            "yahoo", inputs.ads, {"campaign": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT"}, files=12,
        ),
        Workload(
            "yahoo-kafka", "Yahoo, from Kafka to Kafka",
            "The Yahoo benchmark as published: JSON from four partitions of a topic, only views, joined with a table "
            "of 1,000 ads, counted by campaign in windows of ten seconds, into another topic. A job ends when the "
            "last count of its answer is there.",
            "yahoo_kafka", inputs.ads, {"campaign": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT"}, input="yahoo",
            files=12, on_kafka=True, query="yahoo",
        ),
        Workload(
            "words", "Word count", "Lines of eight words in JSON; every word counted by hour of event time.",
            "words", inputs.lines, {"word": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT"}, files=8,
        ),
        Workload(
            "join", "Join of streams",
            "Clicks, a tenth of the events, with the impressions of the minute before them, counted by place in "
            "windows of ten seconds.",
            "join", inputs.shown_and_clicked, {"place": "BIGINT", "start": "TIMESTAMP", "n": "BIGINT"}, files=12,
        ),
        Workload(
            "quiet", "Keyed processor",
            "User code with state and timers for each key: how many events a key had and their sum, given out when it "
            "is quiet for a minute of event time. A key has 25 events on average.",
            "quiet", inputs.brief, {"key": "VARCHAR", "n": "BIGINT", "total": "BIGINT"}, files=8, last=LATER,
        ),
        *(
            Workload(
                f"nexmark-{query}", f"Nexmark {query}", text, f"nexmark/{query}", inputs.bids, columns, input="bids",
                files=8, has_state=query != "q2", last=LATER_BID, view=query,
            )
            for query, text, columns in (
                ("q2", "Bids for every 123rd auction.", {"auction": "BIGINT", "price": "BIGINT"}),
                (
                    "q5", "The auctions with the most bids of ten seconds, every two seconds, with ties.",
                    {"start": "TIMESTAMP", "bids": "BIGINT", "auctions": "BIGINT"},
                ),
                (
                    "q7", "The highest bids of ten seconds, with ties.",
                    {"start": "TIMESTAMP", "price": "BIGINT", "bids": "VARCHAR"},
                ),
                (
                    "q11", "How many bids somebody makes without a pause of ten seconds.",
                    {"bidder": "BIGINT", "start": "TIMESTAMP", "bids": "BIGINT"},
                ),
            )
        ),
    )
}  # fmt: skip
QUICK = ("keys-100", "keys-100k", "yahoo")
