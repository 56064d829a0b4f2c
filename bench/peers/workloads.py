"""What is compared: the input of each workload, the job that runs on it, and the columns of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.peers import inputs
from bench.peers.inputs import Writer


@dataclass(frozen=True)
class Workload:
    """A job on an input. Every run reads `files` of the input, or only the first one; the difference is steady state.

    `columns` are those of the answer, with DuckDB's types: `bench/peers/duckdb` has the query that computes it.
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

    @property
    def folder(self) -> str:
        """The name of the input, which workloads may share."""
        return self.input or self.name


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
            "keys-100k", "Windows, 100,000 keys", "The same by 100,000 skewed keys.",
            "keys", inputs.keyed(100_000, skewed=True), WINDOWED,
        ),
        Workload(
            "yahoo", "Yahoo, from files",
            "The Yahoo benchmark from JSON lines: only views, joined with a table of 1,000 ads, counted by campaign in "
            "windows of ten seconds.",
            "yahoo", inputs.ads, {"campaign": "VARCHAR", "start": "TIMESTAMP", "n": "BIGINT"}, files=12,
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
    )
}  # fmt: skip
QUICK = ("keys-100", "keys-100k", "yahoo")
