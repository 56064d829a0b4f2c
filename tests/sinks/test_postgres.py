"""A table in a real PostgreSQL: it is what the view shows, whatever is cut, killed or wakes up too late."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError, PenstockError
from penstock.sinks import SinkError, check, to_postgres
from penstock.sinks.files import plain
from penstock.testing import run
from tests.postgres import PASSWORD, Postgres
from tests.sinks.kill_postgres import STEPS
from tests.sinks.support import COUNTS, LIVE, STREAM, Fed, steady
from tests.strategies import cases, scripts, views

Row = dict[str, Any]


class Database:
    """An empty database of the shared server."""

    def __init__(self, server: Postgres) -> None:
        self.server, self.name = server, f"t{uuid.uuid4().hex}"
        self.url = server.database(self.name)

    def run(self, *statements: str) -> None:
        self.server.run(*statements, database=self.name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.server.rows(query, self.name)

    def table(self, name: str = "t") -> list[Row]:
        """The rows of a table as JSON would have them, in some order that is always the same."""
        with self.server.connect(self.name) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name}")
            names = [part[0] for part in cursor.description]
            found = [dict(zip(names, map(plain, row), strict=True)) for row in cursor.fetchall()]
        return sorted(found, key=repr)


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    made = Database(postgres)
    yield made
    postgres.run(f'DROP DATABASE "{made.name}" WITH (FORCE)')


def folded(panes: list[Row], view: ps.View) -> list[Row]:
    """What a table of these panes must hold."""
    keys = [name for name, _ in view.keys]
    found: dict[str, Row] = {}
    for pane in panes:
        place = repr([pane[name] for name in (*keys, "window_start", "window_end")])
        found.pop(place, None)
        if pane["kind"] == "insert":
            bounds = ("window_start", "window_end") if view.windows.ends else ()
            found[place] = {name: plain(pane[name]) for name in (*keys, *bounds, *view.values, "final")}
    return sorted(found.values(), key=repr)


def panes_of(fed: Fed) -> list[Row]:
    from penstock.sinks.rows import Decoder

    return Decoder(fed.view).panes(fed.panes())


# What the table holds


def test_a_table_is_made_and_holds_what_the_view_shows_after_every_commit(feed, database):
    fed = feed(LIVE)
    delivery = fed.delivery(t=to_postgres("public.t", url=database.url))
    for _ in range(6):
        fed.step(2)
        delivery.deliver()
        assert not delivery.failures
        assert database.table() == folded(panes_of(fed), LIVE) != []
    delivery.close()
    assert database.rows('SELECT app, sink, "table", position FROM __penstock_sinks') == [
        ("", "t", '"public"."t"', fed.ids()[-1])
    ]
    kinds = dict(database.rows(
        "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_name = 't'"
    ))  # fmt: skip
    assert kinds == {
        "k": "text", "window_start": "timestamp with time zone", "window_end": "timestamp with time zone",
        "n": "bigint", "total": "bigint", "final": "boolean",
    }  # fmt: skip


def test_panes_are_rows_with_all_that_is_known_of_them(feed, database):
    fed = feed(LIVE)
    fed.step(5)
    fed.deliver(t=to_postgres("t", url=database.url, mode="panes", rows_per_transaction=3))
    expected = sorted((plain(row) for row in panes_of(fed)), key=repr)
    assert database.table() == expected
    fed.deliver(t=to_postgres("t", url=database.url, mode="panes"))
    assert len(database.table()) == len(expected), "none comes again"


@pytest.mark.parametrize("mode", ["panes", "upsert"])
def test_a_renamed_sink_goes_on_in_its_table_and_brings_no_pane_twice(feed, database, mode):
    fed = feed(LIVE)
    fed.deliver_through_a_rename(lambda: to_postgres("t", url=database.url, mode=mode))
    panes = panes_of(fed)
    expected = folded(panes, LIVE) if mode == "upsert" else sorted((plain(row) for row in panes), key=repr)
    assert database.table() == expected != []


def test_append_brings_each_window_once(feed, database):
    fed = feed(COUNTS.trigger(ps.on_close()))
    fed.all()
    fed.deliver(t=to_postgres("t", url=database.url, mode="append"))
    assert database.table() == sorted((plain(row) for row in panes_of(fed) if row["final"]), key=repr) != []


def test_rows_of_a_flow_are_added(database, feed):
    from penstock.model.rows import Rows
    from penstock.model.types import Schema
    from penstock.sinks.base import Batch, Target

    fed = feed()
    sink = to_postgres("t", url=database.url, mode="panes")
    opened = sink.open(Target("s", "f", Rows(Schema.parse("k string, v int")), fed.store))
    opened.take(Batch(1, 2, [{"k": "a", "v": 1, "pane": 1}, {"k": None, "v": None, "pane": 2}]))
    opened.close()
    assert database.rows("SELECT * FROM t ORDER BY pane") == [("a", 1, 1), (None, None, 2)]


EVERY = "a string, b tinyint, c smallint, d int, e bigint, f float, g double, h boolean, i binary, j date, l timestamp"
VALUES = [
    ("x", 1, 2, 3, 2**62, 1.5, float("nan"), True, b"\x00\x01", date(2024, 5, 1), datetime(2024, 5, 1, 12, tzinfo=UTC)),
    ("it's '\\' \x00 ⚙", -128, -1, -2, -(2**63), -0.25, float("-inf"), False, b"", date(1, 1, 1),
     datetime(9999, 12, 31, tzinfo=UTC)),
    (None,) * 11,
]  # fmt: skip


def test_every_type_is_a_real_one(database, feed):
    from penstock.sinks.base import Batch, Target

    stream = ps.stream("s", schema=f"{EVERY}, m decimal(38,6), q decimal(4,4)")
    names = [part.split()[0] for part in EVERY.split(", ")]
    view = stream.group_by(*names).agg(
        m=ps.max("m"), q=ps.min("q"),
        texts=ps.collect_list("a"), times=ps.collect_list("l"), decimals=ps.collect_list("q"),
        best=ps.heavy_hitters("a", limit=2),
    )  # fmt: skip
    random_digits = random.Random(5)
    rows: list[Row] = []
    for number, values in enumerate([*VALUES, *(("y", n, *VALUES[0][2:]) for n in range(100))]):
        digits = random_digits.randint(1, 31)
        whole, part = random_digits.randint(-(10**digits), 10**digits), random_digits.choice([0, 1, 100, 999_999])
        m = Decimal(f"{whole}.{part:06}")
        q = Decimal(random_digits.randint(-9999, 9999)).scaleb(-4)
        empty = number % 10 == 3
        rows.append({
            **dict(zip(names, values, strict=True)), "window_start": None, "window_end": None,
            "m": None if empty else m, "q": q,
            "texts": [] if empty else ["a", None, 'b"{},\\'], "times": [values[-1], None], "decimals": [q, None, -q],
            "best": None if empty else [{"item": "x\x00", "estimate": 3}],
            "kind": "insert", "timing": "early", "index": 0, "final": False, "pane": number + 1, "commit": 1,
        })  # fmt: skip
    fed = feed()
    opened = to_postgres("t", url=database.url).open(Target("s", "v", view, fed.store))
    fed.step(1)
    opened.take(Batch(1, len(rows), rows))
    opened.close()
    got = database.table()
    for row in got:
        row["best"] = None if row["best"] is None else json.loads(row["best"])
    shown = [{name: plain(value) for name, value in row.items() if name in got[0]} for row in rows]
    for row in shown:
        row["a"] = row["a"].replace("\x00", "␀") if row["a"] else row["a"]
        for part in row["best"] or ():
            part["item"] = part["item"].replace("\x00", "␀")
    assert sorted(got, key=repr) == sorted(shown, key=repr)
    types = dict(database.rows(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 't'::regclass AND attnum > 0"
    ))  # fmt: skip
    assert types == {
        "a": "text", "b": "smallint", "c": "smallint", "d": "integer", "e": "bigint", "f": "real",
        "g": "double precision", "h": "boolean", "i": "bytea", "j": "date", "l": "timestamp with time zone",
        "m": "numeric(38,6)", "q": "numeric(4,4)", "texts": "text[]", "times": "timestamp with time zone[]",
        "decimals": "numeric(4,4)[]", "best": "jsonb", "final": "boolean",
    }  # fmt: skip


def test_the_table_equals_the_view_whatever_fires(postgres):
    """Random views and scripts against the reference: retractions, sessions that merge, keys that are null."""
    tried, database = 0, Database(postgres)

    @cases(12)
    @given(views(), st.data())
    def compare(view, data):
        nonlocal tried
        sink = to_postgres("t", url="postgresql://nowhere/db", rows_per_transaction=data.draw(st.integers(1, 9)))
        try:
            check(sink, view)
        except DefinitionError:
            assume(False)
        script = data.draw(scripts(view))
        database.run("DROP TABLE IF EXISTS t, __penstock_sinks")
        got = delivered(view, script, database, sink.rows)
        assert got == folded(run(view, script).panes, view)
        tried += 1

    compare()
    assert tried > 3


def delivered(view: ps.View, script: ps.testing.TestStream, database: Database, rows: int) -> list[Row]:
    with TemporaryDirectory() as directory:
        fed = Fed(view, Path(directory), script)
        try:
            for number, commit in enumerate(fed.commits):
                if commit is None:
                    fed.engine = fed.engine.restart()
                else:
                    fed.engine.commit(commit)
                if number % 4 == 3:
                    fed.deliver(t=to_postgres("t", url=database.url, rows_per_transaction=rows))
            fed.deliver(t=to_postgres("t", url=database.url, rows_per_transaction=rows))
        finally:
            fed.store.close()
    found = database.table()
    for row in found:
        for name, kind in view.value_types.items():
            if "struct" in kind or kind.startswith("array<array"):
                row[name] = None if row[name] is None else json.loads(row[name])
    return sorted(found, key=repr)


def test_readers_see_the_view_as_it_was_after_a_commit(feed, database):
    fed = feed(LIVE)
    fed.step(12)
    database.run("CREATE TABLE seen (rows bigint, lowest bigint, highest bigint)")
    delivery = fed.delivery(t=to_postgres("t", url=database.url, rows_per_transaction=7))
    database.run(
        'ALTER TABLE t ADD "commit" bigint',
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen "
        'SELECT count(*), min("commit"), max("commit") FROM new_rows; RETURN NULL; END $$',
        "CREATE TRIGGER note AFTER INSERT ON t REFERENCING NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION note()",
    )
    delivery.close()
    fed.deliver(t=to_postgres("t", url=database.url, rows_per_transaction=7))
    assert database.table("t")[0]["commit"] is not None, "a column of panes is filled where the table has it"
    cuts = [row[0] for row in database.rows("SELECT highest FROM seen WHERE highest IS NOT NULL ORDER BY 1")]
    assert len(cuts) == len(set(cuts)) > 2, "no commit is in two transactions"


# Once, whatever dies


class Proxy:
    """Passes bytes on until it sees COMMIT: then it cuts the connection before, or after, the server has done it."""

    def __init__(self, port: int) -> None:
        self._server, self._port = socket.create_server(("127.0.0.1", 0)), port
        self.port = self._server.getsockname()[1]
        self.cut: str | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            for one, other, is_cut in ((client, server, self._before), (server, client, self._after)):
                threading.Thread(target=self._pass, args=(one, other, is_cut), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, is_cut: Callable[[bytes], bool]) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if is_cut(data):
                    break
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _before(self, data: bytes) -> bool:
        return self._cuts("before", b"COMMIT\0" in data)

    def _after(self, data: bytes) -> bool:
        return self._cuts("after", b"COMMIT\0" in data)

    def _cuts(self, when: str, found: bool) -> bool:
        if self.cut == when and found:
            self.cut = None
            return True
        return False

    def close(self) -> None:
        self._server.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("mode", ["panes", "upsert"])
def test_a_connection_that_is_cut_around_the_commit_loses_and_repeats_nothing(feed, database, when, mode):
    fed, proxy = feed(LIVE), Proxy(database.server.port)
    url = database.url.replace(f":{database.server.port}/", f":{proxy.port}/")
    delivery = fed.delivery({"retry": (0.0, 0.0)}, t=to_postgres("t", url=url, mode=mode, rows_per_transaction=8))
    for _ in range(4):
        fed.step(3)
        proxy.cut = when
        delivery.deliver()
        assert "t" in delivery.failures
        fed.step(1)
        delivery.deliver()
        assert delivery.failures == {}
    delivery.close()
    proxy.close()
    panes = panes_of(fed)
    expected = sorted(map(plain, panes), key=repr) if mode == "panes" else folded(panes, LIVE)
    assert database.table() == expected


def test_a_server_that_is_killed_and_started_again_has_each_pane_once(feed):
    server = Postgres().start()
    try:
        url = server.database("d")
        fed = feed(LIVE)
        delivery = fed.delivery(
            {"retry": (0.0, 0.0)}, t=to_postgres("t", url=url),
            p=to_postgres("p", url=url, mode="panes", rows_per_transaction=4),
        )  # fmt: skip
        for number in range(3):
            fed.step(4)
            killer = threading.Timer(0.01 * number, server.kill)
            killer.start()
            delivery.deliver()
            killer.join()
            delivery.deliver()
            server.start()
        for _ in range(3):  # the first may still find the connection that was lost
            delivery.drain(60)
        assert delivery.failures == {}
        delivery.close()
        assert [row[0] for row in server.rows("SELECT pane FROM p ORDER BY pane", "d")] == fed.ids()
        shown = server.rows("SELECT k, n, total FROM t ORDER BY 1, window_start", "d")
        assert shown == [(row["k"], row["n"], row["total"]) for row in by_window(folded(panes_of(fed), LIVE))]
    finally:
        server.close()


def by_window(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["k"], row["window_start"]))


def test_a_store_that_does_not_learn_of_a_batch_brings_none_twice(feed, database):
    fed = feed(LIVE)
    fed.step(4)

    def dies(positions: dict[str, int], deliveries: object) -> None:
        raise RuntimeError("killed")

    dying = fed.delivery({"commit_positions": dies}, t=to_postgres("t", url=database.url, mode="panes"))
    dying.deliver()
    dying.close()
    assert fed.store.position("t") == 0
    fed.step(2)
    fed.deliver(t=to_postgres("t", url=database.url, mode="panes"))
    assert [row[0] for row in database.rows("SELECT pane FROM t ORDER BY pane")] == fed.ids()


def test_a_process_that_is_killed_at_each_step_brings_each_pane_once(tmp_path, database):
    fed = Fed(LIVE, tmp_path / "state", steady(20))
    fed.all()
    panes, ids = panes_of(fed), fed.ids()
    fed.store.close()
    root = Path(__file__).parents[2]

    def start(*step: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(Path(__file__).parent / "kill_postgres.py"), str(tmp_path), database.url, *step],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
        )  # fmt: skip

    for passes, step in enumerate(STEPS, start=6):
        done = start(step, str(passes))
        assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    done = start()
    assert done.stdout == "done\n", done.stderr[-3000:]
    assert [row[0] for row in database.rows("SELECT pane FROM panes ORDER BY pane")] == ids
    assert database.table("shown") == folded(panes, LIVE)


def test_a_process_that_wakes_up_too_late_can_write_nothing(feed, database):
    fed, sink = feed(LIVE), to_postgres("t", url=database.url, mode="panes")
    fed.step(2)
    old = fed.delivery({"retry": (0.0, 0.0)}, t=sink)
    old.deliver()
    new = fed.delivery(t=sink)
    fed.step(2)
    for _ in range(3):  # first its connection is gone, then it learns why
        old.deliver()
    assert "another process writes to the table" in str(old.failures["t"].error)
    assert old.failures["t"].count == 3
    new.deliver()
    assert not new.failures
    old.close()
    new.close()
    assert [row[0] for row in database.rows("SELECT pane FROM t ORDER BY pane")] == fed.ids()


def test_a_process_that_hangs_in_a_transaction_is_not_waited_for(feed, database):
    from penstock.sinks.base import Batch, Target

    fed, sink = feed(LIVE), to_postgres("t", url=database.url, mode="panes")
    fed.step(2)
    target = Target("t", "v", LIVE, fed.store)
    hung: Any = sink.open(target)
    hung._connect()
    hung._session.run("BEGIN")
    hung._claim.locked(hung._session)
    assert fed.deliver(t=sink) == len(fed.ids())
    with pytest.raises(SinkError):
        hung.take(Batch(1, 99, panes_of(fed)))
    with pytest.raises(SinkError, match="another process"):
        hung.take(Batch(1, 99, panes_of(fed)))
    assert [row[0] for row in database.rows("SELECT pane FROM t ORDER BY pane")] == fed.ids()


# What is refused


def test_a_table_that_does_not_fit_is_refused_with_one_that_does(feed, database):
    fed = feed(LIVE)

    def refused(**more: Any) -> str:
        with pytest.raises(PenstockError) as told:
            fed.delivery(t=to_postgres("t", url=database.url, **more))
        return str(told.value)

    assert 'there is no table "public"."t"' in refused(create=False)
    database.run("CREATE TABLE t (k text, n bigint, window_start timestamptz)")
    told = refused()
    assert "lacks 'window_end', 'total'" in told
    assert 'UNIQUE NULLS NOT DISTINCT ("k", "window_start", "window_end")' in told
    database.run("ALTER TABLE t ADD window_end timestamptz, ADD total bigint")
    assert "no unique or exclusion constraint" in refused()
    database.run("ALTER TABLE t ADD UNIQUE (k, window_start)")
    database.run("ALTER TABLE t ADD who text NOT NULL")
    assert "requires 'who'" in refused(key=["k", "window_start"])
    database.run("ALTER TABLE t DROP who, ALTER n TYPE date USING null")
    assert 'column "n" is of type date' in refused(key=["k", "window_start"])
    database.run("ALTER TABLE t ALTER n TYPE integer USING null")
    fed.step(3)
    fed.deliver(t=to_postgres("t", url=database.url, key=["k", "window_start"]))
    assert len(database.table()) == len(folded(panes_of(fed), LIVE))


def test_a_key_must_tell_windows_apart():
    sink = to_postgres("t", url="postgresql://h/d", key=["k"])
    with pytest.raises(DefinitionError, match="it lacks window_start"):
        check(sink, LIVE)
    with pytest.raises(DefinitionError, match="unknown column of the key 'j'"):
        check(to_postgres("t", url="postgresql://h/d", key=["j"]), LIVE)
    cumulating = STREAM.group_by("k").window(ps.cumulating("10 seconds", step="5 seconds")).agg(n=ps.count())
    with pytest.raises(DefinitionError, match="lacks window_end"):
        check(to_postgres("t", url="postgresql://h/d", key=["k", "window_start"]), cumulating)
    check(to_postgres("t", url="postgresql://h/d", key=["window_start", "k"]), LIVE)


def test_views_whose_panes_make_no_table_are_refused():
    sink = to_postgres("t", url="postgresql://h/d")
    with pytest.raises(DefinitionError, match="discarding"):
        check(sink, COUNTS.trigger(ps.each()).discarding())
    sessions = STREAM.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count())
    with pytest.raises(DefinitionError, match=r"use \.retracting"):
        check(sink, sessions.accumulating())
    check(sink, sessions.retracting())
    with pytest.raises(DefinitionError, match="unknown mode of a sink 'update'"):
        to_postgres("t", url="postgresql://h/d", mode="update")
    with pytest.raises(DefinitionError, match="unknown mode of a sink 'upsert'"):
        ps.to_jsonl("out", mode="upsert")


def test_the_panes_of_another_store_and_the_table_of_another_sink_are_refused(feed, database):
    first, second = feed(LIVE), feed(LIVE, steady(20), name="other")
    first.step(4)
    second.step(2)
    first.deliver(t=to_postgres("t", url=database.url))
    with pytest.raises(SinkError, match="panes of another store"):
        second.delivery(t=to_postgres("t", url=database.url))
    with pytest.raises(SinkError, match="is filled by another sink: 't'"):
        first.delivery(u=to_postgres("t", url=database.url))
    with pytest.raises(SinkError, match=r'up to \d+ into "public"."t"'):
        first.delivery(t=to_postgres("u", url=database.url))


# What is shown


def test_no_password_is_shown_anywhere(feed, database, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    fed = feed(LIVE)
    fed.step(2)
    for url in (database.url, database.server.address(database.name, password=None) + "?password=not%20for%20logs"):
        sink = to_postgres("t", url=url)
        assert repr(sink).count("…") == 1
        delivery = fed.delivery({"retry": (0.0, 0.0)}, t=sink)
        delivery.deliver()
        database.run('ALTER TABLE t RENAME TO "gone"')
        fed.step(1)
        delivery.deliver()
        assert "gone" not in str(delivery.failures["t"].error)
        assert 'relation "public.t" does not exist' in str(delivery.failures["t"].error)
        database.run('ALTER TABLE "gone" RENAME TO t')
        told = [repr(sink), caplog.text, *(str(one.error) for one in delivery.failures.values())]
        delivery.close()
        with pytest.raises(SinkError) as wrong:
            fed.delivery(t=to_postgres("t", url=url.replace("not%20for%20logs", "quite%20wrong")))
        told.append(str(wrong.value))
        assert not [text for text in told if PASSWORD in text or "not%20for" in text or "quite" in text]
    for wrong_url in ("postgresql://u:pass@word:x@h:port/d", "mysql://u:secret@h/d", "postgresql://u:s@h/d?secret"):
        with pytest.raises(DefinitionError) as refused:
            to_postgres("t", url=wrong_url)
        assert "secret" not in str(refused.value)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PENSTOCK_POSTGRES_URL", database.server.address(database.name, password=None))
    fed.deliver(t=to_postgres("t"))
    assert database.table() == folded(panes_of(fed), LIVE)


def test_a_sink_prints_as_its_constructor():
    for text in (
        "ps.to_postgres('public.t')",
        "ps.to_postgres('t', url='postgresql://u@h/d', key=['k'], create=False, mode='upsert')",
        "ps.to_postgres('t', rows_per_transaction=5, mode='panes')",
    ):
        sink = eval(text)
        assert eval(repr(sink)) == sink
    assert repr(to_postgres("t", mode="panes")) == "ps.to_postgres('t', mode='panes')"
