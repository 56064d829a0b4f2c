"""What commands ask of a running app besides statements: tasks by name, each with what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.control.protocol import Reply
from penstock.errors import PenstockError, unknown
from penstock.runtime.run import Run


def do(run: Run, name: str, arguments: Mapping[str, Any]) -> Reply:
    """Does a task; refuses one that there is not, and what does not fit it."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    try:
        return TASKS[name](run, **arguments)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise PenstockError(f"the task '{name}' is not given what it needs", detail=str(error)) from error


def _erase(run: Run, stream: str, where: str, reason: str | None = None) -> Reply:
    made = run.erase(stream, where, reason)
    return Reply(("tombstone", "commit"), ((made.id, made.commit),))


def _retry(run: Run, of: str, where: str | None = None) -> Reply:
    retried = run.retry_dead_letters(of, where)
    return Reply(("rows", "dead", "late"), ((retried.rows, retried.dead, retried.late),))


def _compact(run: Run) -> Reply:
    done = run.keeper.compact()
    columns = ("before", "after", "rows", "erased", "expired", "removed")
    return Reply(columns, (tuple(getattr(done, name) for name in columns),))


TASKS: Final[Mapping[str, Callable[..., Reply]]] = {"erase": _erase, "retry": _retry, "compact": _compact}
