"""The tables of an app that runs: each is read by its rule, and each reading is a version.

A version is a folder of Parquet below the app's directory, tables/NAME/VERSION, and a note beside it that is written
last. A large one lies there a second time, sorted by its key. Epochs go on with the version that they have while
another is read; the next epoch takes it up, and its commit says which one it had. So all tasks of an epoch, and what is
tried again, see the same rows.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import DefinitionError, PenstockError
from penstock.kernel import lookup
from penstock.model.stream import Flow
from penstock.model.table import AT_START, ON_CHANGE, Snapshot, Table, tables
from penstock.model.time import SECOND, Instant
from penstock.runtime.errors import RunError, essence
from penstock.runtime.tables.frame import TableFrames
from penstock.runtime.tables.read import Ask, seen, write
from penstock.runtime.tables.sort import TableSizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many versions of a table are kept: work that began with one goes on with it.
KEPT: Final = 10
#: After how long a table that could not be read is tried again, unless its files change earlier.
RETRY: Final = 30 * SECOND

_log = logging.getLogger("penstock.tables")


@dataclass(frozen=True)
class Version:
    """One reading of a table: when it was, what it found, and the table's definition then."""

    version: int
    read: Instant
    rows: int
    bytes: int
    seen: str | None
    definition: str


class Tables:
    """The versions of all tables that views and flows read. `folder` is None where a script gives the rows."""

    def __init__(
        self,
        session: Callable[[], SparkSession],
        folder: Path | None,
        clock: Callable[[], Instant],
        ask: Ask | None,
        sizes: TableSizes = TableSizes(),  # noqa: B008
    ) -> None:
        self._sizes = sizes
        self._session, self._folder, self._clock, self._ask = session, folder, clock, ask
        self._tables: dict[str, Table] = {}
        self._used: dict[object, tuple[tuple[str, Table], ...]] = {}  # by reader
        self._versions: dict[str, Version] = {}
        self._ready: dict[str, Version] = {}  # read, and not taken up yet
        self._lock = threading.Lock()
        self._turning = threading.Lock()  # epochs of several groups may begin at once
        self.snapshots: dict[str, Snapshot] = {}
        #: The versions that Spark joins by shuffling.
        self.frames = TableFrames()
        self.failures: dict[str, str] = {}  # why the last reading failed, by table
        self._tried: dict[str, tuple[str | None, Instant]] = {}  # what its files were then, and when that was

    def need(self, reader: object, flows: Iterable[Flow], beside: Iterable[Table] = ()) -> None:
        """Loads the tables that all flows of a reader use, and those `beside` them: now, unless a version can be used.

        A reader is a group of streams: two groups may use one table, but not two tables of one name.
        """
        in_use = {
            name: table for other, used in list(self._used.items()) if other is not reader for name, table in used
        }
        needed: dict[str, Table] = {}
        for table in [*(table for flow in flows for table in tables(flow).values()), *beside]:
            if needed.setdefault(table.name, in_use.get(table.name, table)) != table:
                raise DefinitionError(f"there are two tables '{table.name}'", hint="give one of them another name")
        for name, table in needed.items():
            if self._tables.get(name) != table:  # new, or another one of a name that was dropped
                self._begin(table)
        self._used[reader] = tuple(needed.items())

    def release(self, reader: object) -> None:
        """A reader needs no tables any more."""
        self._used.pop(reader, None)

    def close(self) -> None:
        """No epoch runs any more."""
        self.frames.close()

    def _begin(self, table: Table) -> None:
        if self._folder is None:
            self._tables[table.name] = table
            self.snapshots.setdefault(table.name, Snapshot(0))
            return
        versions = [one for one in self._noted(table.name) if one.definition == repr(table)]
        last = max(versions, key=lambda one: one.version, default=None)
        self._versions.pop(table.name, None)
        self._ready.pop(table.name, None)
        self.snapshots.pop(table.name, None)
        if last is not None:
            self._versions[table.name] = last
        if last is None or self._is_due(table, last, starting=True):
            self._read(table)
            if table.name not in self._ready and last is None:
                raise RunError(
                    f"the table '{table.name}' cannot be read",
                    detail=self.failures.pop(table.name, None),
                    hint=f"fix {table.source!r}; once it was read, a later failure leaves its last version in use",
                )
        self._tables[table.name] = table
        with self._lock:
            version = self._ready.pop(table.name, None) or last
        assert version is not None
        self._versions[table.name] = version
        self.snapshots[table.name] = self._snapshot(table.name, version)

    def put(self, tables: Mapping[str, tuple[tuple[object, ...], ...]]) -> None:
        """Sets the rows of tables, for scripts."""
        for name, rows in tables.items():
            number = self.snapshots.get(name, Snapshot(0)).version + 1
            self.snapshots[name] = Snapshot(number, rows=rows)

    # reading again

    def refresh(self) -> None:
        """Reads what is due. What was read waits until an epoch takes it up."""
        for table in list(self._tables.values()):
            with self._lock:
                last = self._ready.get(table.name) or self._versions.get(table.name)
            if self._folder is None or last is None:
                continue
            try:
                if self._is_due(table, last) and not self._has_just_failed(table):
                    self._read(table)
            except OSError as error:  # a file went while it was looked at
                self._failed(table, error)

    def _has_just_failed(self, table: Table) -> bool:
        """Whether it would fail again: nothing has changed, and no time has passed."""
        tried = self._tried.get(table.name)
        return tried is not None and tried[0] == seen(table) and self._clock() < tried[1] + RETRY

    def _is_due(self, table: Table, last: Version, *, starting: bool = False) -> bool:
        if table.reload == AT_START:
            return starting and (last.seen is None or seen(table) != last.seen)
        if table.reload == ON_CHANGE:
            return last.seen is None or seen(table) != last.seen
        assert isinstance(table.reload, int)
        return self._clock() >= last.read + table.reload

    def _read(self, table: Table) -> None:
        """Reads a table into its next version. If that fails, the last one stays in use."""
        assert self._folder is not None
        with self._lock:
            last = self._ready.get(table.name) or self._versions.get(table.name)
        now, number = self._clock(), 1 + max((one.version for one in self._noted(table.name)), default=0)
        folder = self._folder / table.name / str(number)
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed while it read
        try:
            shows = seen(table)
            same = last is not None and shows is not None and shows == last.seen
            before = None if last is None else self._folder / table.name / str(last.version)
            made = None if same else write(self._session(), table, self._ask, folder, before, self._sizes)
            if made is None:
                assert last is not None
                version = Version(last.version, now, last.rows, last.bytes, shows, repr(table))
            else:
                version = Version(number, now, made.rows, made.bytes, shows, repr(table))
            self._note(table.name, version)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._failed(table, error)
            return
        self.failures.pop(table.name, None)
        self._tried.pop(table.name, None)
        with self._lock:
            self._ready[table.name] = version

    def _failed(self, table: Table, error: Exception) -> None:
        why = error.message if isinstance(error, PenstockError) else essence(error)
        why += f": {error.detail}" if isinstance(error, PenstockError) and error.detail else ""
        if self.failures.get(table.name) != why and table.name in self._versions:
            _log.warning("the table '%s' cannot be read: %s; its last version stays in use", table.name, why)
        self.failures[table.name] = why
        self._tried[table.name] = seen(table), self._clock()

    # between two epochs

    def turn(self) -> None:
        """Takes up what was read since. Each engine compares the snapshots with those that it works with."""
        with self._turning:
            with self._lock:
                taken, self._ready = self._ready, {}
            for name, version in taken.items():
                self._versions[name] = version
                self.snapshots[name] = self._snapshot(name, version)
                self._clear(name)

    def why_stale(self, names: Iterable[str]) -> dict[str, str]:
        """Why some of these tables could not be read again."""
        failures = self.failures.copy()
        return {name: failures[name] for name in names if name in failures}

    # files

    def _snapshot(self, name: str, version: Version) -> Snapshot:
        assert self._folder is not None
        return _snapshot(self._folder / name, version)

    def _noted(self, name: str) -> list[Version]:
        assert self._folder is not None
        return _noted(self._folder / name)

    def _note(self, name: str, version: Version) -> None:
        assert self._folder is not None
        folder = self._folder / name
        hidden = folder / f".{version.version}.tmp"
        hidden.write_text(json.dumps(asdict(version)))
        os.replace(hidden, folder / f"{version.version}.json")

    def _clear(self, name: str) -> None:
        """Removes versions that nobody works with any more."""
        assert self._folder is not None
        old = sorted(one.version for one in self._noted(name))[:-KEPT]
        for number in old:
            self.frames.forget(str((self._folder / name / str(number)).absolute()))
            (self._folder / name / f"{number}.json").unlink(missing_ok=True)
            shutil.rmtree(self._folder / name / str(number), ignore_errors=True)


def kept_versions(folder: Path, table: Table) -> dict[int, Snapshot]:
    """The versions of a table that lie below a folder, as it is defined now."""
    versions = [one for one in _noted(folder / table.name) if one.definition == repr(table)]
    return {one.version: _snapshot(folder / table.name, one) for one in versions}


def _noted(folder: Path) -> list[Version]:
    """The versions that were read to their end."""
    return [Version(**json.loads(note.read_text())) for note in folder.glob("*.json")]


def _snapshot(folder: Path, version: Version) -> Snapshot:
    path = (folder / str(version.version)).absolute()
    return Snapshot(version.version, str(path), (path / lookup.FOLDER).is_dir())
