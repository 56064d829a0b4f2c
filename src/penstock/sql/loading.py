"""An app in a file of SQL: its CREATE statements, in order."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.app import App
from penstock.errors import DefinitionError
from penstock.model.naming import valid_name
from penstock.sql import statements as sql
from penstock.sql.catalog import define
from penstock.sql.read import parse

_DEFINITIONS = (
    sql.CreateStream, sql.CreateStreamAs, sql.CreateView, sql.CreateSink, sql.CreateTable, sql.CreateAlert, sql.Drop,
)  # fmt: skip


def load(path: str | Path) -> App:
    """The app that a file of SQL makes; it has the file's name, or that of the folder for `app.sql`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"'{path}' cannot be read: {error}") from None
    app = App(_name(path.resolve().parent.name if path.stem == "app" else path.stem))
    for statement in parse(text, str(path)):
        if not isinstance(statement, _DEFINITIONS):
            word = statement.whole.text.split()[0].upper()
            raise statement.source.error(
                f"{word} is not part of an app", statement.whole,
                hint="an app is CREATE statements; tests have a file of their own, for penstock test",
            )  # fmt: skip
        define(app, statement)
    return app


def app_name(directory: Path) -> str:
    """The name of an app that has no file: that of the folder in which its directory lies."""
    return _name(directory.resolve().parent.name)


def _name(stem: str) -> str:
    """A file's name as an app's.

    >>> _name("web-shop"), _name("2024")
    ('web_shop', 'app_2024')
    """
    name = re.sub(r"\W", "_", stem).strip("_")
    return name if valid_name(name) else f"app_{name}"
