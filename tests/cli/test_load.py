"""Which app a file makes, and how files that make none are refused. None of these needs Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from penstock.cli.load import load_app
from penstock.errors import PenstockError

Penstock = Callable[..., Result]
AppFile = Callable[..., Path]
TWO = 'import penstock as ps\na = ps.App("one")\nb = ps.App("two")\n'


def test_no_command_shows_the_commands(penstock: Penstock) -> None:
    output = penstock().output
    assert all(command in output for command in ("run", "query", "views", "status", "explain", "demo"))


@pytest.mark.parametrize(
    "command",
    [("run", "nowhere.py"), ("run", "/"), ("fly",), ("demo", "nothing"), ("explain", "nowhere.py", "v")],
    ids=" ".join,
)
def test_a_wrong_command_ends_with_2(penstock: Penstock, command: tuple[str, ...]) -> None:
    assert penstock(*command).exit_code == 2


@pytest.mark.parametrize("text", ["soon", "0s", "-3s", "5 parsecs"])
def test_a_wrong_duration_ends_with_2(penstock: Penstock, app_file: AppFile, text: str) -> None:
    result = penstock("run", app_file(), "--for", text)
    assert result.exit_code == 2
    assert "duration" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "makes no app"),
        (TWO, "makes several apps"),
        ('import penstock as ps\napp = ps.App("a")', "has no views"),
        ("import nothing_of_this_name", "app.py:1: ModuleNotFoundError"),
        ("x = (", "app.py:1: SyntaxError"),
        ('import penstock as ps\n\nps.App("a b")', "app.py:3: 'a b' cannot be an app's name"),
    ],
)
def test_a_file_without_the_app_is_refused(penstock: Penstock, app_file: AppFile, text: str, said: str) -> None:
    result = penstock("run", app_file(text))
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_debug_lets_the_error_pass(penstock: Penstock, app_file: AppFile) -> None:
    assert isinstance(penstock("run", app_file("1 / 0"), "--debug").exception, PenstockError)


def test_one_of_several_apps_is_chosen_by_name(app_file: AppFile) -> None:
    assert load_app(app_file(TWO), "two").name == "two"
    with pytest.raises(PenstockError, match="unknown app 'three'"):
        load_app(app_file(TWO), "three")


def test_one_app_under_two_names_is_one(app_file: AppFile) -> None:
    assert load_app(app_file('import penstock as ps\na = b = ps.App("one")')).name == "one"


def test_what_lies_beside_the_file_can_be_imported(app_file: AppFile, tmp_path: Path) -> None:
    (tmp_path / "beside_the_app.py").write_text('NAME = "beside"')
    text = "import penstock as ps\nfrom beside_the_app import NAME\napp = ps.App(NAME)"
    assert load_app(app_file(text)).name == "beside"


def test_a_demo_does_not_empty_a_directory_that_is_not_its_own(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    result = penstock("demo", "--no-serve", "--dir", tmp_path)
    assert result.exit_code == 1
    assert "not by a demo" in result.stderr
    assert (tmp_path / "letters").exists()
