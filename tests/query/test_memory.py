"""A question over a view of a million rows stays within its memory: rows are read in batches."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.store import Reader
from penstock.store.connection import BATCH
from penstock.store.scan import scanning
from tests.store.engine import StoreEngine

REPOSITORY = Path(__file__).parents[2]

CHILD = """
import sys
from penstock.query.ask import Questions
from penstock.query.limits import Limits
from penstock.store import Reader
from tests.peak_memory import peak_memory
questions = Questions(Reader(sys.argv[1]), Limits(memory=64 << 20, threads=1))
questions.ask("SELECT count(*) AS n FROM v WHERE k = 'none'")
before = peak_memory()
answer = questions.ask("SELECT count(*) AS n, sum(c) AS s, max(k) AS k FROM v WHERE c % 2 = 0")
print(answer.table.to_pylist()[0], (peak_memory() - before) >> 20)
"""


def fill(directory: Path, rows: int) -> None:
    """A store with a view of so many rows, written by SQLite itself."""
    view = ps.stream("s", schema="k string").group_by("k").agg(c=ps.count())
    StoreEngine(view, directory).store.close()
    with sqlite3.connect(directory / "store.db") as store:
        columns = [row[1:4] for row in store.execute('PRAGMA table_info("__view_v")')]
        made = {"__key": "CAST(printf('%010d', n) AS BLOB)", "k": "printf('key %010d', n)", "c": "n"}
        values = [made.get(name, "0" if needed else "NULL") for name, _, needed in columns]
        names = ", ".join(f'"{name}"' for name, _, _ in columns)
        store.execute(
            f'INSERT INTO "__view_v" ({names}) WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r '
            f"WHERE n < {rows}) SELECT {', '.join(values)} FROM r"
        )


def test_the_rows_of_a_scan_come_in_batches(tmp_path: Path) -> None:
    fill(tmp_path, 2 * BATCH + 1)
    with scanning(Reader(tmp_path)) as snapshot:
        batches = [batch.num_rows for batch in snapshot.scan(snapshot.views["v"], ["c"], [])]
    assert sum(batches) == 2 * BATCH + 1
    assert len(batches) == 3
    assert max(batches) <= BATCH


@pytest.mark.deep
def test_a_question_over_a_million_rows_stays_within_its_memory(tmp_path: Path) -> None:
    fill(tmp_path, 1_000_000)
    command = [sys.executable, "-c", CHILD, tmp_path]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    answer, megabytes = done.stdout.rsplit(" ", 1)
    assert answer == "{'n': 500000, 's': 250000500000, 'k': 'key 0001000000'}"
    assert int(megabytes) < 100
