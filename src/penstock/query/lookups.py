"""Lookups in views whose rows are in segments, for a server: pages, with questions about the store's own tables.

All that is asked at once sees the same commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any, TypeAlias

from penstock.query.errors import TooLarge, TooSlow
from penstock.store import Reader
from penstock.store.scan import Snapshot, scanning
from penstock.store.segment_lookup import SegmentQuestion, look_up
from penstock.store.segment_scan import from_newest

#: Names of columns, rows, and whether there are more rows than were wanted.
Page: TypeAlias = tuple[list[str], list[list[Any]], bool]


class Lookups:
    """Answers lookups from one store. An answer has at most `largest` bytes."""

    def __init__(self, reader: Reader, largest: int, stop: Event) -> None:
        self._reader, self._largest, self._stop = reader, largest, stop

    def answer(self, asked: list[Any], seconds: float) -> list[Page]:
        """For each question its answer: SQL with parameters, as a list, or the fields of a `SegmentQuestion`."""
        until = time.monotonic() + seconds

        def check() -> None:
            if self._stop.is_set() or time.monotonic() > until:
                raise TooSlow(f"it takes longer than {seconds:g} s", hint="ask for less, or name a key or a window")

        return from_newest(lambda: self._answer(asked, check))

    def _answer(self, asked: list[Any], check: Callable[[], None]) -> list[Page]:
        with scanning(self._reader) as snapshot:
            pages: list[Page] = []
            for one in asked:
                if isinstance(one, dict):
                    pages.append(_page(snapshot, SegmentQuestion(**one), check))
                else:
                    text, parameters, most = one
                    frame = snapshot.rows(text, parameters)
                    pages.append(
                        (frame.columns, [list(row) for row in frame.head(most).iter_rows()], frame.height > most)
                    )
                self._check_size(pages[-1][1])
            return pages

    def _check_size(self, rows: list[list[Any]]) -> None:
        size = sum(len(value) if isinstance(value, str | bytes) else 9 for row in rows for value in row)
        if size > self._largest:
            raise TooLarge(f"the answer is larger than {self._largest} bytes", hint="ask for fewer rows")


def _page(snapshot: Snapshot, question: SegmentQuestion, check: Callable[[], None]) -> Page:
    rows = look_up(snapshot, replace(question, most=question.most + 1), check)
    return list(snapshot.views[question.view].schema.names), rows[: question.most], len(rows) > question.most
