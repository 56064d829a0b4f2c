"""The command `sql`: a shell, or statements from an option, a file or a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.answers import Format
from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.cli.session import Session
from penstock.sql.dialect import Unreadable, tokenize


def sql(
    directory: Directory = DIRECTORY,
    command: Annotated[
        str | None, typer.Option("-c", "--command", help="Run these statements, then exit.", metavar="SQL")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Run the statements of a file, then exit.", metavar="FILE")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    debug: Debug = False,
) -> None:
    """Query and change a running app in SQL: in a shell, with -c, from a file, or from a pipe."""
    with errors_shown(debug):
        interactive = command is None and file is None and sys.stdin.isatty()
        session = Session(directory, output(), format, timing=interactive)
        try:
            if command is not None:
                session.text(command)
            elif file is not None:
                session.text(_contents(file), str(file))
            elif interactive:
                from penstock.cli.shell import Shell

                Shell(session, debug).loop()
            else:
                _piped(session)
        finally:
            session.close()


def _contents(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"'{file}' cannot be read: {error}", param_hint="--file") from None


def _piped(session: Session) -> None:
    """Runs each statement as soon as its semicolon has come. The first that fails ends it."""
    text, before = "", 0
    for line in sys.stdin:
        text += line
        if is_complete(text):
            session.text("\n" * before + text)
            before += text.count("\n")
            text = ""
    session.text("\n" * before + text)


def is_complete(text: str) -> bool:
    """Whether a text ends with a statement's semicolon, and not within quotes or a comment.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1 -- a;"), is_complete("SELECT 1; -- a")
    (True, False, False, True)
    """
    try:
        tokens = tokenize(text)
    except Unreadable:
        return False
    return bool(tokens) and tokens[-1].text == ";"
