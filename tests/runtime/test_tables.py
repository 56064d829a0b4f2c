"""Streams joined with tables, on Spark: the same as the reference, by the kernel and by shuffling; and in a run."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.kernel.expressions import dtype
from penstock.model.reference import Reference
from penstock.runtime.errors import RunError
from penstock.runtime.script import OnSpark
from penstock.runtime.tables.sort import TableSizes
from penstock.testing import TestStream, replay

CLICKS = ps.stream(
    "clicks", schema="user int, page string, at timestamp", event_time="at", watermark=ps.bounded("10 seconds")
)
SCHEMA = "id bigint, tier string, since timestamp, until timestamp"
ROWS = (
    (1, "free", "11:00:00", "12:00:15"),
    (1, "gold", "12:00:15", None),
    (2, "free", None, "12:00:40"),
    (None, "nobody", None, None),
)


def users(**said):
    return ps.table("users", schema=SCHEMA, key="id", **said)


def script(table):
    return (
        TestStream(CLICKS)
        .table(table, *ROWS)
        .add((1, "a", "12:00:10"), (1, "b", "12:00:15"), (2, "a", "12:00:39"), (None, "a", "12:00:20"))
        .add((3, "a", "12:00:21"), (2, "a", "12:00:41"))
        .restart()
        .table(table, (3, "new", "10:00:00", None))
        .add((3, "b", "12:00:50"), (1, "b", "12:00:51"), (2, "a", "12:02:41"))
        .add((3, "b", "11:59:50"))
        .watermark("13:00:00")
    )


def by_tier(table, how):
    flow = CLICKS.where("page <> 'z'").join(table, on="user = id", how=how)
    return flow.group_by("tier").window(ps.fixed("1 minute")).agg(n=ps.count(), ids=ps.collect_list("id"))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("broadcast", [True, False])
def test_a_table_as_of_the_events_time_is_joined_as_the_reference_does(spark, tmp_path, how, broadcast):
    table = users(valid_from="since", valid_to="until", broadcast=broadcast)
    view = by_tier(table, how)
    expected = replay(view, script(table), Reference(view))
    got = replay(view, script(table), OnSpark(view, spark, tmp_path))
    assert got.table == expected.table
    assert got.panes == expected.panes
    assert len(got.late) == len(expected.late) == 1


def test_a_table_by_key_is_joined_by_spark_as_by_the_kernel(spark, tmp_path):
    rows = ((1, "free", None, None), (3, "gold", None, None))
    found = []
    for broadcast in (True, False):
        table = users(broadcast=broadcast)
        flow = CLICKS.select("user", "at", twice="user * 2").join(table, on="twice - user = id", how="left")
        view = flow.group_by("user", "tier").agg(n=ps.count())
        told = (
            TestStream(CLICKS).table(table, *rows).add((1, "a", "12:00:10"), (2, "b", "12:00:15"), (3, "c", "12:00:16"))
        )
        expected = replay(view, told, Reference(view))
        found.append(replay(view, told, OnSpark(view, spark, tmp_path / str(broadcast))).table)
        assert found[-1] == expected.table
    assert found[0] == found[1]


def test_dataframe_code_gets_tables_as_side_inputs(spark, tmp_path):
    table = users()

    def premium(df, known):
        return df.join(known.where("tier = 'gold'").withColumnRenamed("id", "user"), "user", "left_semi")

    view = CLICKS.transform(premium, tables=[table]).group_by("user").agg(n=ps.count())
    told = TestStream(CLICKS).table(table, (1, "gold", None, None), (2, "free", None, None))
    told = told.add((1, "a", "12:00:10"), (2, "b", "12:00:15"), (1, "c", "12:00:16"))
    assert [(row["user"], row["n"]) for row in replay(view, told, OnSpark(view, spark, tmp_path)).table] == [(1, 2)]


# in a run


def put(folder: Path, name: str, *rows: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / name)


def click(user: int, second: int) -> dict:
    return {"user": user, "page": "p", "at": f"2024-05-01T12:00:{second:02}Z"}


def shop(tmp_path: Path, **said) -> App:
    app = App("shop")
    clicks = app.stream("clicks", ps.files(str(tmp_path / "clicks")), schema="user int, page string, at timestamp")
    table = app.table("users", ps.files(str(tmp_path / "users")), schema="id bigint, tier string", key="id", **said)
    app.view("by_tier", clicks.join(table, on="user = id", how="left").group_by("tier").agg(n=ps.count()))
    return app


def counted(run) -> dict:
    return dict(run.store.query("SELECT tier, n FROM by_tier").iter_rows())


def versions(run) -> list:
    sql = """SELECT (SELECT version FROM __versions v WHERE v.stream = e.stream AND v."table" = 'users'
             AND v."commit" <= e."commit" ORDER BY v."commit" DESC LIMIT 1) FROM __epochs e ORDER BY e."commit\""""
    return run.store.query(sql).to_series().to_list()


def wait_for(run, version: int) -> None:
    """Until the table was read again."""
    while run.tables._ready.get("users", run.tables._versions["users"]).version < version:
        run.wait(0.05)


@pytest.mark.parametrize(("broadcast", "rows", "here"), [(True, 9, 9), (False, 9, 9), (None, 0, 9), (None, 0, 0)])
def test_epochs_have_the_version_that_was_read_last_and_their_commits_say_which(spark, tmp_path, broadcast, rows, here):
    # More rows are looked up in files, and if there are more of them, Spark sorts those.
    sizes = TableSizes(broadcast_rows=rows, sorted_rows=here)
    put(tmp_path / "users", "a.json", {"id": 1, "tier": "free"})
    put(tmp_path / "clicks", "1.json", click(1, 1), click(2, 2))
    app = shop(tmp_path, reload="on change", broadcast=broadcast)
    run = app.start(tmp_path / "data", spark=spark, table_sizes=sizes)
    try:
        run.catch_up()
        assert counted(run) == {"free": 1, None: 1}
        put(tmp_path / "users", "b.json", {"id": 2, "tier": "gold"})
        wait_for(run, 2)
        put(tmp_path / "clicks", "2.json", click(1, 3), click(2, 4))
        run.catch_up()
        assert counted(run) == {"free": 2, "gold": 1, None: 1}
        put(tmp_path / "users", "c.json", {"id": 2, "tier": "other"})  # its key appears twice
        while "users" not in run.tables.failures:
            run.wait(0.05)
        put(tmp_path / "clicks", "3.json", click(2, 5))
        run.catch_up()
        assert counted(run) == {"free": 2, "gold": 2, None: 1}
        assert versions(run) == [1, 2, 2]
        assert run.tables.snapshots["users"].large is (rows == 0)
        (stale,) = run.store.query("SELECT * FROM __stale").rows()
        assert stale[:2] == ("clicks", "users")
        assert "two rows with id = 2" in stale[2]
    finally:
        run.stop()
    again = app.start(tmp_path / "data", spark=spark)  # the last version stays in use
    try:
        put(tmp_path / "clicks", "4.json", click(2, 6))
        again.catch_up()
        assert counted(again)["gold"] == 3
    finally:
        again.stop()
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty(), "a run that ends keeps no table"


@pytest.mark.parametrize("kind", ["bigint", "int"])
def test_parquet_files_become_a_version_as_they_are_if_their_types_fit(spark, tmp_path, kind):
    (tmp_path / "clicks").mkdir()
    (tmp_path / "users").mkdir()
    told = pl.DataFrame({"tier": ["free", "gold"], "id": pl.Series([1, 2], dtype=dtype(kind)), "more": [0, 0]})
    told.write_parquet(tmp_path / "users" / "some.parquet")
    app = App("shop")
    clicks = app.stream("clicks", ps.files(str(tmp_path / "clicks")), schema="user int, page string, at timestamp")
    source = ps.files(str(tmp_path / "users"), format="parquet")
    table = app.table("users", source, schema="id bigint, tier string", key="id")
    app.view("by_tier", clicks.join(table, on="user = id").group_by("tier").agg(n=ps.count()))
    put(tmp_path / "clicks", "1.json", click(1, 1), click(2, 2), click(2, 2))
    run = app.start(tmp_path / "data", spark=spark)
    try:
        run.catch_up()
        assert counted(run) == {"free": 1, "gold": 2}
        copied = (tmp_path / "data" / "tables" / "users" / "1" / "part-0.parquet").exists()
        assert copied is (kind == "bigint")
    finally:
        run.stop()


def test_a_table_that_was_never_read_stops_the_start(spark, tmp_path):
    (tmp_path / "clicks").mkdir()
    with pytest.raises(RunError, match="the table 'users' cannot be read"):
        shop(tmp_path).start(tmp_path / "data", spark=spark)


def test_tables_come_from_a_database_and_from_a_view(spark, tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "shop.db") as shop_db:
        shop_db.execute("CREATE TABLE users (id INTEGER, tier TEXT, since TEXT)")
        shop_db.execute(
            "INSERT INTO users VALUES (1, 'free', '2024-05-01 11:00:00'), (1, 'gold', '2024-05-01 12:00:05')"
        )
    app = App("shop")
    put(tmp_path / "clicks", "1.json", click(1, 1), click(1, 6), click(2, 7))
    clicks = app.stream(
        "clicks", ps.files(str(tmp_path / "clicks")), schema="user int, page string, at timestamp", event_time="at",
        watermark=ps.bounded("1 second"),
    )  # fmt: skip
    table = app.table(
        "users", ps.database(f"sqlite:///{tmp_path}/shop.db", "SELECT * FROM users"),
        schema="id bigint, tier string, since timestamp", key="id", valid_from="since",
    )  # fmt: skip
    app.view("by_tier", clicks.join(table, on="user = id", how="left").group_by("tier").agg(n=ps.count()))
    app.view("by_user", clicks.group_by("user").agg(n=ps.count()))
    known = app.table_of("by_user", name="known", reload="1 second")
    app.view("seen", clicks.join(known, on="user", how="left").group_by("user").agg(most=ps.max("n")))
    run = app.start(tmp_path / "data", spark=spark)
    try:
        run.catch_up()
        assert counted(run) == {"free": 1, "gold": 1, None: 1}
        ready = run.tables._ready
        while "known" not in ready or ready["known"].rows < 2:  # one that was read before the first commit has no rows
            run.wait(0.05)
            ready = run.tables._ready
        put(tmp_path / "clicks", "2.json", click(1, 8))
        run.catch_up()
        assert dict(run.store.query('SELECT "user", most FROM seen').iter_rows()) == {1: 2, 2: None}
    finally:
        run.stop()
