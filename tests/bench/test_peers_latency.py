"""What the comparison measures between two topics, without a broker: what was sent, what came, and how late."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bench.peers import latency, results, sender, topics
from bench.peers.answers import WrongAnswer
from bench.peers.latency import Latency, Load

ADS = "".join(f"ad-{number},campaign-{number // 10}\n" for number in range(30))


class Sent:
    """A producer that keeps what it gets."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> None:
        self.values += [message["value"] for message in messages]

    def poll(self, seconds: float) -> None: ...

    def flush(self) -> None: ...


class Messages:
    """An answer whose messages are there already, a few at a time."""

    def __init__(self, *batches: dict[tuple[str, int], int]) -> None:
        self.rows: dict[tuple[str, int], int] = {}
        self._batches = list(batches)

    def take(self) -> list[tuple[str, int]]:
        batch = self._batches.pop(0) if self._batches else {}
        self.rows |= batch
        return list(batch)


def test_the_sender_counts_what_it_sends(tmp_path: Path) -> None:
    (tmp_path / "ads.csv").write_text(ADS)
    producer = Sent()
    stages = [(100.0, 10.0), (300.0, 20.0)]
    report = sender.send(producer, "events", tmp_path / "ads.csv", stages, 1_000_003.0)  # type: ignore[arg-type]
    assert report["begin"] == 1_000_010_000
    assert len(producer.values) == 1000 + 6000
    events = pl.read_ndjson(b"\n".join(producer.values))
    ads = pl.read_csv(ADS.encode(), has_header=False, new_columns=["ad_id", "campaign"])
    views = events.filter(pl.col("event_type") == "view").join(ads, on="ad_id")
    counted = views.group_by("campaign", start=pl.col("event_time").cast(pl.Int64) // 10_000 * 10_000).len()
    right = latency.rows_of(report["counts"])  # type: ignore[arg-type]
    assert right == {(campaign, start): n for campaign, start, n in counted.rows()}
    assert len(report["late"]) == 2  # type: ignore[arg-type]


def test_the_latency_of_a_window_is_that_of_its_right_count() -> None:
    right = {("a", 10_000): 3, ("b", 10_000): 2, ("c", 10_000): 1}
    taken = latency.delays(right, {("a", 10_000): 3, ("b", 10_000): 1}, {("a", 10_000): 20.5, ("b", 10_000): 20.1})
    assert taken == {("a", 10_000): 0.5, ("b", 10_000): math.inf, ("c", 10_000): math.inf}


def test_a_rate_is_held_if_nearly_all_counts_are_there_in_time() -> None:
    good = latency.load_of(1000, [0.5] * 99 + [30.0] * 1, 0.0)
    assert (good.median, good.longest, good.counts) == (0.5, 30.0, 100)
    assert latency.load_of(1000, [0.5] * 200 + [30.0], 0.0).is_held
    assert not latency.load_of(1000, [0.5] * 90 + [30.0] * 10, 0.0).is_held


def measured(*highs: float) -> Latency:
    steps = [Load(1000.0 * (number + 1), 100, high / 2, high, high, 0.01) for number, high in enumerate(highs)]
    machine, versions = {"cores": "2 cores"}, {"other": "1.0"}
    return Latency("other", "Other", "2026-01-01", "make peers", machine, versions, 9000.0, steps)


def test_the_rate_that_is_held_is_the_last_one_before_one_that_is_not() -> None:
    assert measured(0.5, 1.0, 30.0, 0.5).held == 2000.0
    assert measured(30.0).held == 0.0


def test_the_table_of_latencies_says_what_is_not_held(tmp_path: Path) -> None:
    one = measured(0.5, 1.0)
    one.loads = [Load(500.0, 100, 0.2, 0.4, 0.4, 0.02), Load(1000.0, 100, 0.3, 30.0, 30.0, 0.02)]
    results.save(one, one.contender, tmp_path)
    assert latency.read(tmp_path) == [one]
    row = next(line for line in latency.section([one]) if line.startswith("| Other"))
    assert [cell.strip() for cell in row.split("|")[2:5]] == ["2 k/s", "0.20 s, 0.40 s", "not held"]
    one.problem = "the job ended with 1"
    assert "the job ended with 1" in "\n".join(latency.section([one]))


def test_an_answer_in_a_topic_is_complete_when_each_row_has_its_last_count() -> None:
    right = pl.DataFrame({"campaign": ["a", "b"], "start": [10_000_000] * 2, "n": [2, 1]}).with_columns(
        pl.col("start").cast(pl.Datetime("us"))
    )
    later = {("a", 7_200_000): 1}
    awaited = topics.Awaited(Messages({("a", 10_000): 1}, {("b", 10_000): 1, **later}, {("a", 10_000): 2}), right)  # type: ignore[arg-type]
    assert not awaited.is_complete()
    assert awaited.lack == "2 of 2 rows are missing: it has 1 for ('a', 10000, 2)"
    assert not awaited.is_complete()
    assert awaited.is_complete()
    wrong = topics.Awaited(Messages({("a", 10_000): 3}), right)  # type: ignore[arg-type]
    with pytest.raises(WrongAnswer, match="it has \\('a', 10000, 3\\) where DuckDB has 2"):
        wrong.is_complete()


@pytest.mark.parametrize(
    ("message", "row"),
    [
        ({"campaign": "a", "start": 10_000, "n": 2}, ("a", 10_000, 2)),
        ({"campaign": "a", "start": "1970-01-01 00:00:10", "n": 2}, ("a", 10_000, 2)),
        ({"campaign": "a", "window_start": "1970-01-01T00:00:10Z", "n": 2}, ("a", 10_000, 2)),
        ({"campaign": "a", "start": 10_000, "n": 1, "diff": -1}, None),
    ],
)
def test_messages_of_all_contenders_are_read(message: dict[str, Any], row: tuple[str, int, int] | None) -> None:
    assert topics.read(message) == row


def test_every_stage_has_windows_of_its_own_that_count() -> None:
    begin = latency.BEFORE * 1000
    for seconds in [latency.STEP] * len(latency.STEPS) + [latency.LOAD] * len(latency.SHARES):
        windows = latency.windows_of(begin, seconds)
        assert windows
        assert all(start % (latency.WINDOW * 1000) == 0 for start in windows)
        begin += seconds * 1000
        assert windows[-1] + latency.WINDOW * 1000 <= begin


class Topic:
    """A consumer whose messages are there already."""

    def __init__(self, *counts: int) -> None:
        self._counts = counts

    def assign(self, partitions: object) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Topic]:
        return [Topic(one) for one in self._counts]

    def error(self) -> None: ...

    def value(self) -> bytes:
        return json.dumps({"campaign": "a", "start": "2024-05-01T12:00:00Z", "n": self._counts[0]}).encode()


def test_a_count_that_comes_again_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "Consumer", lambda settings: Topic(2, 3, 3))
    answer = topics.Answer("nowhere", "answer")
    assert [n for _, n in answer.take()] == [1_714_564_800_000] * 2
    assert list(answer.rows.values()) == [3]
    monkeypatch.setattr(answer, "_consumer", Topic(3))
    assert answer.take() == []
