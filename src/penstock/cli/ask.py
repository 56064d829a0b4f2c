"""The commands `views`, `status` and `explain`. None needs Spark; all work while an app runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli import figures as fig
from penstock.cli.components import components_table
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, AppFile, AppName, Debug, Directory, errors_shown, output
from penstock.control import Client, ask
from penstock.control.dropping import no_longer_defined
from penstock.dataflow.drawing import draw
from penstock.errors import PenstockError, unknown
from penstock.history.events.dead import dead_letters
from penstock.history.events.event_history import EventHistory
from penstock.model.time import SECOND
from penstock.runtime.phases import last_start
from penstock.sources.base import FILE
from penstock.store import Reader
from penstock.store.base import DEAD_FILES, REFUSALS
from penstock.store.freshness import SPAN, Freshness
from penstock.store.state_size import IN_STORE, StateSize
from penstock.store.tables import quoted

#: Up to how many the rows of a view in segments are counted.
_COUNTED = 1_000_000


def views(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """List the views: rows, final rows, watermark, definition."""
    with errors_shown(debug):
        reader = Reader(directory)
        reader.check()
        table = Table("view", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for title in ("rows", "final"):
            table.add_column(title, justify="right")
        table.add_column("watermark")
        table.add_column("state")
        table.add_column("definition", overflow="fold")
        times, sizes = reader.view_times(), reader.state_sizes()
        for name, definition in reader.views().items():
            size = sizes.get(name)
            rows, final = _counts(reader, name, size)
            state = IN_STORE if size is None else size.text()
            table.add_row(name, rows, final, fig.show_mark(times.get(name)), state, Text(short(definition)))
        output().print(table if table.row_count else "no views")
        for name in no_longer_defined(reader):
            output().print(
                f"the app no longer defines the view '{name}': it gets no events; penstock drop {name} removes it",
                markup=False,
            )


def _counts(reader: Reader, view: str, size: StateSize | None) -> tuple[str, str]:
    """How many rows a view has, and how many of them are final. Those of large segments are not counted."""
    if size is None:
        sql = f"SELECT count(*), coalesce(sum(CASE WHEN final THEN 1 ELSE 0 END), 0) FROM {quoted(view)}"
        rows, final = reader.query(sql).row(0)
    elif size.rows > _COUNTED:
        return f"≤ {fig.number(size.rows)}", "–"
    else:
        sql = f"SELECT count(*) AS n, count_if(final) AS final FROM `{view.replace('`', '``')}`"
        rows, final = ask(reader, sql).table.to_pylist()[0].values()
    return fig.number(rows), fig.number(final)


def short(definition: str) -> str:
    """A definition without what its stream is made of.

    >>> short("ps.stream('posts', schema='id string (16)', event_time='at').group_by('tag').agg(n=ps.count())")
    "posts.group_by('tag').agg(n=ps.count())"
    """
    if not definition.startswith("ps.stream('"):
        return definition
    name, depth, quote = definition.split("'")[1], 0, ""
    for place, sign in enumerate(definition):
        if quote:
            quote = "" if sign == quote and definition[place - 1] != "\\" else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            if not depth:
                return name + definition[place + 1 :]
    return definition


def status(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Show progress: commits, events, watermarks, rejected rows, and the lag behind each source."""
    with errors_shown(debug):
        reader = Reader(directory)
        reader.check()
        console, figures = output(), fig.read(reader, fig.recent_rate(reader))
        _print_totals(console, figures)
        for call in figures.long_calls:
            console.print(f"{call.text()}: it still runs", style="yellow", markup=False)
        _print_dead_files(console, directory, figures)
        _print_times(console, figures)
        _print_freshness(console, fig.read_freshness(reader, figures.now - SPAN))
        _print_states(console, figures)
        _print_operators(console, figures)
        _print_generations(console, directory)
        _print_lags(console, figures)
        _print_tables(console, figures)
        _print_history(console, figures)
        _print_start(console, directory)
        components = components_table(figures)
        if components.row_count:
            console.print("", components)


def _print_dead_files(console: Console, directory: Path, figures: fig.Figures) -> None:
    """Files that could not be read and were not retried, where the stream's history is kept."""
    events = EventHistory(Reader(directory))
    table = Table("stream", "file", "", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for stream in figures.counters:
        if figures.count(DEAD_FILES, stream) and stream in events.store.listing().streams:
            letters = dead_letters(events, stream).filter(pl.col("extent") == FILE)
            for path, reason in letters.select("row", "reason").iter_rows():
                table.add_row(stream, Text(path), Text(reason))
    if table.row_count:
        console.print("", table)


def _print_tables(console: Console, figures: fig.Figures) -> None:
    """Which versions of tables the last commits had, and which could not be read again."""
    table = Table("table", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("version", justify="right")
    table.add_column("")
    for name, (version, stale) in figures.tables.items():
        table.add_row(name, str(version), "" if stale is None else f"cannot be read again: {stale}")
    if table.row_count:
        console.print("", table)


def _print_history(console: Console, figures: fig.Figures) -> None:
    """What the history takes, how often it was written, and how much of it waits to be removed."""
    table = Table("history of", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("files", "bytes", "written", "on disk", "replaced"):
        table.add_column(title, justify="right")
    for stream, size in figures.history.items():
        table.add_row(
            stream, fig.number(size.files), fig.show_bytes(size.bytes), fig.show_times(size.write_amplification),
            fig.show_times(size.space_amplification), fig.show_bytes(size.replaced_bytes),
        )  # fmt: skip
    if table.row_count:
        console.print("", table)


def _print_start(console: Console, directory: Path) -> None:
    """The parts of the last start, up to its first commit."""
    spans = last_start(directory)
    if not spans:
        return
    seconds = max(span.ended or 0.0 for span in spans)
    title = f"last start, {seconds:.1f} s to the first commit"
    table = Table(title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("from", "to", "seconds"):
        table.add_column(title, justify="right")
    for span in spans:
        ended = span.began if span.ended is None else span.ended
        table.add_row(span.name, f"{span.began:.1f}", f"{ended:.1f}", f"{ended - span.began:.1f}")
    console.print("", table)


def _print_generations(console: Console, directory: Path) -> None:
    """How far the generations are that a running app computes."""
    client = Client(directory)
    if not client.is_there:
        return
    rows = client.do("progress").rows
    client.close()
    table = Table("view", "", "", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for view, kind, phase, share in rows:
        table.add_row(str(view), str(kind), f"{phase} {float(str(share)):.0%}")
    if table.row_count:
        console.print("", table)


def _print_totals(console: Console, figures: fig.Figures) -> None:
    grid = Table.grid(padding=(0, 2))
    ago = ""
    if figures.committed is not None:
        ago = f", the last one {fig.show_seconds(max(0, figures.now - figures.committed) / SECOND)} ago"
    grid.add_row("commits", f"{fig.number(figures.commits)}{ago}")
    grid.add_row("epochs", f"{fig.number(figures.epochs)}")
    grid.add_row("events", f"{fig.number(figures.events)}")
    grid.add_row("events/s", f"{fig.number(figures.rate)} over the last commits" if figures.rate is not None else "–")
    for kind in REFUSALS:
        grid.add_row(kind, fig.show_late(figures) if kind == "late" else fig.number(figures.count(kind)))
    console.print(grid)
    if len(figures.counters) > 1:
        table = Table("stream", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for kind in ("events", *REFUSALS):
            table.add_column(kind, justify="right")
        for stream in figures.counters:
            counts = {kind: fig.number(figures.count(kind, stream)) for kind in ("events", *REFUSALS)}
            table.add_row(stream, *(counts | {"late": fig.show_late(figures, stream)}).values())
        console.print("", table)


def _print_states(console: Console, figures: fig.Figures) -> None:
    """Where the state of each view is."""
    table = Table("view", "state", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, state in figures.states.items():
        table.add_row(name, state)
    if table.row_count:
        console.print("", table)


def _print_operators(console: Console, figures: fig.Figures) -> None:
    """How long the last step of each operator took, and how many Spark jobs it started."""
    table = Table("operator", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("last step", "Spark jobs"):
        table.add_column(title, justify="right")
    for name, step in figures.operators.items():
        table.add_row(name, f"{step.seconds * 1000:,.0f} ms".replace(",", " "), fig.number(step.jobs))
    if table.row_count:
        console.print("", table)


def _print_times(console: Console, figures: fig.Figures) -> None:
    table = Table("", "name", "watermark", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("behind the clock", justify="right")
    for what, times in (("stream", figures.streams), ("view", figures.views)):
        for name, mark in times.items():
            table.add_row(what, name, fig.show_mark(mark), fig.show_lag(mark, figures.now))
    if table.row_count:
        console.print("", table)


def _print_freshness(console: Console, fresh: Freshness) -> None:
    """How long events took from their arrival to the commit and to delivery, in the last minute."""
    table = Table("freshness", "name", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("median", "99 % within", "events, last minute"):
        table.add_column(title, justify="right")
    for what, delays in (("view", fresh.views), ("sink", fresh.sinks)):
        for name, delay in delays.items():
            times = fig.show_delay(delay.median), fig.show_delay(delay.high)
            table.add_row(what, name, *times, fig.number(delay.events))
    if table.row_count:
        console.print("", table)


def _print_lags(console: Console, figures: fig.Figures) -> None:
    """What the last epoch of each stream took, and how far that is from the end of its log."""
    table = Table("stream", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("last epoch", "at most", "full", "Spark jobs", "stages", "behind the log", "caught up in"):
        table.add_column(title, justify="right")
    for stream, lag in figures.lags.items():
        full = "–" if not lag.limit else f"{min(lag.taken / lag.limit, 1):.0%}"
        limit = "–" if lag.limit is None else fig.show_amount(lag.limit, lag.unit)
        left = "–" if lag.seconds is None else fig.show_seconds(lag.seconds)
        if lag.behind and lag.falls is not None and lag.falls <= 0:
            left = "falls behind"
        work = figures.work.get(stream)
        jobs, stages = (None, None) if work is None else (work.jobs, work.stages)
        table.add_row(
            stream, fig.show_amount(lag.taken, lag.unit), limit, full, fig.number(jobs), fig.number(stages),
            fig.number(lag.behind), left,
        )  # fmt: skip
    if table.row_count:
        console.print("", table)


def explain(
    file: AppFile,
    view: Annotated[
        str | None, typer.Argument(help="Which view. Default: the dataflow and all views.", metavar="[VIEW]")
    ] = None,
    app: AppName = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write a drawing of the dataflow to this file instead.", metavar="FILE")
    ] = None,
    directory: Directory = DIRECTORY,
    debug: Debug = False,
) -> None:
    """Explain an app: its dataflow, and each view with all defaults.

    The dataflow has a line for each source, table, operator, view and sink. A view is shown with every default that
    applies, the engine that evaluates each expression, and the place of its state.
    """
    with errors_shown(debug):
        loaded = load_app(file, app)
        known, states = loaded.views, _states(directory)
        if view is not None and view not in known:
            raise unknown("view", view, known)
        if svg is not None or view is None:
            placed = {name: "store" if state == IN_STORE else "segments" for name, state in states.items()}
            graph = loaded.graph().with_states(placed)
            if svg is not None:
                svg.write_text(draw(graph), encoding="utf-8")
                return
            typer.echo(graph.text())
        for name in known if view is None else [view]:
            others = {other: known[other] for other in known if other != name}
            lines = [*known[name].explain(others).splitlines(), *([f"state {states[name]}"] if name in states else [])]
            typer.echo(f"{name}\n" + "\n".join(f"  {line}" for line in lines))


def _states(directory: Path) -> dict[str, str]:
    """Where the state of each view is, if the app has run in the directory."""
    try:
        return fig.read_states(Reader(directory))
    except PenstockError:
        return {}
