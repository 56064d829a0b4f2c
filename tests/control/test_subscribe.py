"""SUBSCRIBE against the truth: what it shows, in which order, and when it refuses to go on."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.control import Panes, SubscriptionError, ask
from penstock.errors import PenstockError
from penstock.query.values import values
from penstock.sql import parse_one
from penstock.store import Reader
from tests.control.support import BY_PAGE, Live, put, started

TYPES = """CREATE CONTINUOUS VIEW types AS
  SELECT page, window_start, window_end, count(*) AS n, avg(ms) AS mean, CAST(sum(ms) AS DECIMAL(20, 2)) AS exact,
         max(at) AS newest, collect_set(user) AS users, max(CAST(at AS DATE)) AS day
  FROM TUMBLE(visits, at, INTERVAL 1 MINUTE) GROUP BY page, window_start, window_end
  EMIT EARLY EACH RETRACTING"""


def subscribed(live: Live, text: str) -> Panes:
    return Panes(Reader(live.directory), parse_one(text))  # type: ignore[arg-type]


def all_of(panes: Panes) -> list[dict[str, Any]]:
    """The snapshot first, if it was asked for, and all that came since."""
    found = next(panes.follow())
    more = True
    while more:
        rows, more = panes.take()
        found = found + rows
    return found


def test_snapshot_and_panes_after_it_add_up_to_the_table_whenever_one_begins(tmp_path: Path, spark) -> None:
    """Each pane of the view is the whole value of its key, so rows put in each other's place give the table."""
    live = started(tmp_path, spark, BY_PAGE)
    got: list[list[dict[str, Any]]] = []
    done = threading.Event()

    def follow() -> None:
        panes, rows = subscribed(live, "SUBSCRIBE TO by_page WITH (SNAPSHOT)"), []
        for some in panes.follow(0.01):
            rows += some
            if done.is_set() and not some:
                break
        got.append(rows)

    threads = []
    try:
        for number in range(12):
            put(tmp_path, f"{number:02}", *((f"/{n % 4}", "u", n, number) for n in range(number * 5)))
            if number % 3 == 0:
                threads.append(threading.Thread(target=follow))
                threads[-1].start()
            live.catch_up()
        done.set()
        for thread in threads:
            thread.join()
        expected = {page: (n, ms) for page, n, ms in live.store.query("SELECT page, n, ms FROM by_page").iter_rows()}
        assert len(got) == 4
        for rows in got:
            last: dict[str, tuple[int, int]] = {}
            for row in rows:
                assert row["n"] > last.get(row["page"], (0, 0))[0], "no pane twice, and none that the snapshot has"
                last[row["page"]] = (row["n"], row["ms"])
            assert last == expected
            commits = [row["commit"] for row in rows]
            assert commits == sorted(commits)
    finally:
        done.set()
        live.stop()


@pytest.mark.parametrize("state", ["store", "sharded"])
def test_rows_have_the_values_that_select_shows_and_retractions_take_them_back(
    tmp_path: Path, spark, state: str
) -> None:
    live = started(tmp_path, spark, TYPES.replace(" AS\n", f" WITH (state = '{state}') AS\n", 1))
    try:
        live.catch_up()
        panes = subscribed(live, "SUBSCRIBE TO types")
        put(tmp_path, "a", ("/a", "u", 1, 5))
        live.catch_up()
        put(tmp_path, "b", ("/a", "w", 2, 6))
        live.catch_up()
        rows = all_of(panes)
        assert [(row["diff"], row["kind"], row["timing"], row["n"]) for row in rows] == [
            (1, "insert", "early", 1), (-1, "retract", "early", 1), (1, "insert", "early", 2),
        ]  # fmt: skip
        answer = ask(live.store, "SELECT * FROM types")
        names = answer.schema.names
        assert [rows[-1][name] for name in names] == [values(answer.table[name])[0] for name in names]
        assert [(row["commit"], row["epoch"]) for row in rows] == [(1, 0), (2, 1), (2, 1)]
        snapshot = all_of(subscribed(live, "SUBSCRIBE TO types WITH (SNAPSHOT)"))
        assert [(row["timing"], row["n"], row["users"]) for row in snapshot] == [("snapshot", 2, rows[-1]["users"])]
        assert [snapshot[0][name] for name in names] == [rows[-1][name] for name in names]
    finally:
        live.stop()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n > 1", [2, 2, 3]),
        ("diff = -1 OR n = 3", [1, 2, 3]),
        ("timing = 'early' AND page LIKE '/%' AND window_start < TIMESTAMP '2024-05-01 12:01:00'", [1, 1, 2, 2, 3]),
        ("newest >= TIMESTAMP '2024-05-01 12:00:07' AND exact = 6.00 AND mean = 2.0", [3]),
        ("day = DATE '2024-05-01' AND array_contains(users, 'x')", []),
        ("size(slice(users, 1, 1)) > 0", None),
        ("epoch = 1 AND commit = 2", [1, 2]),
        ("page = 'x'' OR 1 = 1 --'", []),
        ("1 / (n - 1) > 0", [2, 2, 3]),
    ],
)
def test_conditions_are_those_of_the_model(filled: Live, condition: str, expected: list[int] | None) -> None:
    text = f"SUBSCRIBE TO types WHERE {condition}"
    if expected is None:
        with pytest.raises(PenstockError, match="outside the kernel"):
            subscribed(filled, text)
        return
    panes = subscribed(filled, text)
    panes._position = 0  # as if it had begun before the first pane
    assert [row["n"] for row in all_of(panes)] == expected


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark):
    root = tmp_path_factory.mktemp("filled")
    live = started(root, spark, TYPES)
    for number in range(3):
        put(root, str(number), ("/a", f"u{number}", number + 1, 5 + number))
        live.catch_up()
    live.stop()
    return live


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SUBSCRIBE TO typs", "did you mean 'types'"),
        ("SUBSCRIBE TO types WHERE nn > 1", "did you mean 'n'"),
        ("SUBSCRIBE TO types WHERE n", "must be boolean"),
        ('SUBSCRIBE TO `types"; DROP TABLE __panes; --`', "unknown view"),
    ],
)
def test_a_wrong_subscription_is_refused(filled: Live, text: str, said: str) -> None:
    with pytest.raises(PenstockError) as refused:
        subscribed(filled, text)
    assert said in str(refused.value)


def test_progress_is_told_where_nothing_fires_and_a_restart_of_the_app_does_not_matter(tmp_path: Path, spark) -> None:
    final = TYPES.replace("EARLY EACH RETRACTING", "FINAL")
    live = started(tmp_path, spark, final)
    put(tmp_path, "a", ("/a", "u", 1, 5))
    live.catch_up()
    panes = subscribed(live, "SUBSCRIBE TO types WITH (PROGRESS)")
    put(tmp_path, "b", ("/a", "u", 1, 30))
    live.catch_up()
    (row,) = all_of(panes)
    assert (row["kind"], row["commit"], row["watermark"], row["n"]) == (
        "progress",
        2,
        datetime(2024, 5, 1, 12, 0, 20, tzinfo=UTC),
        None,
    )
    assert all_of(panes) == []
    live.stop()
    live = started(tmp_path, spark, final)
    try:
        put(tmp_path, "c", ("/b", "u", 1, 90))
        live.catch_up()
        assert [(row["page"], row["n"], row["watermark"]) for row in all_of(panes)] == [("/a", 2, None)]
    finally:
        live.stop()


def test_one_that_fell_behind_or_whose_view_was_dropped_is_told(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE)
    try:
        late, anew = (subscribed(live, "SUBSCRIBE TO by_page") for _ in range(2))
        for number in range(3):
            put(tmp_path, str(number), ("/a", "u", 1, number))
            live.catch_up()
        live.store.trim_outbox(2)
        with pytest.raises(SubscriptionError, match="the panes 1 to 2 of all views are gone") as gap:
            late.take()
        assert gap.value.hint == "subscribe again WITH (SNAPSHOT)"
        now = subscribed(live, "SUBSCRIBE TO by_page WITH (SNAPSHOT)")
        assert [row["n"] for row in all_of(now)] == [3]
        live.execute("DROP VIEW by_page")
        live.execute(BY_PAGE)
        for panes in (anew, now):
            with pytest.raises(SubscriptionError, match="'by_page' was dropped"):
                panes.take()
    finally:
        live.stop()
