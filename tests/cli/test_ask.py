"""`query`, `views`, `status` and `explain`: what they print, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import Result

from penstock.store import Commit, SqliteStore
from penstock.store.operator_timings import OperatorTiming, timing_details
from tests.browser.live import LiveApp

Penstock = Callable[..., Result]
ALL = "SELECT * FROM by_page ORDER BY window_start, page"


def test_a_question_is_answered_as_a_table(penstock: Penstock, directory: Path) -> None:
    result = penstock("query", ALL, "--dir", directory)
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0] == ["page", "window_start", "window_end", "n", "final"]
    assert lines[2] == ["/a", "2024-05-01", "12:00:00", "2024-05-01", "12:00:10", "2", "true"]
    assert lines[-1] == ["3", "rows"]


def test_a_question_is_answered_as_json(penstock: Penstock, directory: Path) -> None:
    rows = json.loads(penstock("query", ALL, "--dir", directory, "--format", "json").stdout)
    assert [(row["page"], row["n"], row["final"]) for row in rows] == [("/a", 2, 1), ("/b", 1, 1), ("/a", 1, 0)]


def test_a_question_is_answered_as_csv(penstock: Penstock, directory: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(penstock("query", ALL, "--dir", directory, "--format", "csv").stdout)))
    assert [(row["page"], row["n"]) for row in rows] == [("/a", "2"), ("/b", "1"), ("/a", "1")]


@pytest.mark.parametrize(("form", "expected"), [("json", "[]\n"), ("csv", "page,n\n")])
def test_an_answer_without_rows_is_still_one(penstock: Penstock, directory: Path, form: str, expected: str) -> None:
    result = penstock("query", "SELECT page, n FROM by_page WHERE n > 99", "--dir", directory, "--format", form)
    assert (result.exit_code, result.stdout) == (0, expected)


def test_null_and_brackets_are_shown_as_they_are(penstock: Penstock, directory: Path) -> None:
    result = penstock("query", "SELECT CAST(NULL AS INT) AS a, '[bold]x' AS b", "--dir", directory)
    assert "null" in result.output
    assert "[bold]x" in result.output


def test_a_column_of_the_stores_own_tables_may_have_any_name(penstock: Penstock, directory: Path) -> None:
    result = penstock("query", "SELECT count(*) AS `[b]` FROM __commits", "--dir", directory)
    assert result.output.splitlines()[0].strip() == "[b]"


def test_a_wrong_table_is_refused_with_those_that_exist(penstock: Penstock, directory: Path) -> None:
    result = penstock("query", "SELECT * FROM by_pge", "--dir", directory)
    assert result.exit_code == 1
    assert "unknown view 'by_pge'" in result.stderr
    assert "did you mean 'by_page'?" in result.stderr
    assert "Traceback" not in result.output
    result = penstock("query", "SELECT * FROM __commit", "--dir", directory)
    assert "unknown view '__commit'" in result.stderr
    assert "by_page" in result.stderr


def test_a_wrong_column_and_wrong_syntax_are_refused(penstock: Penstock, directory: Path) -> None:
    assert "unknown column 'pge'" in penstock("query", "SELECT pge FROM by_page", "--dir", directory).stderr
    assert "cannot read this SELECT" in penstock("query", "SELECT FROM WHERE", "--dir", directory).stderr


def test_nothing_can_be_written(penstock: Penstock, directory: Path) -> None:
    for sql in ("DELETE FROM by_page", "WITH a AS (SELECT 1) DELETE FROM __commits"):
        assert penstock("query", sql, "--dir", directory).exit_code == 1
    left = penstock("query", "SELECT count(*) AS n FROM __commits", "--dir", directory, "--format", "csv")
    assert left.stdout == "n\n2\n"


@pytest.mark.parametrize("command", [("query", "SELECT 1"), ("views",), ("status",)])
def test_a_directory_without_a_store_is_refused(penstock: Penstock, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = penstock(*command, "--dir", tmp_path)
    assert result.exit_code == 1
    assert "there is no store" in result.stderr
    assert "hint: run the app first" in result.stderr


def test_an_unknown_format_is_a_wrong_command(penstock: Penstock, directory: Path) -> None:
    assert penstock("query", "SELECT 1", "--dir", directory, "--format", "yaml").exit_code == 2


def test_views_are_listed_with_rows_watermark_and_definition(penstock: Penstock, directory: Path) -> None:
    result = penstock("views", "--dir", directory)
    row = result.output.splitlines()[2]
    assert row.split()[:4] == ["by_page", "3", "2", "2024-05-01T12:00:12Z"]
    assert "visits.group_by('page').window(ps.fixed('10 seconds')).agg(n=ps.count())" in row


def test_the_status_counts_commits_events_and_refusals(penstock: Penstock, directory: Path) -> None:
    output = penstock("status", "--dir", directory).output
    found = {words[0]: words[1] for line in output.splitlines() if len(words := line.split()) > 1}
    assert found["commits"] == "2,"
    assert (found["epochs"], found["events"], found["events/s"]) == ("2", "4", "0")
    assert (found["late"], found["duplicate"], found["dead"]) == ("1", "0", "1")
    assert "stream   visits    2024-05-01T12:00:12Z" in output
    assert "view     by_page   2024-05-01T12:00:12Z" in output


def test_a_view_is_explained(penstock: Penstock, app_file: Callable[..., Path]) -> None:
    result = penstock("explain", app_file(), "by_page")
    assert result.exit_code == 0
    assert "ps.fixed('10 seconds')" in result.output


def test_the_dataflow_is_explained_before_the_views(penstock: Penstock, app_file: Callable[..., Path]) -> None:
    result = penstock("explain", app_file())
    assert result.exit_code == 0
    assert result.output.startswith("dataflow of shop\n  group 1\n    source visits · files('in')")
    assert "      view by_page ← visits" in result.output
    assert "\nby_page\n  input\n" in result.output


def test_the_dataflow_is_drawn(penstock: Penstock, app_file: Callable[..., Path], tmp_path: Path) -> None:
    picture = tmp_path / "dataflow.svg"
    result = penstock("explain", app_file(), "--svg", picture)
    assert (result.exit_code, result.output) == (0, "")
    assert {text.text for text in ElementTree.parse(picture).iter() if text.tag.endswith("text")} >= {
        "visits", "by_page", "group 1",
    }  # fmt: skip


def test_status_has_the_last_step_of_each_operator(penstock: Penstock, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.lock()
    for seconds, jobs in ((0.5, 0), (1.25, 2)):
        store.commit(Commit(kind="tick", now=1, details=timing_details({"pairs": OperatorTiming(seconds, jobs)})))
    store.commit(Commit(kind="tick", now=2))
    store.close()
    lines = [line.split() for line in penstock("status", "--dir", tmp_path).output.splitlines()]
    assert ["operator", "last", "step", "Spark", "jobs"] in lines
    assert ["pairs", "1", "250", "ms", "2"] in lines


def test_status_has_the_freshness_of_views_and_sinks(penstock: Penstock, tmp_path: Path) -> None:
    live = LiveApp(tmp_path)
    live.commit()
    live.store.close()
    lines = [line.split() for line in penstock("status", "--dir", tmp_path).output.splitlines()]
    assert ["freshness", "name", "median", "99", "%", "within", "events,", "last", "minute"] in lines
    assert {tuple(line[:2]) for line in lines if "ms" in line} == {
        *(("view", name) for name in live.app.views), ("sink", "trending_jsonl"),
    }  # fmt: skip


def test_an_unknown_view_is_refused_with_the_near_one(penstock: Penstock, app_file: Callable[..., Path]) -> None:
    result = penstock("explain", app_file(), "by_pag")
    assert result.exit_code == 1
    assert "did you mean 'by_page'?" in result.stderr


def test_a_reserved_word_names_a_column_of_the_stores_own_tables(penstock: Penstock, directory: Path) -> None:
    result = penstock(
        "query", "SELECT commit, kind FROM __refused ORDER BY commit", "--dir", directory, "--format", "json"
    )
    assert {row["kind"] for row in json.loads(result.stdout)} == {"late", "dead"}
    assert all(isinstance(row["commit"], int) for row in json.loads(result.stdout))
