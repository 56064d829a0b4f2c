"""Pickled bytes in the store carry a signature: a store from elsewhere must not run code here.

The key lies in the app's directory, outside of what a savepoint copies. It counts only at its own place on the disk: a
copy of the whole directory is a store from elsewhere too.

>>> signer = Signer(Path(tempfile.mkdtemp()))
>>> signed = signer.sign(b"data", "view", "totals")
>>> signer.verified(signed, "view", "totals"), signer.verified(signed, "view", "others"), signer.verified(b"data")
(b'data', None, None)
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile  # noqa: F401 (the example above)
from pathlib import Path
from typing import Final

from penstock.model.plain import definition_part, plain
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.dialect import quoted

FILE: Final = "signing.key"
_MAGIC: Final = b"\x00ps1"
_SIZE: Final = len(_MAGIC) + hashlib.sha256().digest_size
_MEMORY: Final = "__memory_"
#: What a topology remembers is pickled: these parts, and the state of its bolts.
_PICKLED: Final = ("meta", "tasks", "trees", "again", "heard")
_STATE: Final = "state:"


class Signer:
    """Signs bytes for one app's directory, and tells whether bytes were signed there, for the same use."""

    def __init__(self, directory: Path) -> None:
        self._key = _key(directory / FILE)

    def sign(self, data: bytes, *use: str | bytes) -> bytes:
        return _MAGIC + self._mac(data, use) + data

    def verified(self, signed: bytes, *use: str | bytes) -> bytes | None:
        """The bytes that were signed for this use; None if this app has not signed them."""
        data = without_signature(signed)
        if len(signed) == len(data) or not hmac.compare_digest(signed[len(_MAGIC) : _SIZE], self._mac(data, use)):
            return None
        return data

    def _mac(self, data: bytes, use: tuple[str | bytes, ...]) -> bytes:
        parts = [part.encode() if isinstance(part, str) else part for part in (*use, data)]
        return hmac.digest(self._key, b"".join(len(part).to_bytes(8, "big") + part for part in parts), "sha256")


def without_signature(signed: bytes) -> bytes:
    return signed[_SIZE:] if len(signed) >= _SIZE and signed.startswith(_MAGIC) else signed


def foreign(connection: Connection, signer: Signer) -> list[str]:
    """What in a store is pickled and was not signed by this app: views, and streams with state of their own."""
    unsigned = [
        f"view '{view}'"
        for view, definition, data in _definitions(connection)
        if signer.verified(data, "view", view, definition) is None and not _is_plain(without_signature(data))
    ]
    for table in _memories(connection):
        stream = table.removeprefix(_MEMORY)
        rows = _pickled(connection, table)
        if any(signer.verified(value, "memory", stream, part, key) is None for part, key, value in rows):
            unsigned.append(f"stream '{stream}'")
    return sorted(set(unsigned))


def sign_again(connection: Connection, signer: Signer) -> None:
    """Takes what is pickled in a store for this app's own."""
    for view, definition, data in _definitions(connection):
        signed = signer.sign(without_signature(data), "view", view, definition)
        sql = "UPDATE __generations SET pickled = ?1 WHERE view = ?2 AND definition = ?3"
        connection.run(sql, [signed, view, definition])
    for table in _memories(connection):
        stream = table.removeprefix(_MEMORY)
        for part, key, value in _pickled(connection, table):
            signed = signer.sign(without_signature(value), "memory", stream, part, key)
            sql = f"UPDATE {quoted(table)} SET value = ?1 WHERE part = ?2 AND key = ?3"
            connection.run(sql, [signed, part, key])


def _definitions(connection: Connection) -> list[tuple[str, str, bytes]]:
    if "__generations" not in connection.tables():
        return []
    sql = "SELECT view, definition, pickled FROM __generations WHERE pickled IS NOT NULL"
    return list(connection.rows(sql).iter_rows())


def _is_plain(data: bytes) -> bool:
    """Whether a definition holds no function and no object of a user's class."""
    try:
        plain(data, definition_part)
    except Exception:  # whatever damaged bytes may raise
        return False
    return True


def _memories(connection: Connection) -> list[str]:
    return [table for table in connection.tables() if table.startswith(_MEMORY)]


def _pickled(connection: Connection, table: str) -> list[tuple[str, bytes, bytes]]:
    rows = connection.rows(f"SELECT part, key, value FROM {quoted(table)}").iter_rows()
    return [row for row in rows if row[0] in _PICKLED or row[0].startswith(_STATE)]


def _key(path: Path) -> bytes:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreError(f"cannot write '{path}': {error.strerror}") from error
    with path.open("rb") as file:
        place = os.fstat(file.fileno()).st_ino
        return hashlib.sha256(place.to_bytes(8, "big") + file.read()).digest()
