"""The examples: their tests hold on both engines, they load as apps, and the command line runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock import sql
from penstock.cli import cli
from penstock.cli.load import load_app
from penstock.scripts import Engine, Script

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.rglob("*_test.sql"))
APPS = sorted(EXAMPLES.rglob("app.sql"))


def test_every_app_has_a_test() -> None:
    assert [path.parent for path in APPS] == [path.parent for path in SCRIPTS]
    assert len(APPS) >= 5


@pytest.mark.parametrize("engine", ["kernel", "reference"])
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
def test_the_tests_of_an_example_hold(path: Path, engine: Engine) -> None:
    report = Script.read(path).run(engine)
    assert [str(error) for error in report.tests.values() if error] == []
    assert report.assertions >= 3


@pytest.mark.parametrize("path", APPS, ids=lambda path: path.parent.name)
def test_an_example_is_an_app_like_one_in_python(path: Path) -> None:
    app = load_app(path)
    assert app.name == path.parent.name
    for name, view in app.views.items():
        assert sql.parse_one(sql.show(view, name))
        assert view.explain()


@pytest.mark.parametrize("path", APPS, ids=lambda path: path.parent.name)
def test_an_example_is_printed_and_read_back_as_the_same_app(path: Path) -> None:
    app, again = load_app(path), load_app(path)
    again.views.clear()
    again.sinks.clear()
    names = {flow: name for name, flow in sql.flows(app).items()}
    for name, view in app.views.items():
        sql.define(again, sql.parse_one(sql.show(view, name, names)))
    assert again.views == app.views


def test_the_command_line_runs_tests(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["test", str(EXAMPLES)])
    assert result.exit_code == 0
    assert "5 assertions" in result.output

    wrong = tmp_path / "wrong_test.sql"
    wrong.write_text(
        "CREATE STREAM s (k STRING);\nCREATE CONTINUOUS VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k;\n"
        "TEST 'good';\nINSERT INTO s VALUES ('a');\nASSERT v (k, n) EQUALS ('a', 1);\n"
        "TEST 'bad';\nINSERT INTO s VALUES ('a');\nASSERT v (k, n) EQUALS ('a', 2);\n"
    )
    result = CliRunner().invoke(cli, ["test", str(wrong)])
    assert result.exit_code == 1
    assert "1 of 2 tests passed" in result.output
    assert "wrong_test.sql:8:25: row 1 is missing" in result.output


def test_the_command_line_shows_where_a_file_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    path.write_text("CREATE STREAM s (k STRING) FROM FILES 'x';\nCREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s;\n")
    result = CliRunner().invoke(cli, ["explain", str(path)])
    assert result.exit_code == 1
    assert "shop.sql:2:36: 'count(*)' needs a name" in result.output


def test_an_app_in_sql_is_explained(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["explain", str(EXAMPLES / "word_count" / "app.sql"), "word_count"])
    assert result.exit_code == 0
    assert "n = ps.count()" in result.output


def test_no_script_ends_with_an_error(tmp_path: Path) -> None:
    assert CliRunner().invoke(cli, ["test", str(tmp_path)]).exit_code == 1
    assert CliRunner().invoke(cli, ["test", str(tmp_path / "nowhere.sql")]).exit_code == 2
