"""`penstock history`, `penstock erase` and `penstock dead-letter`: on an app that rests, and on one that runs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import cli
from penstock.control.server import Server
from penstock.control.tasks import do
from penstock.history.events.erase import erase
from penstock.history.events.event_history import EventHistory
from penstock.runtime.dead_letters import RetryCounts
from penstock.runtime.keeper import Keeper
from penstock.store import Reader
from tests.history.events.support import NOW, App, rows


@pytest.fixture
def directory(app: App, tmp_path: Path) -> Path:
    """An app that rests, with dead letters and two small files."""
    app.epoch(rows((1, "a", 1), (2, "b", 2), (3, None, 3), (4, "a", None)))
    app.epoch(rows((5, "b", 5), (6, None, 6), first=4))
    app.close()
    return tmp_path / "state"


def penstock(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def test_status_says_what_is_held(directory):
    result = penstock("history", "status", "--dir", directory)
    assert result.exit_code == 0
    line = next(line.split() for line in result.output.splitlines() if line.startswith("orders"))
    assert line[:5] == ["orders", "all", "everything", "2", "3"]
    assert line[-4:] == ["2", "3", "1.0×", "1.0×"]
    assert str(directory / "history") in result.output


def test_the_old_name_of_the_command_works_with_a_warning(directory):
    result = penstock("master", "status", "--dir", directory)
    assert result.exit_code == 0
    assert "warning: penstock master is called penstock history now" in result.stderr
    assert "orders" in result.stdout
    assert "master" not in penstock("--help").output.replace("--master", "")


def test_verify_reads_everything_and_ends_with_1_where_a_file_differs(directory):
    assert penstock("history", "verify", "--dir", directory).exit_code == 0
    path = next((directory / "history").rglob("0000*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    result = penstock("history", "verify", "orders", "--dir", directory)
    assert result.exit_code == 1
    assert "1 of 4 files differ" in result.output
    assert "its checksum is" in result.output


def test_compact_and_erase_work_on_an_app_that_rests(directory):
    result = penstock("erase", "orders", "--where", "user = 'b'", "--reason", "by law", "--dir", directory)
    assert result.exit_code == 0, result.output
    assert "tombstone 1: events of 'orders' up to commit 2 with user = 'b'" in result.output
    result = penstock("history", "compact", "--dir", directory)
    assert "2 rows erased" in result.output
    reader = Reader(directory)
    assert len(reader.listing().of("orders")) == 1
    assert reader.listing().of("orders")[0].rows == 1
    assert penstock("history", "compact", "--dir", directory).output.strip() == "nothing to compact"
    assert penstock("erase", "orders", "--where", "usr = 'b'", "--dir", directory).exit_code == 1


def test_dead_letters_are_listed_and_shown(directory):
    result = penstock("dead-letter", "list", "--dir", directory)
    assert [line.split()[:2] for line in result.output.splitlines()[2:]] == [["orders", "2"], ["orders", "1"]]
    shown = penstock(
        "dead-letter", "show", "orders", "--where", "reason LIKE '%null%'", "--dir", directory, "--format", "json"
    )
    (row,) = json.loads(shown.stdout)
    assert (row["commit"], row["partition"], row["offset"]) == (1, 0, 3)
    assert json.loads(row["row"])["id"] == 4


def test_to_retry_without_a_running_app_one_must_say_which_it_is(directory):
    result = penstock("dead-letter", "retry", "orders", "--dir", directory)
    assert result.exit_code == 1
    assert "--app app.py" in result.output


def test_a_directory_without_a_store_is_refused_and_left_alone(tmp_path):
    for command in (["history", "status"], ["history", "compact"], ["erase", "orders", "--where", "id = 1"]):
        result = penstock(*command, "--dir", tmp_path / "nothing")
        assert result.exit_code == 1
        assert "there is no store" in result.output
    assert not (tmp_path / "nothing").exists()


def test_a_running_app_does_the_work_itself(app, tmp_path):
    app.epoch(rows((1, "a", 1)))
    app.epoch(rows((2, "b", 2), first=1))
    asked: list[tuple[str, str | None]] = []

    def retry(stream: str, where: str | None) -> RetryCounts:
        asked.append((stream, where))
        return RetryCounts(5, 2)

    run: Any = SimpleNamespace(
        erase=lambda stream, where, reason: erase(app.store, stream, where, reason, NOW),
        retry_dead_letters=retry,
        keeper=Keeper(app.history, lambda: NOW),
    )
    directory = tmp_path / "state"
    server = Server("test", directory, lambda sql, file: pytest.fail(sql), lambda name, given: do(run, name, given))
    try:
        result = penstock("erase", "orders", "--where", "user = 'b'", "--dir", directory)
        assert "tombstone 1" in result.output
        result = penstock("history", "compact", "--dir", directory)
        assert "2 files became 1, 2 rows; 1 rows erased" in result.output
        result = penstock("dead-letter", "retry", "orders", "--where", "commit = 1", "--dir", directory)
        assert "5 dead letters of 'orders' retried: 3 succeeded, 2 failed again" in result.output
        assert asked == [("orders", "commit = 1")]
        result = penstock("erase", "nobody", "--where", "user = 'b'", "--dir", directory)
        assert result.exit_code == 1
        assert "unknown stream of the history 'nobody'" in result.output
    finally:
        server.close()
    assert EventHistory(Reader(directory)).past(app.stream).read()["id"].to_list() == [1]
