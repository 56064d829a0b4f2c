"""How Spark's own processes learn from the driver which commits are new."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.runtime.derived.commit_feed import CommitFeed
from penstock.runtime.derived.commits_source import Commits, Part, options
from penstock.runtime.queries.retry import passes
from penstock.runtime.rpc import RpcServer
from penstock.store.connection import Busy


class Made:
    """Commits that a test makes; each brings ten events."""

    def __init__(self) -> None:
        self.commits, self.limit, self.closed = 0, 100, False
        self.asked = threading.Event()

    def latest(self, start: dict[str, int]) -> dict[str, int]:
        found = self.up_to(start, min(self.commits, start["commit"] + self.limit))
        self.asked.set()
        return found

    def up_to(self, start: dict[str, int], commit: int) -> dict[str, int]:
        return {"commit": commit, "events": start["events"] + 10 * (commit - start["commit"])}

    @property
    def newest(self) -> dict[str, int]:
        return {"commit": self.commits, "events": 10 * self.commits}

    def parts(self, start: dict[str, int], end: dict[str, int]) -> list[tuple[str, bytes]]:
        if start["commit"] < 1:
            raise PenstockError("events are gone", hint="restore a savepoint")
        return [("files", str(number).encode()) for number in range(start["commit"] + 1, end["commit"] + 1)]

    def close(self) -> None:
        self.closed = True


class Query:
    """The sources of one query, as Spark's processes have them."""

    def __init__(self, sources: int, moment: float = 0.05) -> None:
        self.feed, self.made = CommitFeed(moment), [Made() for _ in range(sources)]
        self.readers: list[Any] = []
        for number, made in enumerate(self.made):
            told = options(*self.feed.open("both", number, made))  # type: ignore[arg-type]
            self.readers.append(Commits(told).streamReader(None))

    def commit(self, many: int = 1) -> None:
        for made in self.made:
            made.commits += many
        self.feed.committed()

    def latest(self, source: int, commit: int) -> dict[str, int]:
        found: dict[str, int] = self.readers[source].latestOffset({"commit": commit, "events": 10 * commit}, None)
        return found


@pytest.fixture
def query() -> Iterator[Query]:
    made = Query(3)
    yield made
    made.feed.close()


def test_what_is_new_and_what_it_brought(query: Query) -> None:
    query.commit(3)
    first = query.readers[0]
    assert query.latest(0, 0) == {"commit": 3, "events": 30}
    assert first.reportLatestOffset() == {"commit": 3, "events": 30}
    parts = first.partitions({"commit": 1, "events": 10}, {"commit": 3, "events": 30})
    assert parts == [Part("files", b"2"), Part("files", b"3")]


def test_all_sources_of_a_query_read_up_to_the_same_commit(query: Query) -> None:
    assert query.latest(1, 0)["commit"] == 0  # nobody has said yet
    query.commit(2)
    assert query.latest(0, 0)["commit"] == 2
    query.commit(5)  # between the questions of one epoch
    assert [query.latest(source, 0)["commit"] for source in (1, 2)] == [2, 2]
    assert query.latest(0, 2)["commit"] == 7
    assert query.latest(1, 2) == {"commit": 7, "events": 70}
    assert query.latest(2, 1) == {"commit": 7, "events": 70}  # one that was behind catches up


def test_another_limit_holds_from_the_next_epoch_on(query: Query) -> None:
    query.commit(9)
    query.feed.adjust("both", 4)
    assert query.latest(0, 0)["commit"] == 4
    query.feed.adjust("both", 2)
    assert [query.latest(source, 0)["commit"] for source in (1, 2)] == [4, 4]  # the epoch is cut already
    assert query.latest(0, 4)["commit"] == 6
    query.feed.adjust("other", 2)
    assert query.latest(0, 6)["commit"] == 8, "nobody reads the other"
    query.feed.close()
    query.feed.adjust("both", 2)


def test_with_nothing_new_the_answer_waits_for_a_commit() -> None:
    query = Query(1, moment=600.0)
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(query.latest(0, 0)["commit"]))
    waiting.start()
    query.made[0].asked.wait()
    query.commit()
    waiting.join()
    assert answers == [1]
    query.feed.close()


def test_with_nothing_new_the_answer_comes_after_a_moment(query: Query) -> None:
    query.commit()
    assert query.latest(0, 1) == {"commit": 1, "events": 10}


def test_what_the_driver_refuses_is_told(query: Query) -> None:
    query.commit()
    with pytest.raises(PenstockError, match="events are gone\n  hint: restore a savepoint"):
        query.readers[0].partitions({"commit": 0, "events": 0}, {"commit": 1, "events": 10})
    assert query.latest(0, 0)["commit"] == 1  # the line holds


def test_a_store_that_is_away_is_a_fault_that_passes(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise Busy("the database is locked")

    monkeypatch.setattr(query.made[0], "latest", away)
    with pytest.raises(PenstockError, match="the database is locked") as raised:
        query.latest(0, 0)
    assert passes(RuntimeError(f"what Spark makes of it: {raised.value}"))
    monkeypatch.undo()
    query.commit()
    assert query.latest(0, 0)["commit"] == 1


def test_when_the_run_has_ended(query: Query) -> None:
    query.commit()
    assert query.latest(0, 0)["commit"] == 1
    query.feed.close()
    assert all(made.closed for made in query.made)
    assert query.latest(0, 0)["commit"] == 0  # who waits for an answer gets one


def test_a_client_that_asks_after_the_end_gets_one_more_answer() -> None:
    def answer(question: bytes) -> bytes:
        server.close()
        return question

    server = RpcServer(answer, "test")
    with server.address.asking() as ask:
        assert [ask(b"before the end"), ask(b"after it")] == [b"before the end", b"after it"]


def test_a_reader_that_goes_to_tasks_takes_no_address_along(query: Query) -> None:
    query.commit()
    query.latest(0, 0)
    word = query.feed._server.address.secret  # type: ignore[union-attr]
    assert word not in pickle.dumps(query.readers[0])


def test_what_spark_loads_in_passing_loads_little() -> None:
    heavy = {"adbc_driver_manager", "pandas", "polars", "pyarrow", "sqlglot"}
    code = f"import sys, penstock.runtime.derived.commits_source; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
