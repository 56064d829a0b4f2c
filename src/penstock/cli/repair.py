"""The demo `repair`: a view with a bug is deployed, noticed, replaced while everything goes on, and proved right."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from penstock.cli.audit import show as show_audit
from penstock.cli.figures import number
from penstock.cli.start import start
from penstock.cli.view_rows import ask_views
from penstock.control import Live
from penstock.control.audits import as_reply, audit
from penstock.dev.demos import repair

_BY_SONG = "SELECT song, sum(plays) AS plays FROM by_song WHERE window_end <= ?1 GROUP BY song ORDER BY plays DESC"
_CLOSED = "SELECT max(window_end) FROM by_song WHERE final"


def show_repair(directory: Path, console: Console, *, seconds: float, master: str, debug: bool) -> None:
    """Runs the story; ends with 1 if a number is wrong at the end."""
    running = start(repair.app(), directory, console, master=master, debug=debug)
    running.start()
    try:
        console.print("a view that counts plays by song was deployed …", style="bold")
        _wait(running, seconds / 2)
        closed = ask_views(running.store, _CLOSED).item()
        _notice(running, console, closed)
        before, events = ask_views(running.store, _BY_SONG, [closed]), _events(running)
        console.print("… so the definition is replaced, computed from all of history, while events flow:", style="bold")
        console.print(Syntax(repair.RIGHT.strip(), "sql", background_color="default"))
        began = time.monotonic()
        running.execute(repair.RIGHT)
        took, meanwhile = time.monotonic() - began, _events(running) - events
        console.print(f"replaced in {took:.1f} s; meanwhile {number(meanwhile)} events were counted, nothing stopped")
        _wait(running, seconds / 4)
        running.run.catch_up()
        _show(console, before, ask_views(running.store, _BY_SONG, [closed]), closed)
        console.print("and the proof, every row recomputed from the history:", style="bold")
        right = show_audit(console, as_reply(audit(running.run, ["by_song"])))
    finally:
        running.stop()
    console.print(
        f'ask it:  penstock ask "SELECT song, count(*) FROM HISTORY(plays) GROUP BY song" --dir {directory}',
        style="bold",
    )
    if not right:
        raise typer.Exit(1)


def _wait(running: Live, seconds: float) -> None:
    """Waits that long, and until windows have closed."""
    running.wait(seconds)
    while running.store.last() is None or ask_views(running.store, _CLOSED).item() is None:
        running.wait(0.5)


def _events(running: Live) -> int:
    return running.store.counters().get("plays.events", 0)


def _notice(running: Live, console: Console, closed: str) -> None:
    """History knows how many plays there were."""
    plays = ask_views(running.store, "SELECT sum(plays) FROM by_song WHERE window_end <= ?1", [closed]).item()
    (row,) = running.execute(f"SELECT count(*) FROM HISTORY(plays) WHERE at < TIMESTAMP '{closed}'").rows
    console.print(
        f"up to {closed[11:19]} the view says {number(plays)} plays, and history has {number(int(str(row[0])))}"
    )


def _show(console: Console, before: pl.DataFrame, after: pl.DataFrame, closed: str) -> None:
    table = Table(f"up to {closed[11:19]}", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("plays before", justify="right", style="red")
    table.add_column("plays after", justify="right", style="green")
    old = dict(before.iter_rows())
    for song, plays in after.iter_rows():
        table.add_row(song, number(old.get(song, 0)), number(plays))
    console.print(table)
