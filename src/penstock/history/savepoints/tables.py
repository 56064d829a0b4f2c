"""The versions of tables that belong to a savepoint: those that its commits name, where they are still at hand.

They never change, so links will do.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from penstock.history.events.place import Place
from penstock.store import Reader

#: Where the versions of an app's tables lie: tables/NAME/VERSION, with a note VERSION.json beside it.
TABLES: Final = "tables"


def link_tables(reader: Reader, directory: Path, hidden: Path) -> None:
    """Puts the versions that the commits name beside the store's copy."""
    place = Place(str((directory / TABLES).absolute()))
    for name, versions in named(reader).items():
        for version in sorted(versions):
            folder, note = directory / TABLES / name / str(version), f"{name}/{version}.json"
            if not (directory / TABLES / note).exists():
                continue
            try:
                for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                    own = file.relative_to(directory / TABLES).as_posix()
                    place.link(own, hidden / TABLES / own)
                place.link(note, hidden / TABLES / note)
            except FileNotFoundError:  # it had its time just now
                shutil.rmtree(hidden / TABLES / name / str(version), ignore_errors=True)


def named(reader: Reader) -> dict[str, set[int]]:
    """By table the versions that commits had, and runs from the past."""
    versions: dict[str, set[int]] = {}
    rows = reader.query('SELECT DISTINCT "table", version FROM __versions WHERE version IS NOT NULL').rows()
    rows += reader.query('SELECT "table", version FROM __past_versions').rows()
    for name, version in rows:
        versions.setdefault(name, set()).add(version)
    return versions
