"""The commands of `history`: status, verify, compact. None needs Spark; all work while an app runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from penstock.cli import figures as fig
from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.control.client import Client
from penstock.history.events.compact import Compaction, CompactionResult
from penstock.history.events.event_history import EventHistory
from penstock.history.events.verify import to_verify, verify
from penstock.store import Reader, open_store
from penstock.store.file import File, HistorySize, Listing

history = typer.Typer(
    name="history",
    help="Inspect, verify and compact the history: every accepted event, in Parquet.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_COLUMNS = ("files", "rows", "bytes", "small files", "dead letters", "written", "on disk")


@history.command()
def status(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Show what the history holds of each stream, and from which commit on."""
    with errors_shown(debug):
        reader = Reader(directory)
        reader.check()
        events = EventHistory(reader)
        listing = events.store.listing()
        table = Table("stream", "keep", "holds", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for title in _COLUMNS:
            table.add_column(title, justify="right")
        sizes = events.store.history_sizes()
        for stream in sorted(listing.streams):
            table.add_row(*_line(listing, stream, sizes.get(stream)))
        console = output()
        console.print(table if table.row_count else "the app has no streams yet")
        waiting = sum(file.bytes for file in events.store.removed_files(1 << 62))
        note = f"; {fig.show_bytes(waiting)} were replaced and wait to be removed" if waiting else ""
        console.print(f"{events.place.location}: commit {fig.number(listing.last)}{note}", markup=False)


def _line(listing: Listing, stream: str, size: HistorySize | None) -> list[str]:
    kept, files = listing.streams[stream], listing.of(stream)
    since = (
        "nothing" if kept.since is None else f"after commit {fig.number(kept.since)}" if kept.since else "everything"
    )
    dead = sum(file.rows for file in listing.of(stream, "dead"))
    small = sum(file.first == file.last for file in files)
    sizes = [fig.number(len(files)), fig.number(_rows(files)), fig.show_bytes(sum(file.bytes for file in files))]
    times = ["–", "–"]
    if size is not None:
        times = [fig.show_times(size.write_amplification), fig.show_times(size.space_amplification)]
    return [stream, kept.keep, since, *sizes, fig.number(small), fig.number(dead), *times]


def _rows(files: list[File]) -> int:
    return sum(file.rows for file in files)


@history.command("verify")
def verify_files(
    stream: Annotated[str | None, typer.Argument(help="Only this stream.", metavar="[STREAM]")] = None,
    directory: Directory = DIRECTORY,
    debug: Debug = False,
) -> None:
    """Verify the checksum and rows of every file. Exits with 1 if one differs."""
    with errors_shown(debug):
        events, console = EventHistory(Reader(directory)), output()
        files, size = to_verify(events, stream)
        problems = 0
        with _bar(console, "verifying", size, DownloadColumn()) as bar:
            for problem in verify(events, stream, bar.advance):
                problems += 1
                console.print(f"{problem.file.path}: {problem.message}", markup=False)
        if problems:
            console.print(f"{fig.number(problems)} of {fig.number(files)} files differ", markup=False)
            raise typer.Exit(1)
        console.print(f"{fig.number(files)} files, {fig.show_bytes(size)}: all as they were written", markup=False)


@history.command()
def compact(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Merge small files, apply erasures, and remove files that are no longer used."""
    with errors_shown(debug):
        console, client = output(), Client(directory)
        if client.is_there:
            (row,) = client.do("compact").rows
            client.close()
            done = CompactionResult(*(int(str(value)) for value in row))
        else:
            done = _compacted(directory, console)
        console.print(_summary(done), markup=False)


def _compacted(directory: Path, console: Console) -> CompactionResult:
    Reader(directory).listing()  # refuses a directory without a store
    store = open_store(directory)
    store.lock()
    try:
        with _bar(console, "compacting", None, MofNCompleteColumn()) as bar:
            return Compaction(EventHistory(store)).run(time.time_ns() // 1000, everything=True, on_progress=bar.show)
    finally:
        store.close()


def _summary(done: CompactionResult) -> str:
    if not done:
        return "nothing to compact"
    parts = [f"{fig.number(done.before)} files became {fig.number(done.after)}, {fig.number(done.rows)} rows"]
    parts += [f"{fig.number(done.erased)} rows erased"] if done.erased else []
    parts += [f"{fig.number(done.expired)} files expired"] if done.expired else []
    parts += [f"{fig.number(done.removed)} files removed"] if done.removed else []
    return "; ".join(parts)


class _Bar:
    """A progress bar: by how much more is done, or by how much of all."""

    def __init__(self, progress: Progress, what: str, total: int | None) -> None:
        self._progress, self._task = progress, progress.add_task(what, total=total)

    def advance(self, count: int) -> None:
        self._progress.advance(self._task, count)

    def show(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def _bar(console: Console, what: str, total: int | None, amount: DownloadColumn | MofNCompleteColumn) -> Iterator[_Bar]:
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Bar(progress, what, total)
