"""File descriptors: the process raises its own limit, and connections leave a reserve for the app's own files."""

from __future__ import annotations

import os
import resource
import socket
from typing import Any, Final

#: The soft limit that a process gives itself, where the hard limit allows it.
WANTED: Final = 65_536
#: Descriptors that stay free for files of epochs, the store and Spark, at least; with a low limit, a quarter of it.
_RESERVE: Final = 256
#: Where the system does not list them, the number that a process is assumed to have open.
_ASSUMED: Final = 100


def raise_limit() -> int:
    """Raises the soft limit of open files as far as allowed and useful. Returns what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # some systems allow less than they say
        return soft
    return wanted


def for_connections(most: int) -> int:
    """How many connections may be open at a time: at most `most`; some descriptors stay reserved for files."""
    limit = raise_limit()
    return max(1, min(most, limit - _open_now() - min(_RESERVE, limit // 4)))


class Listener(socket.socket):
    """A listening socket that hangs up on a connection which would take one of the reserved descriptors.

    The system gives out the lowest free number. So a high number says how many are open, in all of the process.
    """

    highest = WANTED

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if connection.fileno() < self.highest:
            return connection, address
        connection.close()
        raise ConnectionAbortedError("too many open files")

    def listen(self, backlog: int = 128) -> None:
        limit = raise_limit()
        self.highest = limit - min(_RESERVE, limit // 4)
        super().listen(backlog)


def _open_now() -> int:
    for listing in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(listing))
        except OSError:
            continue
    return _ASSUMED
