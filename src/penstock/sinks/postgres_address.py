"""Where a PostgreSQL database is: the address, what of it may be shown, and what is said to libpq besides.

>>> shown("postgresql://writer:secret@db.example.com/shop?sslmode=require")
'postgresql://writer:…@db.example.com/shop?sslmode=require'

A password may be in the address. Better it is not: libpq takes it from PGPASSWORD or from the file ~/.pgpass.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.errors import DefinitionError

#: The variable that says where PostgreSQL is, for sinks that do not.
URL: Final = "PENSTOCK_POSTGRES_URL"
_SECRET: Final = ("password", "sslpassword", "passfile")
_EXAMPLE: Final = "for example «postgresql://writer@db.example.com/shop», with the password in PGPASSWORD or ~/.pgpass"
#: A server that has gone silent is given up after a while, so that the sink can be tried again.
_PATIENCE: Final = {
    "connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}  # fmt: skip


def url_of(said: str | None) -> str:
    """The address as said, or as the environment says."""
    found = said or os.environ.get(URL)
    if not found:
        raise DefinitionError("no address of a PostgreSQL database", hint=f"give url=…, or set {URL}; {_EXAMPLE}")
    check(found)
    return found


def check(url: object) -> None:
    """Refuses what is no address, without showing it: it may hold a password."""
    if not isinstance(url, str) or not re.match(r"postgres(ql)?://", url):
        raise DefinitionError("not the address of a PostgreSQL database", hint=_EXAMPLE)
    try:
        split = urlsplit(url)
        if split.hostname and "," not in split.netloc:
            _ = split.port
        parse_qsl(split.query, strict_parsing=bool(split.query))
    except ValueError:
        raise DefinitionError(
            "the address of the PostgreSQL database cannot be read",
            detail="a password with signs in it must be written with percent signs: «p@ss» is «p%40ss»",
            hint=_EXAMPLE,
        ) from None


def secrets_of(url: str) -> list[str]:
    """The passwords in an address, as they are written there and as they are meant."""
    split = urlsplit(url)
    found = [unquote(value) for name, value in parse_qsl(split.query) if name in _SECRET]
    password = _userinfo(split)[1]
    found += [password, unquote(password)] if password else []
    return sorted({secret for secret in found if secret}, key=len, reverse=True)


def has_secrets(url: str) -> bool:
    return bool(secrets_of(url))


def shown(url: str) -> str:
    """The address without its passwords."""
    split = urlsplit(url)
    user, password, host = _userinfo(split)
    netloc = (f"{user}:…@" if password else f"{user}@" if user else "") + host
    query = "&".join(_shown_setting(part) for part in split.query.split("&"))
    return urlunsplit(split._replace(netloc=netloc, query=query))


def hidden(text: str, url: str) -> str:
    """A message of the database without the passwords of the address."""
    for secret in secrets_of(url):
        text = text.replace(secret, "…")
    return text


def with_settings(url: str, settings: Mapping[str, str]) -> str:
    """The address with more settings of libpq: what it says itself comes first.

    >>> with_settings("postgresql://h/d?connect_timeout=3", {"application_name": "a b"}).split("&")[:2]
    ['postgresql://h/d?connect_timeout=3', 'application_name=a%20b']
    """
    split = urlsplit(url)
    said = {name for name, _ in parse_qsl(split.query)}
    more = {name: value for name, value in {**settings, **_PATIENCE}.items() if name not in said}
    query = "&".join(filter(None, [split.query, urlencode(more, quote_via=quote)]))
    path = split.path or "/"
    return urlunsplit(split._replace(path=path, query=query))


def _userinfo(split: SplitResult) -> tuple[str, str, str]:
    """The user, the password and the hosts."""
    info, _, host = split.netloc.rpartition("@")
    user, _, password = info.partition(":")
    return user, password, host


def _shown_setting(part: str) -> str:
    name, is_said, _ = part.partition("=")
    return f"{name}=…" if is_said and name in _SECRET else part
