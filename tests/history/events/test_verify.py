"""Damage is found: a flipped byte, a missing or truncated file, a file with other rows than listed."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.history.events.verify import to_verify, verify
from tests.history.events.support import rows


@pytest.fixture
def path(app) -> Path:
    app.epoch(rows((1, "a", 1), (2, "a", 2)))
    app.epoch(rows((3, "a", 3), first=2))
    (first, _) = app.store.listing().files
    return Path(app.history.place.path(first.path))


def test_a_whole_history_has_no_problems(app, path):
    read: list[int] = []
    assert list(verify(app.history, on_progress=read.append)) == []
    assert (2, sum(read)) == to_verify(app.history)


def test_a_flipped_byte_is_found(app, path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (problem,) = verify(app.history)
    assert "its checksum is" in problem.message
    assert problem.file.first == 1


def test_a_missing_file_is_found(app, path):
    path.unlink()
    (problem,) = verify(app.history, "orders")
    assert problem.message == "it is missing"


def test_a_truncated_file_is_found(app, path):
    path.write_bytes(path.read_bytes()[:-10])
    (problem,) = verify(app.history)
    assert "bytes, and had" in problem.message


def test_a_file_with_other_rows_than_listed_is_found(app, path):
    app.store._writing().run("UPDATE __files SET rows = 7 WHERE first = 1")
    app.store._writing().commit()
    (problem,) = verify(app.history)
    assert problem.message == "it has 2 rows, and 7 are listed"


def test_a_file_that_is_no_parquet_is_found_even_where_its_sum_was_listed_so(app, path):
    import hashlib

    path.write_bytes(b"x" * 20)
    connection = app.store._writing()
    values = [20, hashlib.sha256(b"x" * 20).hexdigest()]
    connection.run("UPDATE __files SET bytes = ?1, checksum = ?2 WHERE first = 1", values)
    connection.commit()
    (problem,) = verify(app.history)
    assert problem.message.startswith("it cannot be read")


def test_a_stream_that_is_not_there_is_named(app, path):
    with pytest.raises(PenstockError, match="unknown stream of the history 'order'"):
        list(verify(app.history, "order"))


def test_the_files_are_plain_parquet_and_their_rows_name_no_commit(app, path):
    assert pq.read_table(path).column_names == ["id", "user", "price", "at", "__at", "__partition", "__offset"]
