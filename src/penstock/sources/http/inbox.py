"""An inbox: the directory of a stream's events that came over HTTP, in numbered segments that are never changed.

Each segment is a Parquet file, moved in whole under the next number. It also holds the idempotency keys of its
requests, so that rows and keys are there together or not at all. `keys.jsonl` keeps the keys when segments are swept.
Several processes may write: a lock on the directory keeps them apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow.parquet as pq

from penstock.durable import flush, sync
from penstock.errors import PenstockError
from penstock.model.types import Schema

#: The folder of all inboxes, in the app's directory.
FOLDER: Final = "ingest"
#: Seconds for which an idempotency key is kept.
REMEMBERED: Final = 86_400.0
_ENDING: Final = ".parquet"
_META: Final = b"penstock.keys"
_DECLARED, _KEYS, _LOCK = "stream.json", "keys.jsonl", "lock"


@dataclass(frozen=True)
class InboxDefinition:
    """What an inbox is for: the stream that reads it, and its columns. `base` is the number of its first segment.

    An inbox that is made later has a higher base: one that takes the place of another, as where a savepoint is restored
    in a new directory, gives no number again that an offset has passed.
    """

    stream: str
    schema: Schema
    base: int = 1


@dataclass(frozen=True)
class Key:
    """An idempotency key: the digest of the body that it came with, its segment, how many rows it brought, and when."""

    digest: str
    number: int
    rows: int
    malformed: int
    at: float


@dataclass(frozen=True)
class Offer:
    """The rows of one request (the stream's columns and `MALFORMED`), with its idempotency key, if it has one."""

    rows: pl.DataFrame
    key: str | None = None
    digest: str = ""
    malformed: int = 0


@dataclass(frozen=True)
class Receipt:
    """What became of an offer. `repeated`: its key was known, and nothing was written."""

    number: int
    rows: int
    malformed: int
    repeated: bool = False


class KeyMismatch(PenstockError):
    """An idempotency key that came before, with another body."""


def segment(folder: Path, number: int) -> Path:
    """The file of a segment."""
    return folder / f"{number:016d}{_ENDING}"


def numbers(folder: Path) -> list[int]:
    """The segments that are there, in order."""
    names = (entry.name for entry in os.scandir(folder))
    return sorted(int(name[: -len(_ENDING)]) for name in names if name.endswith(_ENDING) and name[0] != ".")


def declare(folder: Path, stream: str, schema: Schema, base: int | None = None) -> None:
    """Makes an inbox for a stream, or updates its columns. A new one numbers its segments from the current time on."""
    folder.mkdir(parents=True, exist_ok=True)
    before = inbox_definition(folder)
    base = before.base if before is not None else base or time.time_ns() // 1_000_000
    text = json.dumps({"stream": stream, "schema": [list(column) for column in schema], "base": base})
    if _text(folder / _DECLARED) != text:
        hidden = folder / f".{_DECLARED}.{os.getpid()}"
        hidden.write_text(text, encoding="utf-8")
        hidden.replace(folder / _DECLARED)


def declared(directory: Path) -> dict[str, tuple[Path, InboxDefinition]]:
    """The inboxes of an app's directory, by the stream that reads them."""
    inboxes: dict[str, tuple[Path, InboxDefinition]] = {}
    home = directory / FOLDER
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        if (definition := inbox_definition(folder)) is not None:
            inboxes[definition.stream] = (folder, definition)
    return inboxes


def inbox_definition(folder: Path) -> InboxDefinition | None:
    """What the inbox in a folder is for, if there is one."""
    if (text := _text(folder / _DECLARED)) is None:
        return None
    content = json.loads(text)
    return InboxDefinition(
        content["stream"], Schema(tuple((name, kind) for name, kind in content["schema"])), content["base"]
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


class Inbox:
    """The side that writes. One call at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = 0
        self._keys: dict[str, Key] = {}
        self._begun = False

    @property
    def last(self) -> int:
        """The newest segment that this process knows of."""
        return self._last

    def put(self, offers: Sequence[Offer]) -> list[Receipt | KeyMismatch]:
        """Writes the rows of all offers as one segment, durably, but for those whose key is known."""
        with self._locked():
            self._catch_up()
            results: list[Receipt | KeyMismatch | None] = [None] * len(offers)
            new: list[int] = []
            first: dict[str, int] = {}
            for place, offer in enumerate(offers):
                if offer.key is not None and offer.key in self._keys:
                    results[place] = self._again(offer, self._keys[offer.key])
                elif offer.key is not None and offer.key in first:
                    continue  # twice in one group: answered below like any other repetition
                else:
                    if offer.key is not None:
                        first[offer.key] = place
                    new.append(place)
            if new:
                self._write([offers[place] for place in new])
                for place in new:
                    results[place] = Receipt(self._last, offers[place].rows.height, offers[place].malformed)
            return [
                self._again(offers[place], self._keys[offers[place].key or ""]) if result is None else result
                for place, result in enumerate(results)
            ]

    def _again(self, offer: Offer, known: Key) -> Receipt | KeyMismatch:
        if offer.digest != known.digest:
            return KeyMismatch(
                "the idempotency key was used before, with another body", hint="a new request needs a new key"
            )
        return Receipt(known.number, known.rows, known.malformed, repeated=True)

    def _write(self, offers: Sequence[Offer]) -> None:
        now, number = time.time(), self._last + 1
        keys = {o.key: Key(o.digest, number, o.rows.height, o.malformed, now) for o in offers if o.key is not None}
        table = pl.concat([offer.rows for offer in offers]).to_arrow()
        keys_json = json.dumps({key: _line(value) for key, value in keys.items()}).encode()
        hidden = self.folder / f".{uuid.uuid4().hex}"
        try:
            with hidden.open("wb") as file:
                pq.write_table(table.replace_schema_metadata({_META: keys_json}), file, compression="zstd")
                flush(file)
            os.link(hidden, segment(self.folder, number))  # fails where there is one
        finally:
            hidden.unlink(missing_ok=True)
        sync(self.folder)
        self._last = number
        self._note(keys)

    def _note(self, keys: dict[str, Key]) -> None:
        """Remembers keys, also for when their segment is swept."""
        self._keys |= keys
        if keys:
            with (self.folder / _KEYS).open("ab") as file:
                file.write(b"".join(json.dumps([key, *_line(value)]).encode() + b"\n" for key, value in keys.items()))
                flush(file)

    # what others have written

    def _catch_up(self) -> None:
        """Segments that are new to this process. The newest one is never swept: if ours is gone, we start over."""
        if not self._begun or not segment(self.folder, self._last).exists():
            self._begin()
        while (path := segment(self.folder, self._last + 1)).exists():
            self._note(_keys_of(path))  # its writer may have died before it could
            self._last += 1

    def _begin(self) -> None:
        there, definition = numbers(self.folder), inbox_definition(self.folder)
        self._last = there[-1] if there else 0 if definition is None else definition.base - 1
        self._keys, recorded = self._remembered()
        for number in there:
            if number > recorded:  # its writer may have died before it could note them
                self._note(_keys_of(segment(self.folder, number)))
        self._begun = True

    def _remembered(self) -> tuple[dict[str, Key], int]:
        """The keys of the last day, and the newest segment that has any. What is older is forgotten here."""
        lines = (_text(self.folder / _KEYS) or "").splitlines()
        keys: dict[str, Key] = {}
        newest = 0
        for line in lines:
            with suppress(ValueError):  # the last one may be half a line
                key, *rest = json.loads(line)
                keys[key] = Key(*rest)
                newest = max(newest, keys[key].number)
        since = time.time() - REMEMBERED
        recent = {key: value for key, value in keys.items() if value.at >= since}
        if len(recent) < len(lines) // 2:
            hidden = self.folder / f".{_KEYS}"
            hidden.write_text("".join(json.dumps([key, *_line(value)]) + "\n" for key, value in recent.items()))
            hidden.replace(self.folder / _KEYS)
        return recent, newest

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / _LOCK).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _line(key: Key) -> list[object]:
    return [key.digest, key.number, key.rows, key.malformed, key.at]


def _keys_of(path: Path) -> dict[str, Key]:
    metadata = pq.read_metadata(path).metadata or {}
    return {key: Key(*rest) for key, rest in json.loads(metadata.get(_META, b"{}")).items()}


def sweep(folder: Path, through: int, older_than: float, at_most: int = 1000) -> int:
    """Removes segments up to a number that are older than `seconds`, never the newest; how many."""
    there, before = numbers(folder)[:-1], time.time() - older_than
    swept = 0
    for number in there[:at_most]:
        path = segment(folder, number)
        if number > through or path.stat().st_mtime > before:
            break
        path.unlink(missing_ok=True)
        swept += 1
    return swept
