"""Where a running app listens: a Unix socket in a private directory, named by the file `control.json` of the app.

The socket does not lie in the app's own directory, since the path of a socket may not be longer than some 100 bytes.
A file that a killed process has left names a socket at which nobody listens.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE: Final = "control.json"
_PREFIX: Final = "penstock-"
_LONGEST: Final = 100  # of 104 bytes on some systems, 108 on others


@dataclass(frozen=True)
class Address:
    """The process of an app, and its socket."""

    app: str
    pid: int
    socket: str


def read(directory: Path) -> Address | None:
    """The address that an app's directory names, if it names one."""
    try:
        record = json.loads((directory / FILE).read_text(encoding="utf-8"))
        return Address(str(record["app"]), int(record["pid"]), str(record["socket"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def place() -> Path:
    """A path for a socket, in a new directory that only this user can enter."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    if len(os.fsencode(folder)) > _LONGEST - len("/sql"):
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
    return Path(folder) / "sql"


def write(directory: Path, address: Address) -> None:
    """Names the address; it is there whole or not at all."""
    hidden = directory / f".{FILE}.{address.pid}"
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(address), file)
    hidden.replace(directory / FILE)


def clear(directory: Path, of: int | None = None) -> None:
    """Removes what the directory names, if it is one of ours: the socket, its directory, the file.

    With `of`, only what that process has named.
    """
    own = read(directory)
    if of is not None and (own is None or own.pid != of):
        return
    if own is not None:
        socket = Path(own.socket)
        if socket.parent.name.startswith(_PREFIX):
            with suppress(OSError):
                socket.unlink(missing_ok=True)
                socket.parent.rmdir()
    (directory / FILE).unlink(missing_ok=True)
