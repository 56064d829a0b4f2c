"""Tokens, which authorize requests. A file of the app's directory holds their digests, never the tokens themselves.

A token is 32 random bytes; its digest needs no salt. Scopes: `read` for queries, `write` for events, `admin` for all.
Once an app has had a token, every request needs one, also after the last token was removed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError, unknown

FILE: Final = "tokens.json"
SCOPES: Final = ("read", "write", "admin")
_PREFIX: Final = "ps_"


@dataclass(frozen=True)
class Token:
    """A token's digest, scopes and name."""

    name: str
    scopes: tuple[str, ...]
    digest: str
    created: int

    def allows(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


class Tokens:
    """The tokens of an app. The file is looked at again when it has changed.

    `optional` lets requests in without a token after all tokens were removed: `--no-tokens` says so.
    """

    def __init__(self, directory: Path, optional: bool = False) -> None:
        self._path, self._optional = directory / FILE, optional
        self._seen: tuple[int, int, int] | None = None
        self._known: list[Token] = []
        self._in_use = False

    def are_required(self) -> bool:
        """Whether a request needs a token: there are some, or there were."""
        return bool(self.read()) or (self._in_use and not self._optional)

    def read(self) -> list[Token]:
        """The tokens as the file has them now."""
        try:
            file = os.stat(self._path)
        except FileNotFoundError:  # a file that vanished while we run lets nobody in
            self._seen, self._known = None, []
            return []
        self._in_use = True
        seen = (file.st_mtime_ns, file.st_size, file.st_ino)
        if seen != self._seen:
            self._known = _read(self._path)
            self._seen = seen
        return self._known

    def find(self, secret: str) -> Token | None:
        """The token with this secret. All are compared, each in constant time."""
        digest, match = _digest(secret), None
        for token in self.read():
            if hmac.compare_digest(token.digest, digest):
                match = token
        return match

    def holds(self, token: Token | None) -> bool:
        """Whether a request that was let in with this token, or without one, still would be."""
        return token in self.read() if token is not None else not self.are_required()

    def create(self, scopes: Iterable[str], name: str | None = None) -> str:
        """Makes a token; it is shown this once."""
        wanted = tuple(dict.fromkeys(scopes))
        for scope in wanted:
            if scope not in SCOPES:
                raise unknown("scope", scope, SCOPES)
        if not wanted:
            raise PenstockError("a token needs a scope", hint="read, write or admin")
        name = name or f"token_{len(self.read()) + 1}"
        if any(token.name == name for token in self.read()):
            raise PenstockError(f"there is a token '{name}' already", hint="choose another name, or remove it")
        secret = _PREFIX + secrets.token_urlsafe(32)
        self._write([*self.read(), Token(name, wanted, _digest(secret), int(time.time()))])
        return secret

    def remove(self, name: str) -> None:
        left = [token for token in self.read() if token.name != name]
        if len(left) == len(self.read()):
            raise unknown("token", name, [token.name for token in self.read()])
        self._write(left)

    def _write(self, tokens: list[Token]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        hidden = self._path.with_name(f".{FILE}.{os.getpid()}")
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump([vars(token) for token in tokens], file, indent=1)
        hidden.replace(self._path)


def _read(path: Path) -> list[Token]:
    try:
        return [Token(t["name"], tuple(t["scopes"]), t["digest"], t["created"]) for t in json.loads(path.read_text())]
    except (ValueError, KeyError, TypeError) as error:
        raise PenstockError(
            f"'{path}' is damaged", hint="restore it, or remove it and create the tokens again"
        ) from error


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
