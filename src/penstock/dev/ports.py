"""Ports of this machine for servers that are started, killed and started again at the same address."""

from __future__ import annotations

import random
import socket
from typing import Final

from penstock.errors import PenstockError

HOST: Final = "127.0.0.1"
#: Below those that systems give to connections: one of these would sit on the port while its server is away.
_RANGE: Final = range(20_000, 32_000)
_TRIES: Final = 100


def free_port() -> int:
    """A port at which nobody listens, and that no connection gets by itself."""
    for port in random.sample(_RANGE, _TRIES):
        with socket.socket() as listener:
            try:
                listener.bind((HOST, port))
            except OSError:
                continue
            return port
    raise PenstockError(f"no port between {_RANGE.start} and {_RANGE.stop} is free", hint="see who listens: ss -ltn")
