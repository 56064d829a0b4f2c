"""A checkpoint that was moved names the schemas of its states where they lie now."""

from __future__ import annotations

import json
import os
from pathlib import Path

from penstock.runtime.spark.moved_state import relocate


def state_at(checkpoint: Path, noted: str) -> Path:
    """A state of Spark's with one schema, as `noted` says where it lies; its note."""
    folder = checkpoint / "state" / "0"
    for part in ("_metadata/v2", "_stateSchema/default"):
        (folder / part).mkdir(parents=True)
    (folder / "_stateSchema" / "default" / "0_a").write_text("schema")
    operator = {"stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [noted]}], "more": "ü"}
    note = folder / "_metadata" / "v2" / "0"
    note.write_text(f"v2\n{json.dumps(operator)}")
    (note.parent / ".0.crc").write_bytes(b"crc\0")
    return note


def noted(note: Path) -> list[str]:
    version, text = note.read_text().split("\n")
    assert version == "v2"
    operator = json.loads(text)
    assert operator["more"] == "ü"
    return operator["stateStoreInfo"][0]["stateSchemaFilePaths"]


def test_a_checkpoint_from_elsewhere_names_its_own_files(tmp_path: Path):
    note = state_at(tmp_path, "file:/gone/state/checkpoints/s/state/0/_stateSchema/default/0_a")
    os.link(note, tmp_path / "savepoint")
    before = note.read_text()
    relocate(tmp_path)
    assert noted(note) == [f"file:{tmp_path}/state/0/_stateSchema/default/0_a"]
    assert not (note.parent / ".0.crc").exists(), "Spark would compare it with the sums of the old text"
    assert (tmp_path / "savepoint").read_text() == before, "a savepoint stays as it was"


def test_what_is_right_torn_or_unknown_stays_as_it_is(tmp_path: Path):
    right = state_at(tmp_path / "right", f"file:{tmp_path}/right/state/0/_stateSchema/default/0_a")
    unknown = state_at(tmp_path / "unknown", "file:/gone/state/0/_stateSchema/default/0_b")
    torn = state_at(tmp_path / "torn", "")
    torn.write_text("v2\n{")
    notes = [right, unknown, torn]
    before = [note.read_text() for note in notes]
    for note in notes:
        relocate(note.parents[4])
    assert [note.read_text() for note in notes] == before
    assert all((note.parent / ".0.crc").exists() for note in notes)
