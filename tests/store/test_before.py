"""A store that the version before has written goes on with this one: nothing is lost and nothing counts twice."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from penstock.control import Live
from penstock.control.starting import Apply
from penstock.errors import PenstockError
from penstock.history.batch.audit import Audit
from penstock.history.events.event_history import EventHistory
from penstock.history.events.verify import verify
from penstock.history.savepoints import find, restore
from penstock.runtime.commit.definitions import loaded
from penstock.runtime.errors import RunError
from penstock.store import Reader, SqliteStore, StoreError
from penstock.store.signed import Signer
from tests.outbox import panes as outbox
from tests.store.before.app import SECOND, define

#: The stream of the processor, whose state of the version before is not read.
RENAMED = "numbered"
ARCHIVE = Path(__file__).parent / "before" / "store.tar.xz"


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, list[Any]]:
    """What the version before answered; its store is unpacked beside."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    return json.loads((tmp_path / "facts.json").read_text())


def answers(store: Reader, questions: list[str]) -> dict[str, list[Any]]:
    return {question: [list(row) for row in store.query(question).rows()] for question in questions}


@pytest.fixture
def state(facts: dict[str, list[Any]], tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_every_fact_is_there_after_the_migration(facts: dict[str, list[Any]], state: Path):
    with pytest.raises(StoreError, match="was written by an earlier version"):
        Reader(state).last()
    store = SqliteStore(state)
    store.lock()
    panes = facts.pop("panes")
    assert answers(store, list(facts)) == facts
    columns = ["id", "commit", "view", "key", "start", "values", "kind", "timing"]
    assert [list(row) for row in outbox(store).select(columns).rows()] == panes
    assert store.position("out") == 0
    assert not list(verify(EventHistory(store)))
    epochs = "SELECT \"commit\", read_through FROM __epochs WHERE stream = 'runs' ORDER BY 1"
    offsets = "SELECT number, offsets FROM __commits WHERE stream = 'runs' ORDER BY 1"
    read = [(number, json.loads(text)["commit"]) for number, text in store.query(offsets).rows()]
    assert store.query(epochs).rows() == read
    assert store.query('SELECT "commit", version FROM __versions ORDER BY 1').rows() == [(1, 1), (7, 2)]
    store.close()


def test_its_definitions_are_read_though_their_classes_have_moved(state: Path):
    store = SqliteStore(state)
    store.lock()
    assert loaded(state, store.generations_of("by_user")[-1]).input.sources[0].name == "clicks"
    with pytest.raises(RunError, match="holds Python code"):
        loaded(state, store.generations_of("by_run")[-1])  # its stream has a processor
    signer = Signer(state)
    assert store.generations.foreign_code(signer) == ["view 'by_run'"]
    store.generations.trust_code(signer)
    assert loaded(state, store.generations_of("by_run")[-1]).input.sources[0].name == "runs"
    store.close()


@pytest.mark.deep
def test_the_app_goes_on_with_it_and_with_its_savepoint(facts: dict[str, list[Any]], state: Path, spark: Any):
    store = SqliteStore(state)
    store.lock()
    store.generations.trust_code(Signer(state))
    store.close()
    users = str(state.parent / "users")  # the table's files lie elsewhere now
    for note in (state / "tables" / "users").glob("*.json"):
        text = note.read_text().replace("files('users'", f"files({users!r}")
        note.unlink()  # a savepoint has a link to it
        note.write_text(text)
    delivered: list[Any] = []
    with pytest.raises(RunError, match="give the stream another name"):
        Live(define(delivered.extend, users), state, spark=spark, tick=3600.0)
    app = define(delivered.extend, users, RENAMED)
    live = Live(app, state, apply=Apply(lambda plan: None), spark=spark, tick=3600.0).start()
    try:
        live.catch_up()
        assert answers(live.store, ["SELECT * FROM by_run ORDER BY 1"]).items() <= facts.items()
        more = "(1, 'ann', 10, TIMESTAMP '2024-05-01 12:00:01'), (9, 'eve', 5, TIMESTAMP '2024-05-01 12:01:07')"
        live.execute(f"INSERT INTO clicks VALUES {more}")
        live.catch_up()
        by_user = live.store.query("SELECT user, n, ms FROM by_user WHERE final = 0 ORDER BY 1").rows()
        assert by_user == [("bob", 1, 50), ("eve", 3, 145)]
        assert live.store.query("SELECT user, n FROM by_run ORDER BY 1").rows() == [("ann", 2), ("bob", 2), ("eve", 3)]
        assert live.store.query("SELECT longest FROM by_length WHERE user = 'eve'").item() == 80
        assert live.store.counters()["clicks.duplicate"] == 2
        panes = [pane for pane in facts["panes"] if pane[2] == "by_user"]
        while len(delivered) < len(panes):
            live.wait(0.05)
        assert len(delivered) == len(panes), "each once: no window has closed since"
        for view in ("by_user", "by_tier", "by_run"):
            audited = Audit(spark, live.store, app.streams, app.views, live.run.history).run(view)
            assert (audited.unable, list(audited.problems), audited.differences) == (None, [], 0), view
    finally:
        live.stop()
    _go_on_from_the_savepoint(state, spark)


def _go_on_from_the_savepoint(state: Path, spark: Any) -> None:
    savepoint, there, users = find("before", state), state.parent / "there", str(state.parent / "users")
    with pytest.raises(PenstockError, match="holds Python functions"):
        restore(savepoint, there)
    restore(savepoint, there, trust=True)
    app = define(lambda rows: None, users, RENAMED)
    live = Live(app, there, apply=Apply(lambda plan: None), spark=spark, tick=3600.0).start()
    try:
        live.execute(f"INSERT INTO clicks VALUES {SECOND}")
        live.catch_up()
        rows = live.store.query("SELECT user, sum(n) FROM by_user GROUP BY user ORDER BY 1").rows()
        assert rows == [("ann", 2), ("bob", 2), ("eve", 1)]
        assert live.store.query("SELECT user, n FROM by_run ORDER BY 1").rows() == [("ann", 2), ("bob", 2), ("eve", 1)]
    finally:
        live.stop()
