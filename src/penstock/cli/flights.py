"""The demo `flights`: a year of departures replayed, the delay of the newest hours, and at the end the proof."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.figures import Figures, number, show_mark
from penstock.cli.running import show_end, totals
from penstock.cli.serve import Serve, served
from penstock.cli.start import start
from penstock.cli.view_rows import ask_views
from penstock.cli.watch import watch
from penstock.dev.demos import flights
from penstock.dev.demos.flights import Proof, Replay
from penstock.model.time import Duration, show_instant
from penstock.store import Reader

_AIRPORTS = ("EWR", "JFK", "LGA")
_HOURS = """
SELECT window_start, window_end, origin, flights, delay, final FROM by_airport
WHERE window_start IN (SELECT DISTINCT window_start FROM by_airport ORDER BY window_start DESC LIMIT 8)
ORDER BY window_start, origin
"""


def show_flights(
    directory: Path, console: Console, *, seconds: float | None, speed: Duration, master: str, debug: bool,
    serve: Serve,
) -> None:  # fmt: skip
    """Replays the departures, and proves the result. Ends with 1 where it differs from the recomputation."""
    rows = flights.departures()
    folder = directory / "departures"
    folder.mkdir(exist_ok=True)
    running = start(flights.app(folder), directory, console, master=master, debug=debug)
    reader = Reader(directory)
    replay = Replay(rows, folder, speed=speed, seconds=seconds, is_read=lambda: running.store.last() is not None)
    picture = Departures(reader, replay)
    replay.start()
    try:
        with served(running, serve, console):
            last = watch(running, picture, console, each=3.0, until=replay.join)
    finally:
        replay.end()
    console.print(picture.live(last))
    show_end(console, last)
    if last.events < replay.done:
        left = f"{number(replay.done - last.events)} departures are there and not read"
        console.print(f"{left}: penstock demo flights --resume --dir {directory} goes on", soft_wrap=True)
        return
    proofs = flights.prove(rows.head(replay.done), partial(ask_views, reader))
    show_proofs(console, proofs, replay.done)
    question = "SELECT * FROM by_airport ORDER BY delay DESC LIMIT 5"
    console.print(f'ask it:  penstock query "{question}" --dir {directory}', style="bold", soft_wrap=True)
    if not all(proof.holds for proof in proofs):
        raise typer.Exit(1)


def show_proofs(console: Console, proofs: list[Proof], departures: int) -> None:
    """Each view against its recomputation."""
    table = Table("the proof", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("rows compared", "equal", "departures", "too late to count"):
        table.add_column(title, justify="right")
    table.add_column("")
    for proof in proofs:
        counts = map(number, (proof.rows, proof.equal, departures, proof.late))
        verdict = Text("live = recomputed", "green") if proof.holds else Text("THEY DIFFER", "bold red")
        table.add_row(proof.view, *counts, verdict)
    console.print(table)


class Departures:
    """How far the replay is, the panes that have fired, and the delay of the newest hours."""

    def __init__(self, reader: Reader, replay: Replay) -> None:
        self._reader, self._replay = reader, replay
        self._counts: dict[str, int] = dict.fromkeys(("early", "on time", "late", "retracted"), 0)
        self._counted = 0

    def live(self, figures: Figures) -> RenderableType:
        """The progress, the panes and the hours."""
        return Group(*self._head(figures), self._hours(figures))

    def line(self, figures: Figures) -> RenderableType:
        """The same, printed one below the other."""
        return Group(*self._head(figures), self._hours(figures), "")

    def _head(self, figures: Figures) -> list[RenderableType]:
        bar = Table.grid(padding=(0, 1))
        when = show_instant(self._replay.at)[:16].replace("T", " ")
        share = Text(f"{self._replay.part:4.0%}")
        bar.add_row(
            Text("departures from New York", "bold"), ProgressBar(1.0, self._replay.part, 40), share, Text(when)
        )
        panes = "  ".join(f"{timing} {number(count)}" for timing, count in self._panes().items())
        return [
            bar,
            Text(f"watermark {show_mark(figures.watermark)}  {totals(figures)}", "dim"),
            Text(f"panes: {panes}"),
        ]

    def _panes(self) -> dict[str, int]:
        """How many panes have fired, by timing; those that took an earlier one back apart."""
        newest = self._reader.newest_blocks(self._counted)
        for view in newest:
            for block in self._reader.blocks(view, self._counted, 1 << 30):
                for kind, timing in block.panes.select("kind", "timing").iter_rows():
                    self._counts["retracted" if kind == "retract" else timing] += 1
        self._counted = max([self._counted, *newest.values()])
        return self._counts

    def _hours(self, figures: Figures) -> RenderableType:
        hours = ask_views(self._reader, _HOURS)
        if not hours.height:
            return Text("waiting for the first departures …")
        mark = "" if figures.watermark is None else show_instant(figures.watermark)[:19].replace("T", " ")
        table = Table("hour (UTC)", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for airport in _AIRPORTS:
            table.add_column(f"{airport}: flights, delay", justify="right")
        table.add_column("")
        for hour in hours.partition_by("window_start", maintain_order=True):
            start, end, final = hour["window_start"][0], hour["window_end"][0], bool(hour["final"][0])
            state = "closed" if final else "complete, may be corrected" if end <= mark else "open"
            table.add_row(start[:16], *(_cell(hour, airport) for airport in _AIRPORTS), Text(state, "dim"))
        return table


def _cell(hour: pl.DataFrame, airport: str) -> Text:
    row = hour.filter(pl.col("origin") == airport)
    if not row.height:
        return Text("–", "dim")
    delay = row["delay"].item()
    style = "green" if delay < 10 else "yellow" if delay < 30 else "red"
    return Text.assemble(f"{row['flights'].item():3}", (f" {delay:+6.0f} min", style))
