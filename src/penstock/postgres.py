"""URLs of PostgreSQL as libpq takes them: their check, their secrets, and the time-outs of every connection.

>>> without_secrets("postgresql://ann:hush@db.example:5432/events?sslmode=require")
'postgresql://ann@db.example:5432/events?sslmode=require'

A password may be in the URL. It is better kept in PGPASSWORD or in the file ~/.pgpass, where libpq looks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.errors import DefinitionError, PenstockError
from penstock.redaction import redact_values

EXAMPLE: Final = "for example 'postgresql://writer@db.example.com/shop', with the password in PGPASSWORD or ~/.pgpass"
#: The longest wait for a lock that another session holds.
LOCK_TIMEOUT: Final = "20s"
#: How soon a server that is gone is noticed, unless the URL says otherwise: seconds, and milliseconds.
_TIMEOUTS: Final = {
    "connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}  # fmt: skip
_SECRETS: Final = ("password", "sslpassword")


def driver() -> Any:
    """The driver for PostgreSQL, which an extra brings along."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise PenstockError(
            "PostgreSQL needs the package adbc-driver-postgresql", hint="pip install 'penstock[postgres]'"
        ) from None
    return dbapi


def is_url(text: str) -> bool:
    """Whether a text is the URL of a PostgreSQL database.

    >>> is_url("postgres://h/d"), is_url("sqlite:///d")
    (True, False)
    """
    return re.match(r"postgres(ql)?://", text) is not None


def check(url: object) -> None:
    """Rejects what is not such a URL, without showing it: it may hold a password."""
    if not isinstance(url, str) or not is_url(url):
        raise DefinitionError("not the address of a PostgreSQL database", hint=EXAMPLE)
    try:
        split = urlsplit(url)
        if split.hostname and "," not in split.netloc:
            _ = split.port
        parse_qsl(split.query, strict_parsing=bool(split.query), keep_blank_values=True)
    except ValueError:
        raise DefinitionError(
            "the address of the PostgreSQL database cannot be read",
            detail="special characters in a password must be percent-encoded: 'p@ss' is 'p%40ss'",
            hint=EXAMPLE,
        ) from None


def secrets_of(url: str) -> list[str]:
    """The passwords in a URL, as they are written there and as they are meant."""
    split = urlsplit(url)
    password = split.netloc.rpartition("@")[0].partition(":")[2]
    written = [value for name, _, value in _settings(split.query) if name in _SECRETS]
    return sorted({secret for text in (password, *written) for secret in (text, unquote(text)) if secret})


def without_secrets(url: str) -> str:
    """The URL without its passwords."""
    split = urlsplit(url)
    info, at, hosts = split.netloc.rpartition("@")
    query = "&".join(f"{name}{equals}{value}" for name, equals, value in _settings(split.query) if name not in _SECRETS)
    return urlunsplit(split._replace(netloc=f"{info.partition(':')[0]}{at}{hosts}", query=query))


def redact(message: str, url: str) -> str:
    """A message of the database without the passwords of the URL."""
    return redact_values(message, secrets_of(url))


def with_settings(url: str, settings: Mapping[str, str]) -> str:
    """The URL with time-outs and more settings of libpq: what it says itself comes first.

    >>> with_settings("postgresql://h/d?connect_timeout=3", {"application_name": "a b"}).split("&")[:2]
    ['postgresql://h/d?connect_timeout=3', 'application_name=a%20b']
    """
    split = urlsplit(url)
    own = {name for name, _, _ in _settings(split.query)}
    more = {name: value for name, value in {**settings, **_TIMEOUTS}.items() if name not in own}
    query = "&".join(filter(None, [split.query, urlencode(more, quote_via=quote)]))
    return urlunsplit(split._replace(path=split.path or "/", query=query))


def _settings(query: str) -> list[tuple[str, str, str]]:
    return [part.partition("=") for part in query.split("&") if part]
