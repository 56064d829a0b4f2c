"""Which versions of its tables a view had, commit by commit, as the store says; and where those versions lie.

What a run from the past has computed was joined with one version of each table, which the store has kept. What came
after it had the versions of its own commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.model.table import Snapshot, tables
from penstock.model.view import View
from penstock.runtime.tables.tables import kept_versions
from penstock.store.reader import Reader

#: Below the app's directory.
FOLDER = "tables"


@dataclass(frozen=True)
class Stretch:
    """The commits after one and up to another, and the versions of tables that all of them had."""

    after: int
    through: int
    versions: Mapping[str, int]


class UnknownVersions(Exception):
    """Why it is unknown which versions a view had, or what they held."""


class Versions:
    """The stretches of a view's past from after one commit up to another, each with its versions at hand."""

    def __init__(self, reader: Reader, name: str, view: View, after: int, through: int) -> None:
        self._reader, self._name, self._view = reader, name, view
        self._names = sorted(tables(view.input))
        self.stretches = list(_joined(self._stretches(after, through)))
        self._check_there()

    def snapshots(self, stretch: Stretch) -> dict[str, Snapshot]:
        return {name: self._kept[name][version] for name, version in stretch.versions.items()}

    def _stretches(self, after: int, through: int) -> Iterator[Stretch]:
        basis = self._made_through()
        if basis is not None and basis.through > after:
            yield Stretch(after, min(basis.through, through), basis.versions)
            after = basis.through
        changes = self._changes(through)
        known: dict[tuple[str, str], int | None] = {}
        for number, stream in self._commits(after, through):
            while changes and changes[-1][0] <= number:
                _, *place, version = changes.pop()
                known[place[0], place[1]] = version
            versions = {name: version for name in self._names if (version := known.get((stream, name))) is not None}
            if len(versions) < len(self._names):
                gone = next(name for name in self._names if name not in versions)
                raise UnknownVersions(f"the version of '{gone}' that commit {number} read is not recorded")
            yield Stretch(after, number, versions)
            after = number

    def _changes(self, through: int) -> list[tuple[int, str, str, int | None]]:
        """Where versions change up to a commit (commit, stream, table, version), the newest first."""
        rows = self._reader.query(
            'SELECT "commit", stream, "table", version FROM __versions WHERE "commit" <= ?1 ORDER BY "commit" DESC',
            [through],
        )
        return list(rows.iter_rows())

    def _commits(self, after: int, through: int) -> list[tuple[int, str]]:
        """The commits that brought events of the view's streams, and of which."""
        sources = [source.name for source in self._view.input.sources]
        places = ", ".join(f"?{number}" for number in range(3, len(sources) + 3))
        rows = self._reader.query(
            f'SELECT "commit", stream FROM __epochs WHERE "commit" > ?1 AND "commit" <= ?2 AND stream IN ({places}) '
            'ORDER BY "commit"',
            [after, through, *sources],
        )
        return list(rows.iter_rows())

    def _made_through(self) -> Stretch | None:
        """What the last run from the past has computed; None if there was none."""
        run = self._reader.query(
            "SELECT \"commit\" FROM __generations WHERE view = ?1 AND kind NOT IN ('first', 'replay') "
            "ORDER BY number DESC LIMIT 1",
            [self._name],
        )
        if not run.height:
            return None
        rows = self._reader.query(
            'SELECT "table", version, through, whole FROM __past_versions WHERE view = ?1 AND "commit" = ?2',
            [self._name, run.item()],
        )
        versions = {table: version for table, version, _, _ in rows.iter_rows()}
        if not versions.keys() >= set(self._names):
            raise UnknownVersions("the versions of the tables that its last batch run read are not recorded")
        if not all(rows["whole"]):
            raise UnknownVersions(
                "its last batch run computed some of its windows; the others read other versions of the tables"
            )
        return Stretch(0, rows["through"][0], {name: versions[name] for name in self._names})

    def _check_there(self) -> None:
        needed: dict[str, set[int]] = {name: set() for name in self._names}
        for stretch in self.stretches:
            for name, version in stretch.versions.items():
                needed[name].add(version)
        known = tables(self._view.input)
        self._kept = {name: kept_versions(Path(self._reader.directory) / FOLDER, known[name]) for name in self._names}
        for name, versions in needed.items():
            gone = versions - self._kept[name].keys()
            if gone:
                raise UnknownVersions(
                    f"version {min(gone)} of the table '{name}', which commits read, has been deleted"
                )


def _joined(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    """Stretches in a row with the same versions are one."""
    last: Stretch | None = None
    for one in stretches:
        if last is not None and last.versions == one.versions:
            last = Stretch(last.after, one.through, one.versions)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last
