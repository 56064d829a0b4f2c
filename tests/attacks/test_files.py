"""Attacks by other users of the machine, who read files."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.history import savepoints
from penstock.private import is_shared, protect
from tests.serve.conftest import Filled


def modes(directory: Path) -> set[int]:
    """The rights of others and of the group, of a directory and all that it holds."""
    return {path.stat().st_mode & 0o077 for path in (directory, *directory.rglob("*"))}


def test_an_app_directory_is_private(tmp_path: Path):
    """Reads an app's directory as another user: it is closed, and one that was open is closed at start."""
    assert protect(tmp_path / "new") is None
    assert modes(tmp_path / "new") == {0}
    old = tmp_path / "old"
    (old / "checkpoints" / "posts").mkdir(parents=True)
    (old / "checkpoints" / "posts" / "0").write_text("offsets")
    (old / "run.sh").touch(mode=0o755)
    old.chmod(0o755)
    note = protect(old)
    assert note is not None
    assert "was open to others" in note
    assert modes(old) == {0}
    assert (old / "run.sh").stat().st_mode & 0o700 == 0o700
    assert protect(old) is None


def test_a_group_reads_what_it_may_and_no_secrets(tmp_path: Path):
    """Reads the directory as a member of its group: data can be read, digests of tokens and the signing key cannot."""
    group = grp.getgrgid(os.getgid()).gr_name
    state = tmp_path / "state"
    state.mkdir()
    for name in ("store.db", "tokens.json", "signing.key"):
        (state / name).touch(mode=0o644)
    protect(state, group)
    assert is_shared(state)
    assert {path.name: path.stat().st_mode & 0o777 for path in state.iterdir()} == {
        "store.db": 0o640, "tokens.json": 0o600, "signing.key": 0o600,
    }  # fmt: skip
    assert protect(state) is None, "it stays the group's"
    assert is_shared(state)
    with pytest.raises(PenstockError, match="no group"):
        protect(state, "no-such-group")


def test_savepoints_are_private(filled: Filled, tmp_path: Path):
    """Reads a savepoint that was written elsewhere: it is closed."""
    (filled.directory / "checkpoints").mkdir(exist_ok=True)
    made = savepoints.create(filled.directory, "one", to=tmp_path / "elsewhere" / "one")
    assert made.path.stat().st_mode & 0o077 == 0
    savepoints.restore(made, tmp_path / "back")
    assert (tmp_path / "back").stat().st_mode & 0o077 == 0
