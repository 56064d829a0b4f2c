"""The segments and pane files of a savepoint: those that its store lists. They never change, so links will do."""

from __future__ import annotations

from pathlib import Path

from penstock.history.events.place import Place
from penstock.history.savepoints.manifest import SavepointError
from penstock.state.pane_file import PaneFile, PaneFileError, check_pane_file
from penstock.state.segment import MappedSegment, Segment, SegmentError, paths
from penstock.store import Reader
from penstock.store.pane_files import pane_files
from penstock.store.segments import FOLDER as SEGMENTS
from penstock.store.segments import all_segments


def link_segments(reader: Reader, directory: Path, hidden: Path) -> None:
    """Puts the files that the store's copy lists beside it. They are pinned, so none of them is removed meanwhile."""
    place = Place(str((directory / SEGMENTS).absolute()))
    for path in [*paths(_listed(reader)), *(file.path for file in _pane_files(reader))]:
        try:
            place.link(path, hidden / SEGMENTS / path)
        except FileNotFoundError as error:
            raise SavepointError(
                f"the file '{path}' is missing in '{directory / SEGMENTS}'",
                detail=str(error),
                hint="restore a savepoint, or compute the views again",
            ) from error
    check_segments(reader, hidden)


def check_segments(reader: Reader, directory: Path) -> None:
    """Refuses a directory that lacks a file which its store lists, or has other bytes."""
    root = str(directory / SEGMENTS)
    for segment in _listed(reader):
        try:
            MappedSegment(root, segment).check()
        except SegmentError as error:
            raise SavepointError(
                f"a segment of '{segment.owner}' cannot be saved or restored", detail=str(error), hint=error.hint
            ) from error

    for file in _pane_files(reader):
        try:
            check_pane_file(root, file)
        except PaneFileError as error:
            raise SavepointError("panes cannot be saved or restored", detail=str(error), hint=error.hint) from error


def _pane_files(reader: Reader) -> list[PaneFile]:
    with reader.moment_of() as connection:
        return pane_files(connection)


def _listed(reader: Reader) -> list[Segment]:
    with reader.moment_of() as connection:
        # A store that an earlier version wrote has no such table.
        return list(all_segments(connection)) if "__segments" in connection.tables() else []
