"""What is compared: the input of each workload, the job that runs on it, and the columns of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.peers import inputs
from bench.peers.inputs import Writer


@dataclass(frozen=True)
class Workload:
    """A job on an input. Every run reads `files` of the input, or only the first one; the difference is steady state.

    `columns` are those of the answer, with DuckDB's types: `bench/peers/duckdb` has the query that computes it.
    `last` is a line behind all files, from which on everything before it is closed. `queries` is how many queries the
    job runs, where each has a view of its own and a number in the answer, and `limit` the seconds that a run may take,
    if it is longer than others. `cores` are those that a job may use; without them it has all. `on_kafka` says that the
    input is in a topic, and the answer comes into another. `view` is the one of Penstock's that has the answer, and
    `query` DuckDB's, where it is not called as the job. `table` writes what the events are joined with into the
    folder of all inputs.
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
    queries: int = 0
    limit: float = 0
    cores: int = 0
    on_kafka: bool = False
    view: str = "result"
    query: str = ""
    table: Callable[[Path], None] | None = None

    @property
    def folder(self) -> str:
        """The name of the input, which workloads may share."""
        return self.input or self.name

    @property
    def views(self) -> dict[int, str]:
        """Penstock's views, by the number of their query."""
        return {number: f"query{number}" for number in range(self.queries)} or {0: self.view}

    def prepared(self, root: Path, files: int, events: int) -> Path:
        """The folder with the input, written unless it is there."""
        if self.table is not None:
            self.table(root)
        return inputs.folder_of(root, self.folder, self.write, files, events, self.last)


#: Parts of Nexmark's columns that count bids by price.
BANDS = ("_low", "_middle", "_high")
#: A line an hour behind the others, of a key that is in no answer.
LATER = '{"key": "end", "v": 0, "at": "2024-05-01T01:00:00.000000Z"}'
#: The same of Nexmark, of nobody.
LATER_BID = (
    '{"auction": 0, "bidder": 0, "price": 0, "channel": "", "url": "", "at": "2015-07-15T01:00:00.000000Z", '
    '"extra": ""}'
)
#: The same where persons, auctions and bids are in one stream.
LATER_EVENT = LATER_BID.replace("{", '{"kind": "bid", ')
#: How many bids there are in all and by price, and how many distinct bidders and auctions.
COUNTED = {f"{what}{band}": "BIGINT" for what in ("bids", "bidders", "auctions") for band in ("", *BANDS)}
#: Nexmark's queries that keep nothing from one bid to the next.
ROWS = ("q0", "q1", "q2", "q13", "q14", "q21", "q22")
WINDOWED = {"key": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT", "total": "BIGINT"}
ASKED = {"query": "BIGINT", "start": "TIMESTAMP", "n": "BIGINT", "last": "VARCHAR"}
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
            "yahoo", inputs.ads, {"campaign": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT"}, files=24,
        ),
        Workload(
            "yahoo-kafka", "Yahoo, from Kafka to Kafka",
            "The Yahoo benchmark as published: JSON from four partitions of a topic, only views, joined with a table "
            "of 1,000 ads, counted by campaign in windows of ten seconds, into another topic. A job ends when the "
            "last count of its answer is there.",
            "yahoo_kafka", inputs.ads, {"campaign": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT"}, input="yahoo",
            files=12, on_kafka=True, query="yahoo",
        ),
        *(
            Workload(
                f"queries-{count}", f"{count:,} {'queries' if count > 1 else 'query'}",
                f"{count:,} {'queries' if count > 1 else 'query'} on one stream, each defined by itself: it counts a "
                "thousandth of the events in windows of ten seconds.",
                "queries", inputs.keyed(1000, skewed=True), ASKED, input="keys-1k", files=8, queries=count,
            )
            for count in (1, 10, 100, 1000)
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
        # Not here: q6 does not run in Flink SQL, q10 only writes files, and q12 depends on when its input is read.
        *(
            Workload(
                f"nexmark-{query}", f"Nexmark {query}", text, f"nexmark/{query}", inputs.bids, columns, input="bids",
                files=8, has_state=query not in ROWS, last=LATER_BID, view=query,
                table=inputs.side_input if query == "q13" else None,
            )
            for query, text, columns in (
                (
                    "q0", "Bids as they are.",
                    {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "url": "VARCHAR", "at": "TIMESTAMP"},
                ),
                (
                    "q1", "Bids with their price in another currency.",
                    {"auction": "BIGINT", "bidder": "BIGINT", "price": "DOUBLE", "at": "TIMESTAMP"},
                ),
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
                (
                    "q13", "Bids with the text that a table of 10,000 rows has for their auction.",
                    {
                        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "at": "TIMESTAMP",
                        "value": "VARCHAR",
                    },
                ),
                (
                    "q14", "Bids in a band of prices, with the part of the day and how many letters c they have.",
                    {
                        "auction": "BIGINT", "bidder": "BIGINT", "price": "DOUBLE", "part": "VARCHAR",
                        "at": "TIMESTAMP", "c": "BIGINT",
                    },
                ),
                (
                    "q15", "Bids and distinct bidders and auctions of a day, in all and in three bands of prices.",
                    {"start": "TIMESTAMP", **COUNTED},
                ),
                (
                    "q16", "The same by channel, with the last minute in which it was seen.",
                    {"channel": "VARCHAR", "start": "TIMESTAMP", "minute": "VARCHAR", **COUNTED},
                ),
                (
                    "q17",
                    "The bids for an auction on a day: how many, in three bands of prices, and their lowest, highest, "
                    "mean and total.",
                    {
                        "auction": "BIGINT", "start": "TIMESTAMP", "bids": "BIGINT",
                        **{f"bids{band}": "BIGINT" for band in BANDS},
                        "lowest": "BIGINT", "highest": "BIGINT", "mean": "DOUBLE", "total": "BIGINT",
                    },
                ),
                (
                    "q18",
                    "The last bid of somebody for an auction, by day; of several in one millisecond the highest.",
                    {
                        "start": "TIMESTAMP", "bidder": "BIGINT", "auction": "BIGINT", "price": "BIGINT",
                        "channel": "VARCHAR", "url": "VARCHAR", "at": "TIMESTAMP",
                    },
                ),
                (
                    "q19", "The ten highest bids for an auction, by day; of equal ones those of the later bidders.",
                    {"start": "TIMESTAMP", "auction": "BIGINT", "price": "BIGINT", "bidder": "BIGINT"},
                ),
                (
                    "q21", "The number of a bid's channel, from its name or from its address.",
                    {
                        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "VARCHAR",
                        "channel_id": "VARCHAR",
                    },
                ),
                (
                    "q22", "The three directories of a bid's address.",
                    {
                        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "VARCHAR",
                        "dir1": "VARCHAR", "dir2": "VARCHAR", "dir3": "VARCHAR",
                    },
                ),
            )
        ),
        *(
            Workload(
                f"nexmark-{query}", f"Nexmark {query}", text, f"nexmark/{query}", inputs.persons_auctions_bids, columns,
                input="nexmark", files=4 if query == "q23" else 8, last=LATER_EVENT, view=query,
            )
            for query, text, columns in (
                (
                    "q3",
                    "Who sells in category 10 and lives in some states: auctions and persons that are a minute apart "
                    "at most.",
                    {"name": "VARCHAR", "city": "VARCHAR", "state": "VARCHAR", "auction": "BIGINT"},
                ),
                (
                    "q4", "What auctions fetch on average, by category and day: the mean of the winning bids of q9.",
                    {"start": "TIMESTAMP", "category": "BIGINT", "auctions": "BIGINT", "mean": "DOUBLE"},
                ),
                (
                    "q8", "Who is new and sells in the same ten seconds.",
                    {"start": "TIMESTAMP", "person": "BIGINT", "name": "VARCHAR"},
                ),
                (
                    "q9",
                    "The bid that wins an auction, by day: the highest while it is open, of equal ones the earliest.",
                    {
                        "start": "TIMESTAMP", "auction": "BIGINT", "category": "BIGINT", "price": "BIGINT",
                        "bidder": "BIGINT", "at": "TIMESTAMP",
                    },
                ),
                (
                    "q20", "Bids with their auction, in category 10; they are a minute apart at most.",
                    {
                        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "at": "TIMESTAMP",
                        "seller": "BIGINT", "item": "VARCHAR",
                    },
                ),
                (
                    "q23",
                    "Bids with their bidder and the auctions that the same person sells; they are a minute apart at "
                    "most.",
                    {
                        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "name": "VARCHAR",
                        "city": "VARCHAR", "sold": "BIGINT",
                    },
                ),
            )
        ),
    )
}  # fmt: skip
QUICK = ("keys-100", "keys-100k", "yahoo")
