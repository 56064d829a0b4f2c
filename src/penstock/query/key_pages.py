"""Pages of lookups by whole key. They take so little time that a server answers them itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from penstock.query.errors import TooLarge
from penstock.store import Reader
from penstock.store.key_lookup import KeyLookups
from penstock.store.segment_lookup import SegmentQuestion
from penstock.store.segment_scan import from_newest

#: Names of columns, rows, and whether there are more rows than were wanted.
Page: TypeAlias = tuple[list[str], list[list[Any]], bool]


class KeyPages:
    """Answers lookups by whole key from one store. An answer has at most `largest` bytes. For one thread at a time."""

    def __init__(self, reader: Reader, largest: int) -> None:
        self._lookups, self._largest = KeyLookups(reader), largest

    def answer(self, question: SegmentQuestion) -> tuple[Page, Page] | None:
        """The page, and one with the number of the commit; None if another way is needed to answer."""
        more = replace(question, most=question.most + 1)
        answer = from_newest(lambda: self._lookups.answer(more))
        if answer is None:
            return None
        check_size(answer.rows, self._largest)
        page = list(answer.columns), answer.rows[: question.most], len(answer.rows) > question.most
        return page, (["n"], [[answer.commit]], False)

    def forget(self) -> None:
        """Keeps nothing of the newest commit. To be called when nobody has asked for a while."""
        self._lookups.forget()

    def close(self) -> None:
        self._lookups.close()


def check_size(rows: list[list[Any]], largest: int) -> None:
    """Refuses an answer that is too large."""
    size = sum(len(value) if isinstance(value, str | bytes) else 9 for row in rows for value in row)
    if size > largest:
        raise TooLarge(f"the answer is larger than {largest} bytes", hint="ask for fewer rows")
