"""Where the past of a log begins and ends, from Spark's own log of the files that it has read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.history.batch.log_past import FilesPast, From, KafkaPast, ReplayError, log_past
from penstock.history.batch.touched import around, is_incremental
from penstock.store.checkpoints import Place

FILES = ps.stream("visits", ps.files("in"), schema="k string")


def noted(folder: Path, name: str, *entries: tuple[str, int, int]) -> None:
    """An entry of Spark's source log: files with their epochs and times."""
    lines = [
        json.dumps({"path": f"file:///in/{path}", "timestamp": at, "batchId": epoch}) for path, epoch, at in entries
    ]
    (folder / "sources" / "0" / name).write_text("\n".join(["v1", *lines]) + "\n")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Place:
    (tmp_path / "sources" / "0").mkdir(parents=True)
    noted(tmp_path, "1.compact", ("b%20c.json", 1, 2000), ("a.json", 0, 1000))
    noted(tmp_path, "1", ("b%20c.json", 1, 2000))
    noted(tmp_path, "2", ("e.json", 2, 3001), ("d.json", 2, 3000))
    noted(tmp_path, "3", ("f.json", 3, 4000))
    noted(tmp_path, ".3.crc", ("g.json", 3, 4000))
    return Place(str(tmp_path))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", ["/in/a.json", "/in/b c.json", "/in/d.json", "/in/e.json"]),
        ("2", ["/in/d.json", "/in/e.json"]),
        ("1970-01-01T00:00:02.000001Z", ["/in/b c.json", "/in/d.json", "/in/e.json"]),
        ("1970-01-01T00:00:03Z", ["/in/d.json", "/in/e.json"]),
    ],
)
def test_the_files_of_a_directory_up_to_a_commit_come_in_the_order_of_their_epochs(checkpoint, start, expected):
    past = log_past(FILES, checkpoint, '{"logOffset":2}', From.parse(start))
    assert isinstance(past, FilesPast)
    assert list(past.files) == expected


def test_nothing_is_read_of_a_stream_without_commits(checkpoint):
    assert log_past(FILES, checkpoint, None, From()) == FilesPast(FILES, ())


def test_an_offset_of_kafka_is_taken_for_all_partitions_and_never_lies_behind_the_end():
    stream = ps.stream("visits", ps.kafka("t", servers="x:1"), schema="k string")
    past = log_past(stream, Place("x"), '{"t":{"0":5,"1":2}}', From.parse("3"))
    assert past == KafkaPast(stream, '{"t": {"0": 3, "1": 2}}', '{"t":{"0":5,"1":2}}')
    with pytest.raises(ReplayError, match="has no commit yet"):
        log_past(stream, Place("x"), None, From())


def test_what_cannot_be_read_again_is_refused_with_what_to_do():
    stream = ps.stream("visits", ps.socket("localhost", 1), schema="line string")
    with pytest.raises(ReplayError, match="cannot be replayed") as refused:
        log_past(stream, Place("x"), None, From())
    assert "keep='all'" in (refused.value.hint or "")
    with pytest.raises(DefinitionError, match="not a position to start from"):
        From.parse("yesterday")


def test_only_views_whose_windows_are_slices_of_time_are_computed_in_part():
    visits = ps.stream(
        "visits", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 second")
    )  # fmt: skip
    fixed = visits.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count())
    assert is_incremental(fixed)
    assert around(fixed, [(20, 30), (50, 60)]) == [(20 - 10_000_000, 60 + 10_000_000)]
    assert not is_incremental(visits.group_by("k").window(ps.session("1 second")).agg(n=ps.count()))
    moved = visits.with_time("at + INTERVAL 1 DAY").group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count())
    assert not is_incremental(moved)
