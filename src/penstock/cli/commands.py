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
    "init": Entry("init", "init", "Write a small app to begin with: app.py, its test, some data and a README."),
    "run": Entry("run", "run", "Run an app until Ctrl-C. A restarted app resumes where it stopped."),
    "plan": Entry(
        "plan",
        "plan",
        "Show what changes from the app in --dir to the one in a file, and what each change costs. Changes nothing.",
    ),
    "apply": Entry(
        "plan",
        "apply",
        "Change the app in --dir to the one in a file, as penstock plan shows: all of it or, if a step fails, nothing.",
    ),
    "drop": Entry(
        "drop",
        "drop",
        "Drop views, sinks and streams from the store of a stopped app, for example those that its file no longer has.",
    ),
    "sql": Entry(
        "sql",
        "sql",
        "Query and change a running app in SQL: in a shell, with -c, from a file, or from a pipe.",
    ),
    "query": Entry("query", "query", "Query the views in SQL, also while the app runs."),
    "ask": Entry(
        "ask_history",
        "ask",
        "Query the history in Spark SQL. Starts Spark if the app does not run.",
    ),
    "views": Entry("ask", "views", "List the views: rows, final rows, watermark, definition."),
    "status": Entry(
        "ask",
        "status",
        "Show progress: commits, events, watermarks, rejected rows, and the lag behind each source.",
    ),
    "schema": Entry("schema", "schema", "Infer the schema of a file from its rows, and print it for an app."),
    "explain": Entry("ask", "explain", "Explain an app: its dataflow, and each view with all defaults."),
    "erase": Entry(
        "erase",
        "erase",
        "Erase past events of a stream: batch runs skip them, and compaction removes them from the files.",
    ),
    "batch": Entry(
        "batch",
        "batch",
        "Recompute views from the history while they run, then swap. Late events count, unless --late says otherwise.",
    ),
    "replay": Entry(
        "replay",
        "replay",
        "Rebuild a stream's views from what its source still has, while they run, then swap.",
    ),
    "replace": Entry(
        "replace",
        "replace",
        "Replace a view by the definition in a file: compute it while the old one keeps answering, then swap.",
    ),
    "rollback": Entry(
        "replace",
        "rollback",
        "Go back to the previous definition of a view, recomputed from the history.",
    ),
    "audit": Entry(
        "audit", "audit", "Recompute views from the history and the recorded decisions, and compare every row."
    ),
    "demo": Entry(
        "demo",
        "demo",
        "Watch views change: trending tags of generated posts, or a year of departures from New York.",
    ),
    "test": Entry("sql_test", "run_tests", "Run tests that are written in SQL."),
    "serve": Entry(
        "serve",
        "serve",
        "Serve the views of an app over HTTP, from its directory, also while the app is stopped. Ctrl-C stops it.",
    ),
    "trust": Entry(
        "trust",
        "trust",
        "Trust the Python code in a store that comes from elsewhere. The app must be stopped.",
    ),
    "savepoint": Entry(
        "savepoint",
        "savepoint",
        "Take and restore savepoints: consistent snapshots of an app's store, offsets and definitions.",
    ),
    "history": Entry(
        "history", "history", "Inspect, verify and compact the history: every accepted event, in Parquet."
    ),
    "dead-letter": Entry(
        "dead_letter",
        "dead_letter",
        "List, show and retry dead letters: rows that were rejected, or on which code failed.",
    ),
    "alert": Entry("alert", "alert", "List the alerts of an app, and the keys for which they fire."),
    "token": Entry("token", "token", "Create, list and remove tokens for an app's HTTP server."),
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
