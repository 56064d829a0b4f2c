"""Lookups in views whose rows are in segments, for a server: pages, with questions about the store's own tables.

All that is asked at once sees the same commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any, Final

from penstock.query.errors import TooSlow
from penstock.query.key_pages import KeyPages, Page, check_size
from penstock.store import Reader
from penstock.store.scan import LAST_COMMIT, Snapshot, scanning
from penstock.store.segment_lookup import SegmentQuestion, look_up
from penstock.store.segment_scan import from_newest

#: The question for the last commit, as a server asks it.
_LAST: Final = [LAST_COMMIT, [], 1]


class Lookups:
    """Answers lookups from one store. An answer has at most `largest` bytes."""

    def __init__(self, reader: Reader, largest: int, stop: Event) -> None:
        self._reader, self._largest, self._stop = reader, largest, stop
        self._key_pages = KeyPages(reader, largest)

    def answer(self, questions: list[Any], seconds: float) -> list[Page]:
        """For each question its answer: SQL with parameters, as a list, or the fields of a `SegmentQuestion`."""
        until = time.monotonic() + seconds

        def check() -> None:
            if self._stop.is_set() or time.monotonic() > until:
                raise TooSlow(f"it takes longer than {seconds:g} s", hint="ask for less, or name a key or a window")

        first, *others = questions
        if isinstance(first, dict) and others in ([], [_LAST]):
            pages = self._key_pages.answer(SegmentQuestion(**first))
            if pages is not None:
                return list(pages[: len(questions)])
        return from_newest(lambda: self._answer(questions, check))

    def forget(self) -> None:
        """Keeps nothing of the newest commit. To be called when nobody has asked for a while."""
        self._key_pages.forget()

    def _answer(self, questions: list[Any], check: Callable[[], None]) -> list[Page]:
        with scanning(self._reader) as snapshot:
            pages: list[Page] = []
            for question in questions:
                if isinstance(question, dict):
                    pages.append(_page(snapshot, SegmentQuestion(**question), check))
                else:
                    text, parameters, most = question
                    frame = snapshot.rows(text, parameters)
                    pages.append(
                        (frame.columns, [list(row) for row in frame.head(most).iter_rows()], frame.height > most)
                    )
                check_size(pages[-1][1], self._largest)
            return pages


def _page(snapshot: Snapshot, question: SegmentQuestion, check: Callable[[], None]) -> Page:
    rows = look_up(snapshot, replace(question, most=question.most + 1), check)
    return list(snapshot.views[question.view].schema.names), rows[: question.most], len(rows) > question.most
