"""A savepoint has the versions of tables that its commits name, and a restore brings them back."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.history.savepoints import create, restore
from penstock.store import Commit
from penstock.store.file import PastVersions
from penstock.store.versions import write_versions
from tests.history.savepoints.support import NOON, Written


def version(directory: Path, number: int) -> None:
    """A version of the table users."""
    folder = directory / "tables" / "users" / str(number)
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_text(f"rows {number}")
    (folder.parent / f"{number}.json").write_text(json.dumps({"version": number}))


def lies(directory: Path) -> list[str]:
    return sorted(
        path.relative_to(directory).as_posix() for path in (directory / "tables").rglob("*") if path.is_file()
    )


def test_versions_that_commits_name_come_along(written, tmp_path):
    app: Written = written(3)
    for number in (1, 2, 3, 4):
        version(app.directory, number)
    with app.store._transaction() as connection:
        write_versions(connection, "visits", {"users": 2, "gone": 1}, 3)
    app.store.commit(Commit("swap", NOON + 10, past=PastVersions("by_page", {"users": 4}, 3, True)))
    point = create(app.directory, "a")
    wanted = [f"tables/users/{name}" for name in ("2.json", "2/part-0.parquet", "4.json", "4/part-0.parquet")]
    assert lies(point.path) == wanted
    assert set(wanted) <= point.files.keys()
    assert restore(point, tmp_path / "other") is None
    assert lies(tmp_path / "other") == wanted
    version(app.directory, 5)
    app.store.close()
    aside = restore(point, app.directory, force=True)
    assert aside is not None
    assert lies(app.directory) == wanted
    assert "tables/users/5.json" in lies(aside)
