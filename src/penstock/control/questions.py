"""SELECT over the views of a store, in one's own process: milliseconds, with or without a running app."""

from __future__ import annotations

import polars as pl

from penstock.sql.question import question
from penstock.sql.statements import Question
from penstock.store import Reader, StoreError


def tables(reader: Reader) -> dict[str, tuple[str, ...]]:
    """The views that can be asked, with their columns."""
    return {name: tuple(reader.columns(name)) for name in reader.views()}


def ask(reader: Reader, asked: Question | str) -> pl.DataFrame:
    """The answer. Names are looked up and literals bound: nothing of the text reaches the store."""
    text, parameters = question(asked, tables(reader), **reader.database.asked)
    try:
        return reader.query(text, parameters)
    except StoreError as error:
        said = (error.detail or "").splitlines()
        if "refused a statement" not in error.message or not said:
            raise
        reason = said[0].rsplit("] ")[-1].removeprefix("Failed to prepare query: ").split("\nquery:")[0]
        raise StoreError(f"the store cannot answer: {reason}") from error
