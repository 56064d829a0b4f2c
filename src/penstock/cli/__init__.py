"""The command line: run an app, ask its views, look at its progress.

Exit codes: 0 if it went well, 1 if something was refused or failed, 2 if the command was not understood. An app that is
asked to stop, by Ctrl-C or SIGTERM, does so at the end of the epoch and ends with 0; asked once more, at once with 130.
"""

from __future__ import annotations

import typer

from penstock.cli.ask import explain, query, status, views
from penstock.cli.audit import audit
from penstock.cli.batch import batch
from penstock.cli.dead_letter import dead_letter
from penstock.cli.demo import demo
from penstock.cli.erase import erase
from penstock.cli.history import ask
from penstock.cli.master import master
from penstock.cli.replace import replace, rollback
from penstock.cli.replay import replay
from penstock.cli.run import run
from penstock.cli.savepoint import savepoint
from penstock.cli.serve import serve
from penstock.cli.sql import sql
from penstock.cli.sql_test import run_tests
from penstock.cli.token import token
from penstock.cli.trust import trust
from penstock.private import private_umask

cli = typer.Typer(
    name="penstock",
    help="Live, correct, queryable views over event streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, sql, query, ask, views, status, explain, erase, batch, replay, replace, rollback, audit, demo):
    cli.command()(command)
cli.command("test")(run_tests)
cli.add_typer(savepoint)
cli.add_typer(master)
cli.add_typer(dead_letter)
cli.command()(serve)
cli.command()(trust)
cli.add_typer(token)


def main() -> None:
    """What `penstock` in a shell runs. All that it and its Java write is private."""
    private_umask()
    cli()


__all__ = ["cli", "main"]
