"""Where a store in PostgreSQL is: a URL as PostgreSQL's own tools take it, and the name of a schema.

>>> address = Address.read("postgresql://ann:secret@db.example:5432/events?sslmode=require", "shop")
>>> address.shown
'postgresql://ann@db.example:5432/events?sslmode=require&schema=shop'
>>> address.own, address.people
('__shop', 'shop')
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from penstock.postgres import check, is_url, secrets_of, without_secrets
from penstock.process_state import RecentlyUsed, process
from penstock.store.base import StoreError

#: Names the store of an app that does not say where it is.
VARIABLE: Final = "PENSTOCK_STORE"
#: The most bytes of the name of a schema: roles and locks are named after it.
_LONGEST: Final = 50
#: The number of URLs whose passwords a process remembers.
_MOST_URLS: Final = 256


class GivenUrls(RecentlyUsed[str, str]):
    """The URLs that this process was given, with their passwords, by the same without.

    A directory names its store without a password. It is kept here for the rest of this process.
    """

    def __init__(self) -> None:
        super().__init__(_MOST_URLS)


@dataclass(frozen=True)
class Address:
    """A schema of a database. `url` may hold a password, and is shown to nobody."""

    url: str = field(repr=False)
    schema: str

    @classmethod
    def read(cls, text: str, app: str | None = None) -> Address:
        """The address that a URL says; its schema is named after the app unless it says `schema=…`."""
        if not is_url(text):
            kind = text.partition("://")[0][:40]
            raise StoreError(f"'{kind}' is not a kind of store", hint="write postgresql://user@host/database")
        check(text)
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True)
        named = [value for name, value in options if name == "schema"]
        rest = urlencode([(name, value) for name, value in options if name != "schema"], quote_via=quote)
        schema = named[-1] if named else app
        if schema is None:
            raise StoreError("the URL of the store names no schema", hint="add ?schema=NAME")
        if not schema or schema.startswith(("pg_", "__")) or len(schema.encode()) > _LONGEST or "\0" in schema:
            raise StoreError(
                f"'{schema}' cannot be the schema of a store",
                hint=f"write another one, ?schema=NAME: up to {_LONGEST} letters, not starting with 'pg_' or '__'",
            )
        address = cls(urlunsplit(parts._replace(scheme="postgresql", query=rest)), schema)
        if secrets_of(address.url):
            process.of(GivenUrls).put(address.shown, address.url)
        return address

    @classmethod
    def remembered(cls, text: str) -> Address:
        """The same for a URL without a password, with the one that this process knows for it."""
        url = os.environ.get(VARIABLE, "")
        address = cls.read(text)
        if is_url(url):
            cls.read(url, address.schema)
        return cls(process.of(GivenUrls).get(address.shown) or address.url, address.schema)

    @property
    def shown(self) -> str:
        """The URL without a password."""
        url = without_secrets(self.url)
        return f"{url}{'&' if urlsplit(url).query else '?'}schema={quote(self.schema, safe='')}"

    @property
    def people(self) -> str:
        """The schema of what people read."""
        return self.schema

    @property
    def own(self) -> str:
        """The schema of the store's own tables."""
        return f"__{self.schema}"

    @property
    def role(self) -> str:
        """The role that may read what people read."""
        return f"{self.schema}_reader"
