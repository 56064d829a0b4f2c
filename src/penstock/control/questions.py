"""SELECT over the views of a store, in one's own process: with or without a running app."""

from __future__ import annotations

from penstock.query.answer import Answer
from penstock.query.ask import Questions, schemas
from penstock.sql.statements import Question
from penstock.store import Reader


def tables(reader: Reader) -> dict[str, tuple[str, ...]]:
    """The views that can be asked, with their columns."""
    return {name: schema.names for name, schema in schemas(reader).items()}


def ask(reader: Reader, asked: Question | str) -> Answer:
    """The answer to a question over views and the store's own tables."""
    return Questions(reader, own_tables=True).ask(asked)
