"""What a command loads: its own module, and the libraries that it uses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from penstock.cli.commands import COMMANDS, loaded

#: Prints what is loaded when the command of the arguments has ended.
SCRIPT = """
import atexit, sys
from penstock.cli import main

heavy = {"adbc_driver_manager", "duckdb", "numpy", "pandas", "polars", "pyarrow", "pyspark", "sqlglot"}
of = lambda name: sys.modules.get(name) is not None
atexit.register(lambda: print("loaded:", *sorted(filter(of, heavy | {"penstock.runtime.run", "penstock.app"}))))
main()
"""


def libraries(*arguments: object) -> set[str]:
    """The heavy libraries that a command loads in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(output.splitlines()[-1].removeprefix("loaded:").split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_library_for_data(option: str):
    assert libraries(option) == set()


def test_a_query_loads_neither_spark_nor_pandas_nor_the_runtime(directory: Path):
    used = libraries("query", "SELECT count(*) FROM by_page", "--dir", directory)
    assert used == {"adbc_driver_manager", "duckdb", "numpy", "polars", "pyarrow", "sqlglot"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_beginning_of_its_help(name: str):
    first, *_ = loaded(name).help.split("\n\n")
    assert " ".join(first.split()) == COMMANDS[name].summary


def test_the_version_is_shown(penstock: Callable[..., Result]):
    result = penstock("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("penstock 0.")


def test_a_command_that_does_not_exist_is_refused_with_one_that_does(penstock: Callable[..., Result]):
    result = penstock("qery")
    assert result.exit_code == 2
    assert "Did you mean 'query'?" in result.output
