"""The command line: run an app, ask its views, look at its progress.

Exit codes: 0 if it went well, 1 if something was refused or failed, 2 if the command was not understood. An app that is
asked to stop, by Ctrl-C or SIGTERM, does so at the end of the epoch and ends with 0; asked once more, at once with 130.
"""

from __future__ import annotations

import typer

from penstock.cli.ask import explain, query, status, views
from penstock.cli.demo import demo
from penstock.cli.run import run
from penstock.cli.savepoint import savepoint
from penstock.cli.sql import sql
from penstock.cli.sql_test import run_tests

cli = typer.Typer(
    name="penstock",
    help="Live, correct, queryable views over event streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, sql, query, views, status, explain, demo):
    cli.command()(command)
cli.command("test")(run_tests)
cli.add_typer(savepoint)


def main() -> None:
    """What `penstock` in a shell runs."""
    cli()


__all__ = ["cli", "main"]
