"""A socket that listens at an address, and an error that says what to do where another process does so already."""

from __future__ import annotations

import socket

from penstock.descriptors import Listener
from penstock.errors import PenstockError


def listener(host: str, port: int) -> Listener:
    """A socket that is bound to an address; port 0 is any that is free."""
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        made = Listener(family, kind, protocol)  # asyncio sends at once only where it is named
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except BaseException:
            made.close()
            raise
        return made
    except OSError as error:
        raise PenstockError(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            hint="end what listens there, or choose another port: --port N, or --port 0 for any that is free",
        ) from error


def check_free(host: str, port: int) -> None:
    """Refuses an address at which another process listens, before anything costly is started."""
    listener(host, port).close()
