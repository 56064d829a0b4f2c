"""What the commands share: their options, and how an error looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from penstock.errors import PenstockError
from penstock.model.time import SECOND, duration

#: The default directory of an app.
DIRECTORY = Path(".penstock")
#: Where a server listens by default.
HOST = "127.0.0.1"
PORT = 8765


def seconds(text: str) -> float:
    """A duration on the command line, in seconds.

    >>> seconds("30s"), seconds("2m"), seconds("1.5 minutes")
    (30.0, 120.0, 90.0)
    """
    amount = not_negative(text)
    if amount <= 0:
        raise typer.BadParameter(f"a duration above zero is needed, not '{text}'")
    return amount


def not_negative(text: str) -> float:
    """The same, or none at all.

    >>> not_negative("0s"), not_negative("1m")
    (0.0, 60.0)
    """
    try:
        return duration(text) / SECOND
    except PenstockError as error:
        raise typer.BadParameter(f"{error.message}: write for example 30s, 2m or 1h") from None


Directory: TypeAlias = Annotated[
    Path, typer.Option("--dir", help="The app's directory: its store, and Spark's checkpoints.", metavar="DIR")
]
Debug: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show Spark's log, and stack traces of errors.")]
Long: TypeAlias = Annotated[
    float | None, typer.Option("--for", help="Stop after this time: 30s, 2m, 1h.", parser=seconds, metavar="DURATION")
]
Master: TypeAlias = Annotated[
    str, typer.Option("--master", help="Spark master: local[4], spark://host:7077.", metavar="URL")
]
AppFile: TypeAlias = Annotated[
    Path, typer.Argument(help="A file that defines an app: Python with a ps.App, or SQL.", metavar="APP")
]
AppName: TypeAlias = Annotated[
    str | None, typer.Option("--app", help="Which app, if the file defines several.", metavar="NAME")
]

Port: TypeAlias = Annotated[
    int | None,
    typer.Option("--port", help=f"Port for HTTP; default {PORT}, 0 picks a free one.", min=0, max=65535, metavar="N"),
]
NoServe: TypeAlias = Annotated[bool, typer.Option("--no-serve", help="Do not serve HTTP.")]

NoTokens: TypeAlias = Annotated[
    bool, typer.Option("--no-tokens", help="Accept requests without a token, even if the app has had tokens.")
]


def output() -> Console:
    """Where answers go. A pipe or a file gets lines as long as they are."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=100_000)


@contextmanager
def errors_shown(debug: bool = False) -> Iterator[None]:
    """Prints an error without its stack, and ends with 1. With `debug` it passes as it is."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except Exception as error:
        if debug:
            raise
        if not isinstance(error, PenstockError):
            lines = str(error).strip().splitlines() or [""]
            error = PenstockError(f"{type(error).__name__}: {lines[0]}", hint="--debug shows the stack")
        show_error(error)
        raise typer.Exit(1) from None


def show_error(error: PenstockError) -> None:
    """An error as people read it: what was wrong, the detail, and what to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/] {escape(error.message)}")
    if error.detail:
        console.print(f"  detail: {escape(error.detail)}")
    if error.hint:
        console.print(f"  hint: {escape(error.hint)}")
