"""Attacks with stores and savepoints that hold code."""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import cli
from penstock.errors import PenstockError, RowError
from penstock.history import savepoints
from penstock.history.batch.audit import Audit
from penstock.history.batch.runs import batch
from penstock.history.savepoints import Savepoint, SavepointError
from penstock.kernel.plan import Plan
from penstock.model import pattern_processor
from penstock.model.loops_values import unpacked
from penstock.runtime.commit.definitions import dumped, loaded
from penstock.runtime.derived.base import Memory
from penstock.runtime.derived.topologies.source import _Recall
from penstock.runtime.errors import RunError
from penstock.store import open_store
from penstock.store.memory import REMEMBERED, remember
from penstock.store.signed import FILE, Signer
from tests.conftest import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = ps.stream(
    "posts", schema="tag string, likes int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds")
)
PLAIN = STREAM.group_by("tag").window(ps.fixed("10 seconds")).agg(posts=ps.count(), likes=ps.sum("likes"))
LENGTH = ps.monoid("length", "tag", lift=lambda tag: len(tag), merge=lambda a, b: a + b, zero=0, result_type="int")
WITH_CODE = STREAM.group_by("tag").agg(n=LENGTH)


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self._mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that exists once code has run."""
    return tmp_path / "code-has-run"


def store_with(directory: Path, view: object, data: bytes | None) -> None:
    """A store with a view of two definitions, of which the first has these bytes; None signs those of the view."""
    store = open_store(directory)
    store.lock()
    try:
        store.prepare({"totals": Plan(PLAIN)})
        if data is None:
            assert isinstance(view, ps.View)
            data = dumped(directory, "totals", view)
        store.generations.note_definition("totals", repr(view), data, 0)
        store.generations.note_definition("totals", repr(PLAIN), dumped(directory, "totals", PLAIN), 0)
    finally:
        store.close()


def definitions(directory: Path) -> list[ps.View]:
    """The definitions of the view, as rollback reads them."""
    store = open_store(directory)
    store.lock()
    try:
        return [loaded(directory, made) for made in store.generations_of("totals")]
    finally:
        store.close()


def penstock(*arguments: str) -> int:
    return CliRunner().invoke(cli, arguments).exit_code


def test_rollback_runs_no_code_of_a_doctored_store(tmp_path: Path, mark: Path):
    """Puts a pickle with code into the store as an earlier definition: rollback refuses it, and nothing runs."""
    need_spark()
    for data in (
        pickle.dumps(Bomb(mark)),
        Signer(tmp_path / "elsewhere").sign(pickle.dumps(Bomb(mark)), "view", "totals"),
    ):
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        store_with(tmp_path / "state", PLAIN, data)
        with pytest.raises(RunError, match="holds Python code") as raised:
            definitions(tmp_path / "state")
        assert "penstock trust" in str(raised.value)
    assert not mark.exists()


@pytest.mark.xdist_group("spark")
def test_a_run_an_audit_and_a_batch_run_no_code_of_a_doctored_store(tmp_path: Path, mark: Path, spark: SparkSession):
    """Puts a pickle with code into every column of bytes of a store: no run, audit or batch run unpickles it."""
    app = ps.App("doctored")
    (tmp_path / "in").mkdir()
    posts = app.stream("posts", ps.files(tmp_path / "in"), schema="tag string, likes int")
    app.view("totals", posts.group_by("tag").agg(n=ps.count(), likes=ps.avg("likes")))

    def run_once(tag: str) -> None:
        (tmp_path / "in" / f"{tag}.json").write_text(json.dumps({"tag": tag, "likes": 1}) + "\n")
        run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
        try:
            run.catch_up()
            Audit(spark, run.store, app.streams, app.views, run.history).run("totals")
            list(batch(run))
        finally:
            run.stop()

    run_once("a")
    whole = (tmp_path / "state" / "store.db").read_bytes()
    doctored = 0
    for table, column in columns_of_bytes(tmp_path / "state" / "store.db"):
        with sqlite3.connect(tmp_path / "state" / "store.db") as connection:
            changed = connection.execute(f'UPDATE "{table}" SET "{column}" = ?', [pickle.dumps(Bomb(mark))])
        if changed.rowcount > 0:
            doctored += 1
            with suppress(Exception):  # whatever else it makes of the bytes
                run_once(f"{table}.{column}")
            assert not mark.exists(), f"{table}.{column}"
            (tmp_path / "state" / "store.db").write_bytes(whole)
    assert doctored


def columns_of_bytes(file: Path) -> list[tuple[str, str]]:
    """The columns of a store that hold bytes and could hold a pickle."""
    with sqlite3.connect(file) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return [
            (table, column[1])
            for table in tables
            for column in connection.execute(f'PRAGMA table_info("{table}")')
            if column[2].upper() == "BLOB" and not column[5]
        ]


def test_definitions_of_the_app_itself_are_read(tmp_path: Path):
    """Changes one byte of a signed definition with functions: it is refused; untouched it is read."""
    need_spark()
    store_with(tmp_path / "state", WITH_CODE, None)
    assert [repr(view) for view in definitions(tmp_path / "state")] == [repr(WITH_CODE), repr(PLAIN)]
    with sqlite3.connect(tmp_path / "state" / "store.db") as connection:
        ((data,),) = connection.execute("SELECT pickled FROM __generations WHERE definition = ?", [repr(WITH_CODE)])
        changed = data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]
        connection.execute("UPDATE __generations SET pickled = ? WHERE definition = ?", [changed, repr(WITH_CODE)])
    with pytest.raises(RunError):
        definitions(tmp_path / "state")


def test_a_copied_directory_is_not_trusted(tmp_path: Path):
    """Hands over a whole directory with its key: the key counts only where it was made."""
    need_spark()
    store_with(tmp_path / "state", WITH_CODE, None)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    assert (tmp_path / "copy" / FILE).exists()
    with pytest.raises(RunError, match="holds Python code"):
        definitions(tmp_path / "copy")
    assert penstock("trust", "--dir", str(tmp_path / "copy")) == 0
    assert len(definitions(tmp_path / "copy")) == 2


def test_restoring_a_foreign_savepoint_with_functions_asks_for_trust(tmp_path: Path, mark: Path):
    """Hands over a savepoint with code in it: restoring it asks for --trust, and nothing runs."""
    need_spark()
    store_with(tmp_path / "theirs", PLAIN, pickle.dumps(Bomb(mark)))
    (tmp_path / "theirs" / "checkpoints").mkdir()
    taken = savepoints.create(tmp_path / "theirs", "evil", to=tmp_path / "evil")
    with pytest.raises(SavepointError, match="another app") as raised:
        savepoints.restore(taken, tmp_path / "mine")
    assert "--trust" in str(raised.value)
    assert not (tmp_path / "mine" / "store.db").exists()
    for command in (["status"], ["views"], ["query", "SELECT * FROM totals"], ["savepoint", "list"]):
        penstock(*command, "--dir", str(tmp_path / "theirs"))
    restored = penstock(
        "savepoint", "restore", "evil", "--from", str(tmp_path / "evil"), "--dir", str(tmp_path / "mine"), "--trust"
    )
    assert restored == 0
    assert not mark.exists()


def test_a_savepoint_without_functions_needs_no_trust(tmp_path: Path):
    """Hopes that people pass --trust out of habit: a savepoint without functions is restored without it."""
    need_spark()
    store_with(tmp_path / "theirs", PLAIN, None)
    (tmp_path / "theirs" / "checkpoints").mkdir()
    taken: Savepoint = savepoints.create(tmp_path / "theirs", "plain", to=tmp_path / "plain")
    savepoints.restore(taken, tmp_path / "mine")
    assert [repr(view) for view in definitions(tmp_path / "mine")] == [repr(PLAIN), repr(PLAIN)]


def test_a_topology_reads_only_state_that_its_app_has_written(tmp_path: Path, mark: Path):
    """Doctors what a topology remembers in the store: its next epoch fails before anything is unpickled."""
    store = open_store(tmp_path / "state")
    store.lock()
    try:
        with store._transaction() as connection:
            rows = [("meta", b"meta", pickle.dumps(Bomb(mark))), ("tasks", pickle.dumps(Bomb(mark)), b"x")]
            remember(connection, {"counts": pl.DataFrame(rows, schema=REMEMBERED, orient="row")})
        recall = _Recall(Memory(store, "counts"), Signer(tmp_path / "state"))
        for part in ("meta", "tasks"):
            with pytest.raises(PenstockError, match="not written by this app"):
                recall.part(part)
        own = recall.frame({("state:bolt", b"k"): b"value"})
        with store._transaction() as connection:
            remember(connection, {"counts": own})
        assert recall.of("state:bolt", [b"k"]) == {b"k": b"value"}
    finally:
        store.close()
    assert not mark.exists()


def test_state_of_patterns_and_loops_is_plain(mark: Path):
    """Doctors the state of a pattern or a loop: code that it names is refused. A pattern's has no way to name any."""
    data = pickle.dumps(Bomb(mark))
    with pytest.raises(ValueError, match="unpack"):
        pattern_processor.restored(ps.pattern("a", lambda event: True), data)
    with pytest.raises(RowError):
        unpacked(data)
    assert not mark.exists()
