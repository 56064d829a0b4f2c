"""`penstock sql` on a store that no app writes: options, pipes and the shell on a terminal. None needs Spark."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import cli
from tests.cli.terminal import Terminal

Penstock = Callable[..., Result]
ALL = "SELECT page, n, final FROM by_page ORDER BY window_start, page"


def piped(directory: Path, text: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sql", "--dir", str(directory), *arguments], input=text)


def test_a_command_is_run_and_its_answer_printed(penstock: Penstock, directory: Path) -> None:
    result = penstock("sql", "--dir", directory, "-c", ALL)
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0] == ["page", "n", "final"]
    assert lines[2:] == [["/a", "2", "true"], ["/b", "1", "true"], ["/a", "1", "false"], ["3", "rows"]]


def test_answers_come_as_json_and_csv(penstock: Penstock, directory: Path) -> None:
    rows = json.loads(penstock("sql", "--dir", directory, "-c", ALL, "--format", "json").stdout)
    assert rows[0] == {"page": "/a", "n": 2, "final": 1}
    text = penstock("sql", "--dir", directory, "-c", "DESCRIBE by_page", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text)))[:2] == [["column", "type"], ["page", "string"]]


def test_a_file_is_read_whole_before_anything_runs(penstock: Penstock, directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "ask.sql"
    file.write_text("SELECT count(*) AS n FROM by_page;\n\n  SELEC page FROM by_page;\n")
    result = penstock("sql", "--dir", directory, "-f", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{file}:3:3: " in result.stderr
    assert "  SELEC page" in result.stderr
    assert penstock("sql", "--dir", directory, "-f", tmp_path / "nothing.sql").exit_code == 2


def test_a_pipe_is_run_statement_by_statement_until_one_fails(directory: Path) -> None:
    result = piped(directory, "SELECT 1 AS one;\nSELECT\n  nn FROM by_page; SELECT 3 AS three;\n", "--format", "csv")
    assert (result.exit_code, result.stdout) == (1, "one\n1\n")
    assert "sql:3:3: unknown column 'nn'" in result.stderr
    assert "did you mean 'n'?" in result.stderr


def test_the_last_semicolon_may_be_left_out(directory: Path) -> None:
    assert piped(directory, "SELECT 1 AS a;\n-- nothing\nSELECT ';' AS b", "--format", "csv").stdout == "a\n1\nb\n;\n"


@pytest.mark.parametrize("statement", ["CREATE STREAM s (a INT) FROM FILES 'x'", "DROP VIEW by_page", "SHOW STREAMS"])
def test_what_needs_an_app_says_how_to_start_one(penstock: Penstock, directory: Path, statement: str) -> None:
    result = penstock("sql", "--dir", directory, "-c", statement)
    assert result.exit_code == 1
    assert f"no app runs in '{directory}'" in result.stderr
    assert "penstock run app.sql" in result.stderr


def test_views_are_listed_without_an_app(penstock: Penstock, directory: Path) -> None:
    assert "by_page   stopped" in penstock("sql", "--dir", directory, "-c", "SHOW VIEWS").output


def test_a_directory_without_a_store_is_named(penstock: Penstock, tmp_path: Path) -> None:
    for statement in ("SELECT 1", "SUBSCRIBE TO x"):
        result = penstock("sql", "--dir", tmp_path, "-c", statement)
        assert result.exit_code == 1
        assert "there is no store" in result.stderr


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM sqlite_schema", "unknown view"),
        ("SELECT * FROM `by_page\" UNION SELECT 1 --`", "unknown view"),
        ("SELECT `n\" FROM by_page; DROP TABLE __views; --` FROM by_page", "unknown column"),
        ("SELECT load_extension('x')", "no function 'load_extension'"),
        ("SELECT * FROM pragma_table_info('by_page')", "is not a view"),
        ("ATTACH DATABASE 'x' AS y", "sql:1:1"),
        ("PRAGMA writable_schema = 1", "sql:1:1"),
        ("DELETE FROM by_page", "sql:1:1"),
        ("HISTORY", "sql:1:1"),
    ],
)  # fmt: skip
def test_nothing_but_views_can_be_reached(penstock: Penstock, directory: Path, statement: str, said: str) -> None:
    result = penstock("sql", "--dir", directory, "-c", statement)
    assert result.exit_code == 1
    assert said in result.stderr
    assert (
        penstock("query", "SELECT count(*) AS n FROM __views", "--dir", directory, "--format", "csv").output == "n\n1\n"
    )


@pytest.mark.parametrize("text", ["x' OR '1'='1", "x'; DROP TABLE __views; --", 'x" OR 1=1', "?1", ":p1"])
def test_a_literal_is_a_value_whatever_it_holds(penstock: Penstock, directory: Path, text: str) -> None:
    literal = "'" + text.replace("'", "''") + "'"
    sql = f"SELECT count(*) AS n, {literal} AS said FROM by_page WHERE page = {literal}"
    (row,) = json.loads(penstock("sql", "--dir", directory, "-c", sql, "--format", "json").stdout)
    assert row == {"n": 0, "said": text}


def test_a_pipe_gets_the_snapshot_of_a_subscription_at_once(directory: Path) -> None:
    arguments = ["sql", "--dir", str(directory), "--format", "json", "-c"]
    subscribe = "SUBSCRIBE TO by_page WHERE page <> '/b' WITH (SNAPSHOT)"
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", *arguments, subscribe], stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None
            rows = [json.loads(running.stdout.readline()) for _ in range(2)]
        finally:
            running.kill()
    assert [(row["page"], row["n"], row["diff"], row["timing"]) for row in rows] == [
        ("/a", 2, 1, "snapshot"), ("/a", 1, 1, "snapshot"),
    ]  # fmt: skip


def test_the_shell_on_a_terminal(directory: Path, tmp_path: Path) -> None:
    with Terminal("sql", "--dir", str(directory), cwd=tmp_path) as shell:
        shell.expect("no app runs")
        shell.expect("penstock>")
        shell.send("SELECT page,\r")
        shell.send("n FROM by_page WHERE n > 1;\r")  # a statement of two lines
        assert "/a" in shell.expect("1 row (")
        shell.expect("penstock>")
        shell.send("SELECT nn FROM by_page;\r")
        shell.expect("error: sql:1:8: unknown column 'nn'")
        shell.expect("       ^")
        shell.expect("did you mean 'n'?")
        shell.expect("penstock>")
        shell.send("\\d by_page\r")
        shell.expect("window_start   timestamp")
        shell.expect("penstock>")
        shell.send("\\timing\r")
        shell.expect("timing is off")
        shell.send("\\watch 0.1\r")
        for _ in range(3):
            shell.expect("/a")
            shell.expect("1 row")
        shell.interrupt()
        shell.expect("penstock>")
        shell.send("SUBSCRIBE TO by_page WITH (SNAPSHOT);\r")
        for _ in range(3):
            shell.expect("snapshot")
        shell.interrupt()
        shell.expect("ended after 3 rows")
        shell.expect("penstock>")
        shell.send("SELECT final FROM by_p\t ORDER BY window_s\t LIMIT 1;\r")
        shell.expect("1 row")
        shell.expect("penstock>")
        shell.send("\\nothing\r")
        shell.expect("unknown command")
        shell.send("\\?\r")
        shell.expect("\\watch [seconds]")
        shell.send("\\q\r")
        assert shell.process.wait(30) == 0
    assert "+SELECT nn FROM by_page;" in (tmp_path / "penstock" / "history").read_text()
