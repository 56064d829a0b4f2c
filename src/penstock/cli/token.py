"""The command `token`: who may ask an app's server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.serve.tokens import Tokens

token = typer.Typer(name="token", help="Create, list and remove tokens for an app's HTTP server.", no_args_is_help=True)


@token.command()
def create(
    scope: Annotated[list[str], typer.Option("--scope", help="read, write or admin; can be repeated.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the token, shown in logs.")] = None,
    directory: Directory = DIRECTORY,
    debug: Debug = False,
) -> None:
    """Create a token. It is printed once; only its digest is stored."""
    with errors_shown(debug):
        typer.echo(Tokens(directory).create(scope, name))


@token.command("list")
def list_tokens(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """List the tokens by name."""
    with errors_shown(debug):
        table = Table("token", "scopes", "made", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for known in Tokens(directory).read():
            made = datetime.fromtimestamp(known.created, UTC)
            table.add_row(known.name, ", ".join(known.scopes), f"{made:%Y-%m-%d %H:%M}")
        output().print(table if table.row_count else "no tokens")


@token.command()
def remove(
    name: Annotated[str, typer.Argument(help="The token's name.")],
    directory: Directory = DIRECTORY,
    debug: Debug = False,
) -> None:
    """Revoke a token."""
    with errors_shown(debug):
        Tokens(directory).remove(name)
        typer.echo(f"token '{name}' removed")
