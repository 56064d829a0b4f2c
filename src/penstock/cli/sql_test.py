"""The command `test`: scripts in SQL, on the kernel, in milliseconds."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from penstock.cli.options import Debug, errors_shown, output, show_error
from penstock.errors import PenstockError


class Engine(StrEnum):
    """What runs the views of a script."""

    kernel = "kernel"
    reference = "reference"
    spark = "spark"


def run_tests(
    files: Annotated[list[Path], typer.Argument(help="Scripts: app_test.sql, or folders of them.", metavar="FILES")],
    engine: Annotated[Engine, typer.Option("--engine", help="What runs the views.")] = Engine.kernel,
    debug: Debug = False,
) -> None:
    """Run tests that are written in SQL."""
    with errors_shown(debug):
        failed = 0
        for path in _scripts(files):
            failed += _run(path, engine, debug)
    if failed:
        raise typer.Exit(1)


def _scripts(files: list[Path]) -> list[Path]:
    scripts: list[Path] = []
    for path in files:
        if path.is_dir():
            scripts += sorted(path.rglob("*_test.sql"))
        elif path.is_file():
            scripts.append(path)
        else:
            raise typer.BadParameter(f"'{path}' does not exist", param_hint="FILES")
    if not scripts:
        raise PenstockError("there are no scripts", hint="their names end in _test.sql")
    return scripts


def _run(path: Path, engine: Engine, debug: bool) -> int:
    """Runs the tests of one file; how many failed."""
    from penstock.scripts import Script  # tools for tests are loaded only here

    started = perf_counter()
    report = Script.read(path).run(engine.value)
    took = (perf_counter() - started) * 1000
    failed = 0
    for name, error in report.tests.items():
        if error is None:
            continue
        if debug:
            raise error
        failed += 1
        typer.echo(f"{path}: {name}", err=True)
        show_error(error)
    counts = f"{len(report.tests) - failed} of {len(report.tests)} tests passed, {report.assertions} assertions"
    output().print(f"{path}: {counts}, {took:.0f} ms")
    return failed
