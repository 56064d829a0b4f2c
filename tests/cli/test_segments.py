"""The commands that ask, for a view whose rows are in segments: the same answers, and where its state is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from penstock.cli.view_rows import ask_views
from penstock.kernel.plan import Plan
from penstock.store import Reader, SqliteStore
from tests.cli.conftest import BY_PAGE

Penstock = Callable[..., Result]
ALL = "SELECT * FROM by_page ORDER BY window_start, page"
PLACE = "in segments: 4 shards, 2 segments"


@pytest.fixture
def sharded(directory: Path, tmp_path: Path) -> Path:
    """The directory of an app with its view in segments."""
    path = tmp_path / "sharded"
    shutil.copytree(directory, path)
    store = SqliteStore.open(path)
    store.lock()
    store.prepare({"by_page": Plan(BY_PAGE)})
    store.shard("by_page", 4)
    store.close()
    return path


def test_a_question_has_the_answer_that_it_had_before(penstock: Penstock, directory: Path, sharded: Path) -> None:
    answers = [penstock("query", ALL, "--dir", path, "--format", "json").stdout for path in (directory, sharded)]
    assert len(json.loads(answers[0])) == 3
    assert answers[0] == answers[1]


def test_views_status_and_explain_say_where_state_is(
    penstock: Penstock, directory: Path, sharded: Path, app_file: Callable[..., Path]
) -> None:
    row = penstock("views", "--dir", sharded).output.splitlines()[2]
    assert row.split()[:4] == ["by_page", "3", "2", "2024-05-01T12:00:12Z"]
    assert PLACE in row
    assert f"by_page   {PLACE}" in penstock("status", "--dir", sharded).output
    assert "at most 3 rows, space 1.0 times" in penstock("status", "--dir", sharded).output
    assert PLACE in penstock("explain", app_file(), "by_page", "--dir", sharded).output
    assert "in the store" in penstock("views", "--dir", directory).output
    assert "in the store" in penstock("explain", app_file(), "by_page", "--dir", directory).output


def test_a_demo_asks_small_views_wherever_their_rows_are(directory: Path, sharded: Path) -> None:
    sql = "SELECT page, sum(n) AS n FROM by_page WHERE window_end <= ?1 AND final GROUP BY page ORDER BY page"
    answers = [ask_views(Reader(path), sql, ["2024-05-01 12:00:10"]).rows() for path in (directory, sharded)]
    assert answers == [[("/a", 2), ("/b", 1)]] * 2


@pytest.mark.parametrize("command", [("query", ALL), ("views",), ("status",)])
@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_a_damaged_file_is_named(penstock: Penstock, sharded: Path, command: tuple[str, ...], damage: str) -> None:
    (path,) = (sharded / "state").iterdir()
    path.write_bytes(path.read_bytes()[:64]) if damage == "cut off" else path.unlink()
    result = penstock(*command, "--dir", sharded)
    assert result.exit_code == 1
    assert path.name in result.stderr
    assert "Traceback" not in result.stderr
