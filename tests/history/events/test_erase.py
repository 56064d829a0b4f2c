"""Nothing in the history is edited: a tombstone says what is gone, readers honour it, compaction applies it."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.history.events.compact import Compaction, Rules
from penstock.history.events.dead import dead_letters
from penstock.history.events.erase import erase
from penstock.history.events.verify import verify
from penstock.model.time import duration
from tests.history.events.support import NOW, rows


def filled(app) -> None:
    app.epoch(rows((1, "a", 1), (2, "b", 2)))
    app.epoch(rows((3, "b", 3), first=2))
    app.epoch(rows((4, "a", 4), first=3))


def ids(app) -> list[int]:
    return app.held()["id"].to_list()


def test_rows_that_came_before_a_tombstone_are_gone_and_later_ones_are_not(app):
    filled(app)
    tombstone = erase(app.store, "orders", "user = 'b'", "asked by letter", NOW)
    assert (tombstone.commit, tombstone.reason) == (3, "asked by letter")
    assert ids(app) == [1, 4]
    app.epoch(rows((5, "b", 5), first=4))  # the correction: what is appended counts
    assert ids(app) == [1, 4, 5]
    assert app.history.past(app.stream).rows is None  # it is not known before they are read
    assert app.history.past(app.stream, after=3).rows == 1


def test_compaction_drops_them_from_the_files_and_nothing_else(app):
    filled(app)
    erase(app.store, "orders", "user = 'b'", None, NOW)
    done = Compaction(app.history, Rules(least=99)).run(NOW)
    assert done.erased == 2
    assert ids(app) == [1, 4]
    past = app.history.past(app.stream)
    assert (past.tombstones, past.rows) == ((), 2)
    assert not list(verify(app.history))
    assert not Compaction(app.history, Rules(least=99)).run(NOW)  # once is enough
    Compaction(app.history, Rules(least=99)).run(NOW + duration("2 days"))
    texts = [app.history.place.open(path).read() for path in app.paths()]
    assert texts
    assert len(app.paths()) == len(app.store.listing().files)


def test_a_tombstone_that_comes_while_it_compacts_is_not_lost(app, monkeypatch):
    filled(app)
    real = app.store.swap_files

    def meanwhile(*arguments: object) -> None:
        erase(app.store, "orders", "id = 1", None, NOW)
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(app.store, "swap_files", meanwhile)
        Compaction(app.history, Rules(least=2, behind=0)).run(NOW)
    assert ids(app) == [2, 3, 4]
    Compaction(app.history).run(NOW)
    assert ids(app) == [2, 3, 4]
    assert app.history.past(app.stream).tombstones == ()


def test_null_is_not_true(app):
    app.epoch(rows((1, "a", 1), (None, "a", 2)))
    erase(app.store, "orders", "id > 0", None, NOW)
    assert ids(app) == [None]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("usr = 'b'", "unknown column 'usr'"),
        ("user", "'user' is string, and must be true or false"),
        ("true", "names no column"),
        ("cast(user as int) = 1", "can fail on a row"),
        ("xxhash64(user) = 1", "cannot be a tombstone's condition"),
    ],
)
def test_a_condition_that_cannot_be_one_is_refused(app, condition, said):
    filled(app)
    with pytest.raises(PenstockError, match=said):
        erase(app.store, "orders", condition, None, NOW)
    assert app.store.listing().tombstones == []


def test_what_was_refused_is_erased_too_where_its_columns_can_be_told(app):
    app.epoch(rows((1, "x", 30), (2, "x", None), (3, None, 3), (4, "y", None)))
    app.epoch(rows((5, "x", 1), first=4))  # late for its window
    erase(app.store, "orders", "user = 'x' AND id < 9 AND (at IS NULL OR at > '2024-01-01')", None, NOW)
    texts = app.store.query('SELECT kind, row FROM __refused ORDER BY "commit", partition, "offset"').rows()
    assert [(kind, None if row is None else row[:5]) for kind, row in texts] == [
        ("dead", None), ("dead", "bad 3"), ("dead", '{"id"'), ("late", None),
    ]  # fmt: skip
    assert dead_letters(app.history, "orders")["offset"].to_list() == [2, 3]
    Compaction(app.history, Rules(least=99)).run(NOW)
    (file,) = app.store.listing().of("orders", "dead")
    assert file.rows == 2
    assert ids(app) == []
    assert dead_letters(app.history, "orders")["offset"].to_list() == [2, 3]
