"""What is PostgreSQL's own: types and comments for people, roles, schemas, lost connections, many rows at once."""

from __future__ import annotations

import logging
from datetime import date, datetime
from pathlib import Path

import pytest

import penstock as ps
from penstock.control import ask
from penstock.history.savepoints.create import create
from penstock.history.savepoints.manifest import SavepointError
from penstock.kernel.plan import Plan
from penstock.postgres import driver
from penstock.store import Commit, PostgresStore, Reader, StoreError, TakenOver
from penstock.store.address import Address
from penstock.store.connection import Away, Busy
from penstock.store.database import NOTE
from penstock.store.postgres.connection import PostgresConnection
from tests.postgres import PASSWORD, Postgres
from tests.query.asking import rows_of
from tests.store.conftest import NOON, ONLY_POSTGRES, STREAM, VIEW, Home, change, contents
from tests.store.test_commit import ROWS, full

pytestmark = ONLY_POSTGRES


def schema_of(home: Home) -> Address:
    assert home.url is not None
    return Address.read(home.url)


def commit(store, *rows, name="v", before=NOON, after=NOON):
    made = change(store, name, *rows, before=before, after=after)
    return store.commit(Commit(kind="tick", now=NOON, changes={name: made}, view_times={name: after}))


# what people read

KEYS = STREAM.group_by("k", day="cast(at AS date)", at="at", odd="v % 2 = 1")
TYPED = KEYS.window(ps.fixed("1500 milliseconds")).agg(
    n=ps.count(),
    money=ps.sum("cast(v AS decimal(10, 2))"),
    mean=ps.avg("v"),
    last=ps.max("at"),
    tops=ps.top(2, "v", value="k"),
)  # fmt: skip


def test_people_read_real_types_and_comments(opened, home: Home, postgres: Postgres):
    store = opened(v=TYPED)
    commit(store, ("a", 1, 1), ("b", 2, 1), before=0, after=0)
    people = schema_of(home).people
    kinds = dict(
        postgres.rows(
            "SELECT column_name::text, data_type::text FROM information_schema.columns "
            f"WHERE table_schema = '{people}' AND table_name = 'v'"
        )
    )
    assert kinds == {
        "k": "text", "day": "date", "at": "timestamp with time zone", "odd": "boolean", "n": "bigint",
        "window_start": "timestamp with time zone", "window_end": "timestamp with time zone", "money": "numeric",
        "mean": "double precision", "last": "timestamp with time zone", "tops": "json", "final": "boolean",
    }  # fmt: skip
    shown = "day::text, at::text, odd, window_end::text, money::text, tops ->> 0, final"
    at, end = "2024-05-01 12:00:01+00", "2024-05-01 12:00:01.5+00"
    found = postgres.rows(f"SELECT {shown} FROM {people}.v WHERE k = 'a'")
    assert found == [("2024-05-01", at, True, end, "1.00", "a", False)]
    told = dict(
        postgres.rows(
            "SELECT attname::text, col_description(attrelid, attnum) FROM pg_attribute "
            f"WHERE attrelid = '{people}.v'::regclass AND attnum > 0"
        )
    )
    assert told["n"] == "ps.count()"
    assert told["k"] == "key: k"
    assert "closed" in told["final"]
    assert postgres.rows(f"SELECT obj_description('{people}.v'::regclass)") == [(repr(TYPED),)]


def test_the_same_question_has_the_same_answer_as_in_sqlite(opened, home: Home):
    """Times as text, booleans as 0 and 1, decimals as numbers: all that is above the store reads both alike."""
    store = opened(v=TYPED)
    commit(store, ("a", 1, 1), ("b", 2, 1), before=0, after=0)
    columns = "k, day, at, odd, window_start, window_end, n, money, last, tops, final"
    assert contents(store, f"SELECT {columns} FROM v ORDER BY k") == [
        ("a", "2024-05-01", "2024-05-01 12:00:01", 1, "2024-05-01 12:00:00", "2024-05-01 12:00:01.500000", 1, "1.00",
         "2024-05-01 12:00:01", '["a"]', 0),
        ("b", "2024-05-01", "2024-05-01 12:00:01", 0, "2024-05-01 12:00:00", "2024-05-01 12:00:01.500000", 1, "2.00",
         "2024-05-01 12:00:01", '["b"]', 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT k, n FROM v WHERE NOT final ORDER BY n DESC, k LIMIT 1", [("a", 2)]),
        ("SELECT sum(n), avg(n), count(DISTINCT k) FROM v", [(3, 1.5, 2)]),
        ("SELECT k FROM v WHERE window_end > TIMESTAMP '2024-05-01 12:00:09' AND k LIKE 'a%'", [("a",)]),
        ("SELECT date(window_start), window_end - INTERVAL 1 HOUR FROM v WHERE k = 'b'",
         [(date(2024, 5, 1), datetime(2024, 5, 1, 11, 0, 10))]),
        ("SELECT k FROM v WHERE window_end > now() - INTERVAL 10 MINUTES", []),
        ("SELECT upper(substring(k, 1, 1)), round(n / 3, 2), if(n > 1, 'many', 'one') FROM v WHERE final = false "
         "ORDER BY k",
         [("A", 0.67, "many"), ("B", 0.33, "one")]),
        ("WITH x AS (SELECT k, row_number() OVER (ORDER BY n) AS r FROM v) SELECT r FROM x WHERE k = 'a'", [(2,)]),
    ],
)  # fmt: skip
def test_a_select_over_views_is_answered(opened, sql, answer):
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1), ("a", 1, 2), ("b", 2, 2))
    assert rows_of(ask(store, sql).table) == answer


def test_a_role_reads_what_people_read_and_nothing_else(opened, home: Home, postgres: Postgres):
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1))
    address = schema_of(home)
    postgres.run(f"CREATE ROLE \"{address.schema}_bi\" LOGIN PASSWORD 'x'")
    postgres.run(f'GRANT "{address.role}" TO "{address.schema}_bi"')
    store.prepare({"later": Plan(VIEW)})
    url = f"postgresql://{address.schema}_bi:x@127.0.0.1:{postgres.port}/postgres"
    with driver().connect(url) as connection, connection.cursor() as cursor:
        for view in ("v", "later"):
            cursor.execute(f"SELECT count(*) FROM {address.people}.{view}")
            assert cursor.fetchone() == (1 if view == "v" else 0,)
        for sql in (f"SELECT * FROM {address.own}.__meta", f"DELETE FROM {address.people}.v"):
            with pytest.raises(Exception, match="permission denied"):
                cursor.execute(sql)
            connection.rollback()


def test_a_user_that_may_make_no_roles_is_told_so_once_and_goes_on(
    tmp_path: Path, home: Home, postgres: Postgres, caplog
):
    name = f"{schema_of(home).schema}_poor"
    postgres.run(f"CREATE ROLE {name} LOGIN PASSWORD 'x'", f"GRANT CREATE ON DATABASE postgres TO {name}")
    with caplog.at_level(logging.WARNING):
        store = PostgresStore.open(tmp_path, f"postgresql://{name}:x@127.0.0.1:{postgres.port}/postgres?schema={name}")
        store.lock()
    store.prepare({"v": Plan(VIEW)})
    commit(store, ("a", 1, 1))
    store.close()
    assert caplog.text.count("there is no role") == 1


def test_an_index_by_what_people_read_is_used_and_survives_a_migration(opened, home: Home):
    store = opened(v=VIEW)
    for _ in range(2):
        store.index("v", "window_end", "k")
    commit(store, *((f"key {number}", 1, number % 50) for number in range(3000)))
    store.prepare({"v": Plan(VIEW.retracting())})
    store._writer.run('ANALYZE "__view_v"')
    store._writer.commit()
    plan = contents(store, "EXPLAIN SELECT * FROM v WHERE window_end = '2024-05-01 12:00:10' AND k = 'key 3'")
    assert "__by_v_window_end_k" in str(plan)
    assert [columns for columns, _ in store._writer.indexes_of("__view_v")] == [["window_end", "k"]]
    store._writer.rollback()


# where it is


def test_several_apps_share_a_database(opened, home: Home, tmp_path: Path):
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1))
    other = PostgresStore.open(tmp_path / "other", f"{home.url}_other")
    other.lock()
    other.prepare({"v": Plan(VIEW)})
    assert contents(other) == []
    assert len(contents(store)) == 1
    other.close()


def test_the_password_is_not_written_down(opened, home: Home):
    opened(v=VIEW)
    texts = [path.read_bytes() for path in home.directory.rglob("*") if path.is_file()]
    assert not any(secret.encode() in text for text in texts for secret in (PASSWORD, PASSWORD.replace(" ", "%20")))
    assert (home.directory / NOTE).read_text().strip() == schema_of(home).shown


def test_another_directory_cannot_write_to_the_same_schema(opened, home: Home, tmp_path: Path):
    opened(v=VIEW)
    with pytest.raises(Busy, match="is in use by 'penstock"):
        PostgresStore.open(tmp_path / "other", home.url).lock()


def test_a_directory_stays_with_its_store(opened, home: Home, tmp_path: Path):
    opened(v=VIEW).close()
    with pytest.raises(StoreError, match="is elsewhere"):
        PostgresStore.open(home.directory, f"{home.url}_other").lock()


def test_a_savepoint_is_refused_with_what_to_do_instead(opened, home: Home):
    opened(v=VIEW)
    with pytest.raises(SavepointError, match="is in PostgreSQL") as error:
        create(home.directory, "monday")
    assert "pg_dump" in str(error.value)


def test_what_cannot_be_reached_or_is_no_store_says_so(home: Home, tmp_path: Path, postgres: Postgres):
    with pytest.raises(Away, match="cannot be reached"):
        PostgresStore.open(tmp_path / "a", "postgresql://x@127.0.0.1:1/postgres?schema=a").lock()
    with pytest.raises(StoreError, match="check user, database and password"):
        PostgresStore.open(tmp_path / "b", f"postgresql://penstock:no@127.0.0.1:{postgres.port}/postgres").lock()
    with pytest.raises(StoreError, match="cannot be the schema"):
        PostgresStore.open(tmp_path / "c", "postgresql://h/d?schema=pg_x")
    schema = schema_of(home)
    postgres.run(f"CREATE SCHEMA {schema.own}", f"CREATE TABLE {schema.own}.mine (a int)")
    with pytest.raises(StoreError, match="is not a store of Penstock"):
        home.store().lock()


def test_a_store_of_a_newer_format_says_so(opened, home: Home, postgres: Postgres):
    opened(v=VIEW).close()
    postgres.run(f"UPDATE {schema_of(home).own}.__meta SET value = 99 WHERE name = 'format'")
    for use in (home.store().lock, home.reader().views):
        with pytest.raises(StoreError, match="has format 99"):
            use()


# values


def test_text_that_postgres_refuses_is_kept(opened):
    """Rows with a NUL are refused, but an expression can make one."""
    store = opened(v=STREAM.group_by(k="replace(k, '#', '\\0')").agg(n=ps.count()))
    strange = ["a\0b", "\0", "\ufffe", "\ufffe0", "\ufffe\0", "é", "'; --"]
    for _ in range(2):
        commit(store, *((key.replace("\0", "#"), 1, 1) for key in strange))
    assert sorted(contents(store, "SELECT k, n FROM v")) == sorted((key, 2) for key in strange)
    assert store.query("SELECT n FROM v WHERE k = ?1", ["a\0b"]).rows() == [(2,)]


def test_names_that_postgres_would_cut_off_are_refused(opened):
    store = opened()
    with pytest.raises(StoreError, match="too long for PostgreSQL"):
        store.prepare({"v" * 47: Plan(VIEW)})
    store.prepare({"v" * 46: Plan(VIEW)})


def test_many_rows_go_in_at_once(home: Home):
    sessions = STREAM.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count()).trigger(ps.each()).retracting()
    store = PostgresStore(home.directory, schema_of(home), many=100)
    store.lock()
    store.prepare({"v": Plan(VIEW), "s": Plan(sessions)})
    rows = [(f"key {number}", number, number % 50) for number in range(1000)]
    for _ in range(2):
        commit(store, *rows)
        commit(store, *rows, name="s")
    assert store.query("SELECT count(*), sum(n), sum(total) FROM v").rows() == [(1000, 2000, 999_000)]
    assert store.query("SELECT count(*), sum(n) FROM s").rows() == [(1000, 2000)]
    store.close()


# lost connections


def cut(store: PostgresStore, server: Postgres) -> None:
    server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        f"AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND pid = {store._writer.process})"
    )


def test_a_reader_finds_the_server_again(opened, home: Home, postgres: Postgres):
    store, reader = opened(v=VIEW), home.reader()
    commit(store, ("a", 1, 1))
    assert reader.last().number == 1
    for connection in reader._idle:
        postgres.run(f"SELECT pg_terminate_backend({connection.process})")
    assert reader.last().number == 1
    with reader.moment() as asked:
        assert asked("SELECT n FROM v", []).rows() == [(1,)]
    reader.close()


@pytest.mark.parametrize("statement", ["UPDATE __meta", "INSERT INTO", "UPDATE __views"])
def test_a_connection_lost_within_a_transaction_leaves_nothing_and_comes_back(opened, postgres, monkeypatch, statement):
    store = opened(v=VIEW)
    store.commit(full(store, *ROWS))
    record = full(store, ("c", 1, 3), epoch=1)
    run, done = PostgresConnection._run, []

    def faulty(self, sql, *given):
        if sql.startswith(statement) and not done:
            done.append(cut(store, postgres))
        return run(self, sql, *given)

    monkeypatch.setattr(PostgresConnection, "_run", faulty)
    with pytest.raises(Away):
        store.commit(record)
    assert store.last().number == 1
    assert store.commit(record) == 2
    assert store.last().number == 2


@pytest.mark.parametrize("made", [True, False], ids=["it was made", "it was not"])
def test_what_became_of_a_commit_whose_answer_never_came_is_found_out(opened, postgres, monkeypatch, made):
    store = opened(v=VIEW)
    store.commit(full(store, *ROWS))
    record = full(store, ("c", 1, 3), epoch=1)
    end = PostgresConnection.commit

    def faulty(self):
        monkeypatch.setattr(PostgresConnection, "commit", end)
        if made:
            end(self)
        self._broken = True
        raise self._gone()

    monkeypatch.setattr(PostgresConnection, "commit", faulty)
    if made:
        assert store.commit(record) == 2
    else:
        with pytest.raises(Away):
            store.commit(record)
        assert store.commit(record) == 2
    assert [number for (number,) in contents(store, "SELECT number FROM __commits ORDER BY 1")] == [1, 2]
    assert store.counters()["events"] == 6


def test_a_commit_of_which_nobody_can_tell_ends_the_app(home: Home, monkeypatch):
    store = PostgresStore(home.directory, schema_of(home), patience=0.0)
    store.lock()
    store.prepare({"v": Plan(VIEW)})

    def lost(self, *_):
        self._broken = True
        raise self._gone()

    with monkeypatch.context() as broken:
        broken.setattr(PostgresConnection, "commit", lost)
        broken.setattr(
            PostgresConnection, "_fetch", lambda self, sql, bound: lost(self) if store._writer is self else None
        )
        with pytest.raises(StoreError, match="it is unknown whether") as error:
            store._end(store._writer)
    assert not isinstance(error.value, Busy)
    store.close()


def test_who_was_cut_off_and_taken_over_writes_nothing_more(opened, home: Home, postgres: Postgres):
    store = opened(v=VIEW)
    (home.directory / "lock").unlink()
    cut(store, postgres)
    store._writer.rollback()
    other = opened(v=VIEW)
    with pytest.raises(TakenOver):
        store.delivered({"sink": 1})
    other.delivered({"sink": 2})
    assert Reader(home.directory).position("sink") == 2


def test_a_store_that_lacks_commits_is_not_written_to(opened, home: Home, postgres: Postgres):
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1))
    postgres.run(f"UPDATE {schema_of(home).own}.__meta SET value = value - 1 WHERE name = 'writes'")
    with pytest.raises(StoreError, match="lacks what was committed last"):
        commit(store, ("a", 1, 1))


def test_an_idle_writer_holds_no_transaction_open(opened, postgres: Postgres):
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1))
    process = store._writer.process
    store._writer.rollback()
    assert postgres.rows(f"SELECT state::text FROM pg_stat_activity WHERE pid = {process}") == [("idle",)]
