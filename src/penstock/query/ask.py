"""Answers SELECT over the views of a store: one commit for the whole question, and only the rows and columns it needs.

A question may also read the store's own tables, `__refused` and the like, where the caller allows it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Final

from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.query.answer import Answer
from penstock.query.limits import Limits
from penstock.query.plan import Plan, compile_query
from penstock.query.run import Engine, shared_engine
from penstock.sql.statements import Question
from penstock.store import Reader
from penstock.store.scan import Scannable, Snapshot, scanning
from penstock.store.segment_scan import from_newest

#: How many plans are kept. One that depends on the clock is not.
_PLANS: Final = 256
_CLOCK: Final = re.compile(r"\bnow\b|current_", re.IGNORECASE)


class Questions:
    """Answers questions from one store, one after the other. Plans are kept while the views stay as they are."""

    def __init__(self, reader: Reader, limits: Limits | None = None, *, own_tables: bool = False) -> None:
        self.reader, self.own_tables = reader, own_tables
        self.engine = shared_engine() if limits is None else Engine(limits)
        self._plans: OrderedDict[str, tuple[Mapping[str, Schema], Plan]] = OrderedDict()

    def ask(self, question: Question | str, limits: Limits | None = None) -> Answer:
        """The answer, with the commit that it is of."""

        def ask() -> Answer:
            with self.opened() as moment:
                return moment.run(moment.plan(question), limits)

        return from_newest(ask)

    @contextmanager
    def opened(self) -> Iterator[Moment]:
        """A commit, of which one question is asked."""
        with scanning(self.reader) as snapshot:
            yield Moment(self, snapshot)

    def plan(self, question: Question | str, tables: Mapping[str, Schema], now: Instant | None = None) -> Plan:
        """The plan of a question, which may be known."""
        text = question if isinstance(question, str) else question.text
        cached = self._plans.get(text)
        if cached is not None and cached[0] == tables:
            self._plans.move_to_end(text)
            return cached[1]
        plan = compile_query(question, tables, now=now)
        if not _CLOCK.search(text):
            self._plans[text] = tables, plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return plan


class Moment:
    """One commit of a store, and the views that it has."""

    def __init__(self, questions: Questions, snapshot: Snapshot) -> None:
        self._questions, self._snapshot = questions, snapshot

    def plan(self, question: Question | str) -> Plan:
        text = question if isinstance(question, str) else question.text
        self._tables: Mapping[str, Scannable] = self._snapshot.views
        if self._questions.own_tables and "__" in text:
            self._tables = {**self._snapshot.views, **self._snapshot.own_tables}
        return self._questions.plan(question, {name: table.schema for name, table in self._tables.items()})

    def run(self, plan: Plan, limits: Limits | None = None, stop: Event | None = None) -> Answer:
        """The answer; `stop` ends it early."""
        tables, snapshot = self._tables, self._snapshot
        try:
            answer = self._questions.engine.run(
                plan, lambda scan: snapshot.scan(tables[scan.view], scan.columns, scan.filters), limits, stop
            )
        except Exception:
            if snapshot.failure is not None:
                raise snapshot.failure from None
            raise
        return replace(answer, commit=snapshot.commit)

    def indexes(self, plan: Plan) -> list[tuple[str, list[str]]]:
        """The keys of views with windows by which a plan asks: an index by them would help."""
        wishes = []
        for scan in plan.scans:
            view = self._tables[scan.view]
            columns = {condition.column for condition in scan.filters if condition.op in ("=", "in")}
            keys = [key for key in view.keys if key in columns]
            if keys and view.windows and not view.in_segments:
                wishes.append((scan.view, keys))
        return wishes


def schemas(reader: Reader) -> dict[str, Schema]:
    """The views of a store, with their columns."""
    with scanning(reader) as snapshot:
        return {name: view.schema for name, view in snapshot.views.items()}
