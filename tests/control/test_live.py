"""Statements to a running app: what comes, goes, rests and is refused, with files flowing, on Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.control import Client, NoApp, RemoteError
from penstock.errors import PenstockError
from tests.control.support import BY_PAGE, BY_USER, counted, put, started, table
from tests.outbox import panes


def test_views_come_and_go_while_files_arrive_and_no_event_is_lost_or_doubled(tmp_path: Path, spark) -> None:
    visits = [(f"/{n % 3}", f"u{n % 5}", n, n) for n in range(400)]
    live = started(tmp_path, spark, BY_PAGE)
    stopped = threading.Event()
    written: list[int] = []

    def write() -> None:
        for number in range(0, len(visits), 10):
            put(tmp_path, f"{number:04}", *visits[number : number + 10])
            written.append(number + 10)
            if stopped.wait(0.1):
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        client = Client(tmp_path / "state")
        while not live.store.counters().get("visits.events"):
            live.wait(0.05)
        for name in ("one", "two", "three"):
            assert "begins with all of history" in client.ask(BY_USER.replace("by_user", name)).message
            live.catch_up()
        client.ask("DROP VIEW two")
        four = "SELECT count(*) AS n FROM visits WHERE ms % 2 = 0"
        reply = client.ask(f"CREATE CONTINUOUS VIEW four WITH (backfill = false) AS {four}")
        assert "from the next epoch on" in reply.message
        assert ("one", "active") in [row[:2] for row in client.ask("SHOW VIEWS").rows]
        writer.join()
        live.catch_up()
        assert table(live, "SELECT page, n FROM by_page") == counted(visits, 0)
        epochs = dict(live.store.query("SELECT name, since FROM __catalog").iter_rows())
        sizes = live.store.query("SELECT number, rows FROM __commits ORDER BY number").rows()
        for name in ("one", "three"):
            assert table(live, f"SELECT user, n FROM {name}") == counted(visits, 1)
        start = sum(rows or 0 for number, rows in sizes if number <= epochs["four"])
        even = [visit for visit in visits[start:] if visit[2] % 2 == 0]
        assert live.store.query("SELECT n FROM four").rows() == [(len(even),)]  # 0 where there are none
        assert "two" not in live.store.views()
    finally:
        stopped.set()
        writer.join()
        live.stop()
    with pytest.raises(NoApp, match="no app runs"):
        client.ask("SHOW VIEWS")
    assert not (tmp_path / "state" / "control.json").exists()


def test_a_view_rests_and_wakes_and_says_what_it_missed(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE, BY_USER)
    try:
        put(tmp_path, "a", ("/a", "u", 1, 0))
        live.catch_up()
        assert "misses what comes" in live.execute("DEACTIVATE VIEW by_user").message
        assert live.execute("DEACTIVATE VIEW by_user").message == "view 'by_user' rests already"
        put(tmp_path, "b", ("/a", "u", 1, 1))
        live.catch_up()
        assert ("by_user", "resting") in [row[:2] for row in live.execute("SHOW VIEWS").rows]
    finally:
        live.stop()
    live = started(tmp_path, spark, BY_PAGE, BY_USER)
    try:
        assert live.warnings == ["the view 'by_user' rests: ACTIVATE VIEW by_user"]
        put(tmp_path, "c", ("/a", "u", 1, 2))
        live.catch_up()
        assert "it has missed commits 2 to 3" in live.execute("ACTIVATE VIEW by_user").message
        put(tmp_path, "d", ("/a", "u", 1, 3))
        live.catch_up()
        assert table(live, "SELECT user, n FROM by_user") == {"u": 2}
        assert table(live, "SELECT page, n FROM by_page") == {"/a": 4}
    finally:
        live.stop()
    live = started(tmp_path, spark, BY_PAGE, BY_USER)
    live.stop()
    assert live.warnings == []


def test_an_empty_app_is_built_by_statements_and_is_there_again_after_a_restart(tmp_path: Path, spark) -> None:
    for folder in ("one", "two", "out"):
        (tmp_path / folder).mkdir()
    schema = "(page STRING, user STRING, ms INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS)"
    live = started(tmp_path, spark, empty=True)
    try:
        live.execute(f"CREATE STREAM visits {schema} FROM FILES '{tmp_path}/one'")
        live.execute(f"CREATE STREAM others {schema} FROM FILES '{tmp_path}/two'")
        live.execute("CREATE STREAM slow AS SELECT page, ms FROM visits UNION ALL SELECT page, ms FROM others")
        live.execute("CREATE CONTINUOUS VIEW pages AS SELECT page, sum(ms) AS ms FROM slow GROUP BY page")
        live.execute(f"CREATE SINK panes FROM pages INTO FILES '{tmp_path}/out'")
        live.execute(f"CREATE SINK rows FROM slow INTO FILES '{tmp_path}/rows'")
        put(tmp_path, "a", ("/a", "u", 1, 0), folder="one")
        put(tmp_path, "b", ("/a", "u", 2, 0), folder="two")
        live.catch_up()
        assert table(live, "SELECT page, ms FROM pages") == {"/a": 3}
        with pytest.raises(PenstockError, match="'visits' is read by slow"):
            live.execute("DROP STREAM visits")
    finally:
        live.stop()
    assert sum(len(file.read_text().splitlines()) for file in (tmp_path / "rows").glob("*.jsonl")) == 2
    put(tmp_path, "c", ("/a", "u", 4, 5), folder="two")
    live = started(tmp_path, spark, empty=True)
    try:
        live.catch_up()
        assert table(live, "SELECT page, ms FROM pages") == {"/a": 7}
        assert [row[0] for row in live.execute("SHOW STREAMS").rows] == ["visits", "others", "slow"]
        dropped = live.execute("DROP VIEW pages").message
        assert dropped == "view 'pages' dropped, and with it its sinks panes"
        for statement in ("DROP SINK rows", "DROP STREAM slow", "DROP STREAM visits"):
            live.execute(statement)
        assert not (tmp_path / "state" / "checkpoints" / "visits").exists()
        # A stream of the same name begins anew.
        live.execute(f"CREATE STREAM visits {schema} FROM FILES '{tmp_path}/one'")
        live.execute("CREATE CONTINUOUS VIEW pages AS SELECT page, sum(ms) AS ms FROM visits GROUP BY page")
        put(tmp_path, "d", ("/b", "u", 8, 9), folder="one")
        live.catch_up()
        assert table(live, "SELECT page, ms FROM pages")["/b"] == 8
    finally:
        live.stop()
    live = started(tmp_path, spark, empty=True)
    assert live.warnings == []
    assert {**live.app.streams}.keys() == {"others", "visits"}
    live.stop()


def test_a_view_fires_otherwise_and_goes_on_with_its_state_or_is_computed_anew(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE)
    try:
        put(tmp_path, "a", ("/a", "u", 1, 0))
        live.catch_up()
        replaced = BY_PAGE.replace("CREATE", "CREATE OR REPLACE")
        assert live.execute(replaced).message == "view 'by_page' is defined so already"
        message = live.execute(replaced + " EMIT RETRACTING").message
        assert message.startswith("view 'by_page' goes on with its state. accumulation: from the next pane on")
        assert "brings it back at the next start" in message
        put(tmp_path, "b", ("/a", "u", 2, 1))
        live.catch_up()
        put(tmp_path, "c", ("/a", "u", 3, 2))
        live.catch_up()
        assert table(live, "SELECT page, n FROM by_page") == {"/a": 3}
        assert "retract" in panes(live.store)["kind"].to_list()
        other = replaced.replace("page, count", "user AS page, count").replace("BY page", "BY user")
        assert "another definition from commit 4 on, computed from all of history" in live.execute(other).message
        assert table(live, "SELECT page, ms FROM by_page") == {"u": 6}
        put(tmp_path, "d", ("/a", "u", 4, 3))
        live.catch_up()
        assert table(live, "SELECT page, ms FROM by_page") == {"u": 10}
        assert Client(tmp_path / "state").do("rollback", view="by_page").rows[0][:2] == ("by_page", "rollback")
        assert table(live, "SELECT page, ms FROM by_page") == {"/a": 10}
        assert "brings it back" in live.execute("DROP VIEW by_page").message
    finally:
        live.stop()


def test_a_process_that_died_while_it_dropped_a_stream_leaves_nothing_that_matters(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark)
    put(tmp_path, "a", ("/a", "u", 1, 0))
    live.catch_up()
    live.store.forget_stream("visits")
    live.run.store.close()  # here it dies: the checkpoint is still there
    live.stop()
    assert (tmp_path / "state" / "checkpoints" / "visits").exists()
    live = started(tmp_path, spark, BY_PAGE)
    try:
        live.catch_up()
        assert table(live, "SELECT page, n FROM by_page") == {"/a": 1}
    finally:
        live.stop()


@pytest.mark.parametrize("options", ["format = 'csv'", "format = 'csv', header = true", "format = 'parquet'"])
def test_rows_are_inserted_in_the_format_of_the_log(tmp_path: Path, spark, options: str) -> None:
    (tmp_path / "log").mkdir()
    live = started(tmp_path, spark, empty=True)
    try:
        columns = "a STRING, b DOUBLE, c TIMESTAMP, d DECIMAL(10, 2), e DATE, f BOOLEAN"
        live.execute(f"CREATE STREAM s ({columns}) FROM FILES '{tmp_path}/log' WITH ({options})")
        parts = ", ".join(f"max({name}) AS max_{name}" for name in "abcdef")
        live.execute(f"CREATE CONTINUOUS VIEW all_of AS SELECT {parts}, count(*) AS n FROM s")
        text = "x,''y" if "csv" in options else 'x,"\\\\y'
        row = f"'{text}', 1.5, TIMESTAMP '2024-05-01 12:00:00.25', 3.10, DATE '2024-05-01', true"
        assert live.execute(f"INSERT INTO s VALUES ({row}), (NULL, NULL, NULL, NULL, NULL, NULL)").message[:1] == "2"
        live.catch_up()
        (found,) = live.store.query("SELECT * FROM all_of").rows()
        assert found[2:-1] == (
            "x,'y" if "csv" in options else 'x,"\\y',
            1.5,
            "2024-05-01 12:00:00.250000",
            3.1,
            "2024-05-01",
            1,
            2,
        )
        if "csv" in options:
            with pytest.raises(PenstockError, match="cannot be written to a file of CSV"):
                live.execute("INSERT INTO s (a) VALUES ('x\"y')")
    finally:
        live.stop()


def test_inserted_rows_go_through_the_log(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE)
    try:
        reply = live.execute("INSERT INTO visits VALUES ('/a''; DROP', 'u', 7, TIMESTAMP '2024-05-01 12:00:00')")
        assert reply.message == "1 event written to the log of 'visits'"
        live.execute("INSERT INTO visits (page, ms, at) VALUES (NULL, 1, TIMESTAMP '2024-05-01 12:00:01')")
        live.catch_up()
        assert table(live, "SELECT page, ms FROM by_page") == {"/a'; DROP": 7, None: 1}
    finally:
        live.stop()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE CONTINUOUS VIEW by_page AS SELECT count(*) AS n FROM visits", "has a view 'by_page' already"),
        ("CREATE CONTINUOUS VIEW x AS SELECT count(*) AS n FROM visit", "did you mean 'visits'"),
        ("CREATE CONTINUOUS VIEW x AS SELECT sum(nothing_known(ms)) AS n FROM visits", "nothing_known"),
        ("CREATE STREAM s (a INT) FROM FILES '/nowhere/at/all'", "there is no directory"),
        ("CREATE STREAM s (a INT)", "has no log"),
        ("CREATE TABLE t FROM FILES 'x'", "the table 't' has no columns"),
        ("CREATE SINK s FROM by_page INTO FILES '/proc/nothing'", "/proc/nothing"),
        ("DROP VIEW nothing", "unknown view 'nothing'"),
        ("DROP STREAM visits", "is read by by_page"),
        ("ACTIVATE VIEW nothing", "unknown view"),
        ("SELECT 1", "answered from the store"),
        ("SUBSCRIBE TO by_page", "answered from the store"),
        ("RESTART", "is for scripts"),
        ("SHOW VIEWS; SHOW VIEWS", "one statement is meant"),
        ("IMPORT os", "sql:1:1"),
        ("CREATE CONTINUOUS VIEW `x\"; DROP TABLE __views; --` AS SELECT count(*) AS n FROM visits", "name"),
        ("CREATE CONTINUOUS VIEW __commits AS SELECT count(*) AS n FROM visits", "name"),
        ("DROP VIEW `by_page\"; DROP TABLE __views; --`", "unknown view"),
        ("DESCRIBE `by_page'`", "unknown stream or view"),
    ],
)  # fmt: skip
def test_a_statement_that_cannot_be_carried_out_changes_nothing(running, statement: str, said: str) -> None:
    live, client = running
    before = live.store.catalog(), live.store.views(), set(live.run.streams), live.app.sinks
    with pytest.raises(RemoteError) as refused:
        client.ask(statement)
    assert said in str(refused.value)
    assert before == (live.store.catalog(), live.store.views(), set(live.run.streams), live.app.sinks)
    live.wait(0)  # nothing has failed


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, spark):
    root = tmp_path_factory.mktemp("running")
    live = started(root, spark, BY_PAGE)
    client = Client(root / "state")
    yield live, client
    client.close()
    live.stop()


def test_what_a_shell_made_and_cannot_be_defined_again_does_not_stop_the_app(tmp_path: Path, spark) -> None:
    (tmp_path / "other").mkdir()
    live = started(tmp_path, spark, BY_PAGE)
    try:
        live.execute(BY_USER)
        live.execute("CREATE CONTINUOUS VIEW pages AS SELECT page, count(*) AS n FROM visits GROUP BY page")
    finally:
        live.stop()
    # The app's file now has the view `pages` itself.
    own = "CREATE CONTINUOUS VIEW pages AS SELECT page, count(*) AS n FROM visits GROUP BY page"
    live = started(tmp_path, spark, BY_PAGE, own)
    try:
        assert live.warnings == ["the view 'pages' of a shell is the app's own from now on"]
    finally:
        live.stop()
    live = started(tmp_path, spark, empty=True)
    try:
        *gone, lost = [warning.split(":")[0] for warning in live.warnings]
        assert gone == [
            f"{what} is no longer defined" for what in ("view 'pages'", "view 'by_page'", "stream 'visits'")
        ]
        assert lost == "the view 'by_user' of a shell is not there"
        assert "by_user" in live.store.views()
        live.execute("DROP VIEW by_user")
        assert "by_user" not in live.store.views()
    finally:
        live.stop()
    live = started(tmp_path, spark, empty=True)
    live.stop()
    assert {warning.split(":")[0] for warning in live.warnings} == {one for one in gone if one.startswith("view")}


def test_a_view_over_a_view_begins_with_what_it_shows_and_goes_on(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE + " EMIT EACH RETRACTING")
    try:
        client = Client(tmp_path / "state")
        put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "v", 1, 1), ("/b", "u", 1, 2))
        live.catch_up()
        above = "SELECT n, count(*) AS pages FROM by_page GROUP BY n EMIT EACH RETRACTING"
        reply = client.ask(f"CREATE CONTINUOUS VIEW by_count AS {above}")
        assert "begins with what 'by_page' show" in reply.message
        put(tmp_path, "b", ("/b", "v", 1, 3), ("/c", "u", 1, 4))
        live.catch_up()
        assert table(live, "SELECT n, pages FROM by_count") == {1: 1, 2: 2}
        with pytest.raises(RemoteError, match="'by_page' is read by by_count"):
            client.ask("DROP VIEW by_page")
    finally:
        live.stop()
    live = started(tmp_path, spark, BY_PAGE + " EMIT EACH RETRACTING")
    try:
        put(tmp_path, "c", ("/c", "v", 1, 5))
        live.catch_up()
        assert table(live, "SELECT n, pages FROM by_count") == {2: 3}
    finally:
        live.stop()
