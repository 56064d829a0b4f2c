"""The command `audit`: proves that views are what their events make of them, or shows where they are not."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from penstock.cli import figures as fig
from penstock.cli.generations import Bar, File, stopped
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown, output
from penstock.control import Client, Reply
from penstock.control.audits import as_reply
from penstock.control.audits import audit as made
from penstock.errors import PenstockError


def part(text: str | float) -> float:
    """A part of the keys: 1%, 0.5 %, or 0.01.

    >>> part("1%"), part("0.25")
    (0.01, 0.25)
    """
    text = str(text)
    try:
        share = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise typer.BadParameter(f"'{text}' is not a part: write for example 1% or 0.25")
    return share


def audit(
    views: Annotated[list[str] | None, typer.Argument(help="Which views. Default: all.", metavar="VIEW")] = None,
    as_of: Annotated[
        int | None, typer.Option("--as-of", help="Only windows that were final after this commit.", metavar="COMMIT")
    ] = None,
    sample: Annotated[
        float, typer.Option("--sample", help="Audit only this part of the keys.", parser=part, metavar="1%")
    ] = 1.0,
    directory: Directory = DIRECTORY,
    file: File = None,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Recompute views from the history and the recorded decisions, and compare every row.

    Prints what differs, with the events behind it, and ends with 1 if anything does. The app may run meanwhile.
    """
    console, client = output(), Client(directory)
    with errors_shown(debug):
        if client.is_there:
            with Bar(console) as hear:
                reply = client.watch("audit", {"views": views or [], "as_of": as_of, "sample": sample}, hear)
            client.close()
        elif file is None:
            raise PenstockError(f"no app runs in '{directory}'", hint="start it, or say what it is: --file app.py")
        else:
            with stopped(load_app(file), directory, console, master, debug) as run, Bar(console) as hear:
                reply = as_reply(made(run, views or [], as_of=as_of, sample=sample, on_progress=hear))
        if not show(console, reply):
            raise typer.Exit(1)


def show(console: Console, reply: Reply) -> bool:
    """Prints what audits found; whether all is right."""
    results: list[dict[str, Any]] = [
        json.loads(json.dumps(dict(zip(reply.columns, row, strict=True)), default=str)) for row in reply.rows
    ]
    table = Table("view", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("as of commit", "rows", "events", "differ", "seconds"):
        table.add_column(title, justify="right")
    table.add_column("", overflow="fold")
    right = True
    for one in results:
        wrong = bool(one["differences"] or one["problems"])
        right = right and not wrong
        word = f"not audited: {one['unable']}" if one["unable"] else "WRONG" if wrong else "right"
        numbers = [fig.number(one[name]) for name in ("commit", "rows", "events", "differences")]
        table.add_row(one["view"], *numbers, f"{one['seconds']:.1f}", word)
    console.print(table)
    for one in results:
        for problem in one["problems"]:
            console.print(f"{one['view']}: {problem}", markup=False)
        for row in one["shown"]:
            _show_row(console, one["view"], row)
    return right


def _show_row(console: Console, view: str, row: dict[str, Any]) -> None:
    key = ", ".join(f"{name} = {value}" for name, value in row["key"].items())
    problem = {"missing": "the store lacks this row", "extra": "no events make this row"}.get(row["kind"], "")
    values = "; ".join(
        f"{name} is {stored}, and should be {computed}" for name, (stored, computed) in row["values"].items()
    )
    what = ", ".join(filter(None, [problem, values])) or "its state differs from what it shows"
    console.print(f"{view} ({', '.join(filter(None, [key, row['window']]))}): {what}", markup=False)
    for event in row["events"]:
        shown = {name: value for name, value in event.items() if not name.startswith("__")}
        console.print(f"  commit {event.get('__commit', '?')}: {json.dumps(shown, default=str)}", markup=False)
