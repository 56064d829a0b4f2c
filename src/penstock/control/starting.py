"""What a start does where the definitions differ from those that have run: it applies them, or says what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.app import App
from penstock.control.applying import Application, check_possible, run_opener
from penstock.control.planning import planned
from penstock.errors import PenstockError
from penstock.history.batch.generation import OnProgress
from penstock.plans.plan import Plan
from penstock.plans.text import brief
from penstock.store import SqlStore

_HINT = "penstock plan shows what the new definitions cost, and penstock apply makes them those of the app"


@dataclass(frozen=True)
class Apply:
    """That a start does the plan first. `confirm` sees it before that, and may raise."""

    confirm: Callable[[Plan], object]
    progress: OnProgress | None = None


def begun_with(app: App, store: SqlStore, apply: Apply | None, options: Mapping[str, Any]) -> Plan:
    """What a start with these definitions changes by itself. With `apply` all is done before, and nothing is left."""
    if store.definitions() is None and not store.fingerprints():
        return Plan(app.name)  # nothing has run yet
    plan = planned(app, store)
    if apply is None or not plan.changes:
        return plan
    check_possible(plan)
    apply.confirm(plan)
    own = {name: value for name, value in options.items() if name != "phases"}
    Application(app, store, plan, run_opener(app, store, own), apply.progress).do()
    return Plan(app.name)


def notes(plan: Plan) -> list[str]:
    """What to tell the one who starts an app with definitions that differ from those that have run."""
    lost = {change.subject for change in plan.refused if not change.differences}  # there is a warning of its own
    changes = [change for change in plan.changes if change.subject not in lost]
    gone = [change for change in changes if change.verb == "remove"]
    others = [change for change in changes if change.verb != "remove"]
    lines = [f"other definitions than at the last start: {brief(others)}. {_HINT}"] if others else []
    return lines + [
        f"{change.subject} is no longer defined: it stays in the store and gets no events; "
        f"penstock drop {change.name} removes it"
        for change in gone
    ]


@contextmanager
def explained(plan: Plan) -> Iterator[None]:
    """An error inside says what differs, where the state does not fit the definitions."""
    try:
        yield
    except PenstockError as error:
        changes = plan.by("replace", "rebuild", "reread", "refuse")
        if changes:
            detail = f"other definitions than those that have run: {brief(changes)}"
            PenstockError.__init__(
                error, error.message, detail=f"{error.detail}\n  {detail}" if error.detail else detail, hint=_HINT
            )
        raise
