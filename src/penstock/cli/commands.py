"""The commands of `penstock`, each loaded when it is called.

Their summaries stand here too, so that `penstock --help` loads none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True)
class Entry:
    """A command or a group of commands: the module of this package, its name there, and the first lines of its help."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final = {
    "run": Entry("run", "run", "Run an app until Ctrl-C. It goes on where it was stopped or killed."),
    "sql": Entry(
        "sql",
        "sql",
        "Ask and change a running app in SQL. Without options a shell; a pipe is read statement by statement.",
    ),
    "query": Entry("query", "query", "Ask the views a question in SQL, also while the app runs."),
    "ask": Entry(
        "ask_history",
        "ask",
        "Ask all of history a question, in Spark SQL: the app that runs answers it, or Spark is started for it.",
    ),
    "views": Entry("ask", "views", "List the views: rows, how many of them are final, watermark, definition."),
    "status": Entry(
        "ask",
        "status",
        "Show how far the app is: commits, events, watermarks, what was refused, and how far it is behind its logs.",
    ),
    "schema": Entry("schema", "schema", "Infer the schema of a file from its rows, and print it for an app."),
    "explain": Entry("ask", "explain", "Explain an app: its dataflow, and each view in full."),
    "erase": Entry(
        "erase",
        "erase",
        "Erase events that have come so far: batch leaves them out, and compaction drops them from the files.",
    ),
    "batch": Entry(
        "batch",
        "batch",
        "Compute views from all of history beside the running ones, and swap. To it no event is late, unless told so.",
    ),
    "replay": Entry(
        "replay",
        "replay",
        "Rebuild a stream's views beside the running ones from what its log still has, and swap.",
    ),
    "replace": Entry(
        "replace",
        "replace",
        "Compute a view by the definition that a file has now, beside the old one, which goes on answering; then swap.",
    ),
    "rollback": Entry(
        "replace",
        "rollback",
        "Make the definition before the current one the view again, computed from all of history.",
    ),
    "audit": Entry(
        "audit", "audit", "Recompute views from the history and the recorded decisions, and compare every row."
    ),
    "demo": Entry(
        "demo",
        "demo",
        "Watch views change: made-up posts with their trending tags, or a year of departures from New York.",
    ),
    "test": Entry("sql_test", "run_tests", "Run tests that are written in SQL."),
    "serve": Entry(
        "serve",
        "serve",
        "Serve the views of an app over HTTP, from its directory, whether it runs or not. Ctrl-C stops it.",
    ),
    "trust": Entry(
        "trust",
        "trust",
        "Take the Python functions and objects in a store for this app's own, while no app runs there.",
    ),
    "savepoint": Entry(
        "savepoint", "savepoint", "Keep a consistent cut of an app's store, offsets and definitions, and go on from it."
    ),
    "history": Entry(
        "history", "history", "Inspect, verify and compact the history: every accepted event, in Parquet."
    ),
    "dead-letter": Entry(
        "dead_letter",
        "dead_letter",
        "Rows that a stream has refused: look at them, and feed them in again after a fix.",
    ),
    "token": Entry("token", "token", "Tokens for the HTTP server of an app."),
}

#: What commands were called before. They work for one version, with a warning.
BEFORE: Final = {"master": "history"}


class Commands(TyperGroup):
    """Knows the names and summaries of all commands, and loads the one that is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in BEFORE:
            new = BEFORE[args[0]]
            typer.echo(f"warning: penstock {args[0]} is called penstock {new} now", err=True)
            args = [new, *args[1:]]
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None or name is None else loaded(name), rest


def loaded(name: str) -> Any:
    """A command in full, from its module."""
    entry = COMMANDS[name]
    part = getattr(import_module(f"penstock.cli.{entry.module}"), entry.attribute)
    app = typer.Typer(add_completion=False)
    if isinstance(part, typer.Typer):
        app.add_typer(part)
    else:
        app.command(name)(part)
    return typer.main.get_group(app).commands[name]
