"""Settings of a server: where it listens, who may use it, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from penstock.errors import PenstockError

PORT = 8765


@dataclass(frozen=True)
class Limits:
    """How much of everything: bytes, rows, seconds, and how many at a time.

    `rate` requests a second are answered to one client, `burst` of them at once. `memory` is what one SELECT may take.
    `panes` bytes of a view's newest panes are kept for its subscribers; those that fall further behind read the store.
    """

    body: int = 16 << 20
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    events: int = 200_000
    answer: int = 32 << 20
    rows: int = 10_000
    statement_seconds: float = 5.0
    wait_seconds: float = 60.0
    requests: int = 200
    subscribers: int = 2_000
    panes: int = 8 << 20
    processes: int = 3
    memory: int = 512 << 20
    rate: float = 1_000.0
    burst: float = 2_000.0


@dataclass(frozen=True)
class Settings:
    """Where a server listens, and what it lets through. `port` 0 is any that is free.

    `no_tokens` lets requests in without a token although the app had tokens before.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    cert: Path | None = None
    key: Path | None = None
    insecure: bool = False
    limits: Limits = Limits()
    no_tokens: bool = False

    def check(self, has_tokens: bool) -> None:
        """Refuses to listen to other machines without tokens."""
        if (self.cert is None) != (self.key is None):
            raise PenstockError("TLS takes two files", hint="give both: --cert FILE --key FILE")
        for path in (self.cert, self.key):
            if path is not None and not path.is_file():
                raise PenstockError(f"there is no file '{path}'")
        if self.no_tokens and has_tokens:
            raise PenstockError(
                "--no-tokens, but the app has tokens",
                hint="remove them first: penstock token remove NAME; or leave out --no-tokens",
            )
        if not self.is_local and not has_tokens and not self.insecure:
            raise PenstockError(
                f"everyone who reaches {self.host} could read and write",
                hint="make a token first: penstock token create --scope read; or pass --insecure",
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
