"""The command line: run an app, ask its views, look at its progress.

Exit codes: 0 if it went well, 1 if something was refused or failed, 2 if the command was not understood. An app that is
asked to stop, by Ctrl-C or SIGTERM, does so at the end of the epoch and ends with 0; asked once more, at once with 130.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated, NoReturn

import typer

from penstock.cli.commands import Commands
from penstock.cli.ending import end_process
from penstock.private import private_umask

cli = typer.Typer(
    name="penstock",
    cls=Commands,
    help="Live, correct, queryable views over event streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Live, correct, queryable views over event streams."""


def main() -> NoReturn:
    """What `penstock` in a shell runs. All that it and its Java write is private."""
    private_umask()
    if sys.argv[1:2] == ["query"]:
        gc.disable()  # it ends before there is much to collect
        sys.modules["pandas"] = None  # type: ignore[assignment]  # PyArrow would load it, and nothing here uses it
    try:
        cli()
    except SystemExit as ended:
        end_process(ended.code)
    end_process(0)


__all__ = ["cli", "main"]
