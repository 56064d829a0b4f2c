"""Finds out whether a Kafka broker answers, before Spark is started: Spark's own clients take most of a minute.

A broker is asked which requests it knows, which it answers to anybody; with TLS, the handshake is enough. Whether
certificates and passwords are right, Kafka's own clients say.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Final

from penstock.errors import PenstockError

#: How long brokers are tried, in seconds: one that starts along with the app may need some of them.
PATIENCE: Final = 5.0
_PAUSE: Final = 0.2
_PORT: Final = 9092
#: Kafka's request 18, ApiVersions, in its first version, with a number that the answer repeats, and no client's name.
_NUMBER: Final = 7
_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, _NUMBER, -1)


class _NoAnswer(Exception):
    """Why a broker counts as not answering."""


def check_answer(servers: str, protocol: str = "PLAINTEXT", patience: float | None = None) -> None:
    """Refuses brokers of which none answers within `seconds`. `protocol`: Kafka's `security.protocol`."""
    addresses = _addresses(servers)
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    reasons: dict[str, str] = {}
    while True:
        for number, (host, port) in enumerate(addresses):
            left = end - time.monotonic()
            try:
                _ask(host, port, protocol, max(0.05, left / (len(addresses) - number)))
                return
            except _NoAnswer as error:
                reasons[f"{host}:{port}"] = str(error)
        if time.monotonic() + _PAUSE >= end:
            break
        time.sleep(_PAUSE)
    raise PenstockError(
        f"no Kafka broker answers at '{servers}'",
        detail="; ".join(f"{address}: {reason}" for address, reason in reasons.items()),
        hint="start the broker, or name another one: ps.kafka(…, servers='host:9092') or PENSTOCK_KAFKA_SERVERS",
    )


def _ask(host: str, port: int, protocol: str, seconds: float) -> None:
    """Returns when a broker has answered."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.settimeout(seconds)
            if protocol.upper().endswith("SSL"):
                _shake_hands(connection)
            else:
                _ask_plainly(connection)
    except TimeoutError:
        raise _NoAnswer("no answer in time") from None
    except OSError as error:
        raise _NoAnswer(error.strerror or str(error)) from None


def _shake_hands(connection: socket.socket) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError:
        return  # it has answered: what it lacks, a certificate of ours perhaps, Kafka's client has


def _ask_plainly(connection: socket.socket) -> None:
    connection.sendall(_REQUEST)
    answer = b""
    while len(answer) < 8:
        part = connection.recv(8 - len(answer))
        if not part:
            raise _NoAnswer("it closed the connection; a broker with TLS needs the option kafka.security.protocol")
        answer += part
    if struct.unpack(">i", answer[4:])[0] != _NUMBER:
        raise _NoAnswer("it answers, but not with the Kafka protocol; for TLS set the option kafka.security.protocol")


def _addresses(servers: str) -> list[tuple[str, int]]:
    """The hosts and ports of a list of servers.

    >>> _addresses("one:9092, [::1]:9093, SSL://two:9094")
    [('one', 9092), ('::1', 9093), ('two', 9094)]
    """
    addresses = []
    for part in servers.split(","):
        host, _, port = part.strip().rpartition("://")[2].rpartition(":")
        if not port.isdigit() or not host:
            raise PenstockError(f"not the address of a Kafka broker: '{part.strip()}'", hint=f"write host:{_PORT}")
        addresses.append((host.strip("[]"), int(port)))
    return addresses
