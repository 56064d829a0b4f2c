"""Audits of the views of a run: made beside its epochs, remembered in its store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import asdict

from penstock.control.protocol import Reply
from penstock.errors import unknown
from penstock.history.batch.audit import Audit, AuditResult
from penstock.history.batch.generation import Progress
from penstock.runtime.run import Run
from penstock.store.audits import AuditRecord

_log = logging.getLogger("penstock.audit")
COLUMNS = ("view", "commit", "rows", "events", "differences", "seconds", "unable", "problems", "shown")


def audit(
    run: Run,
    views: Collection[str] = (),
    *,
    as_of: int | None = None,
    sample: float = 1.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[AuditResult]:
    """Audits views, all if there are no names, and stores the results."""
    known = {name: kept.plan.written for name, kept in run.views.items()}
    for name in views:
        if name not in known:
            raise unknown("view", name, known)
    auditor = Audit(run.spark, run.store, run.streams, known, run.history)
    results = []
    for name in views or known:

        def tell(phase: str, share: float, name: str = name) -> None:
            if on_progress is not None:
                on_progress(Progress(name, "audit", phase, share))

        one = auditor.run(name, as_of=as_of, sample=sample, on_progress=tell)
        results.append(one)
        run.store.records.note_audit(_record(run, one))
        if not one.is_right:
            _log.error("the audit of '%s' as of commit %s found %s", name, one.commit, found_in_words(one))
    return results


def found_in_words(one: AuditResult) -> str:
    """What an audit found, in a few words."""
    if one.unable is not None:
        return f"nothing, since it could not be made: {one.unable}"
    if one.problems:
        return one.problems[0]
    return f"{one.differences} rows that differ" if one.differences else "nothing"


def _record(run: Run, one: AuditResult) -> AuditRecord:
    return AuditRecord(
        run.now(), one.view, one.commit, one.rows, one.events, one.differences, json.dumps(one.problems),
        one.unable, one.seconds,
    )  # fmt: skip


def as_reply(results: list[AuditResult]) -> Reply:
    """The results of audits as a reply."""
    rows = [
        (
            one.view, one.commit, one.rows, one.events, one.differences, one.seconds, one.unable,
            one.problems, [asdict(row) for row in one.shown],
        )
        for one in results
    ]  # fmt: skip
    return Reply(COLUMNS, tuple(rows))
