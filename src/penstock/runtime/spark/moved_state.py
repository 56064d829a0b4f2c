"""Spark's state in a directory that was moved or restored: Spark notes the files of its schemas by their full path."""

from __future__ import annotations

import json
import os
from pathlib import Path


def relocate(checkpoint: Path) -> None:
    """Lets a checkpoint name the schemas of its states where they lie now, wherever it was written."""
    for note in checkpoint.absolute().glob("state/*/_metadata/v2/[0-9]*"):
        version, _, text = note.read_text().partition("\n")
        folder = note.parents[2] / "_stateSchema"
        try:
            operator = json.loads(text)
            stores = operator["stateStoreInfo"]
            noted = [list(store["stateSchemaFilePaths"]) for store in stores]
        except (ValueError, KeyError, TypeError):
            continue  # torn, or of another format: Spark itself says what is wrong with it
        for store in stores:
            store["stateSchemaFilePaths"] = [_inside(folder, path) for path in store["stateSchemaFilePaths"]]
        if noted != [store["stateSchemaFilePaths"] for store in stores]:
            _write(note, f"{version}\n{json.dumps(operator, separators=(',', ':'), ensure_ascii=False)}")


def _inside(folder: Path, path: str) -> str:
    """The file of the same name in this folder, if it is there."""
    own = folder / path.rpartition(f"/{folder.name}/")[2]
    return f"file:{own}" if own.is_file() else path


def _write(note: Path, text: str) -> None:
    """Replaces a file: a savepoint may have a link to the old one."""
    hidden = note.with_name(f".{note.name}.moved")
    with hidden.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    note.with_name(f".{note.name}.crc").unlink(missing_ok=True)
    hidden.rename(note)
