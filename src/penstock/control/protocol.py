"""What goes through the channel: one line of JSON a request, one line of JSON an answer.

>>> Reply(("view",), (("by_page",),), "1 view").line()
b'{"columns": ["view"], "rows": [["by_page"]], "message": "1 view"}\\n'
>>> Reply.read(failure(PenstockError("no", hint="ask")))
Traceback (most recent call last):
penstock.control.protocol.Refused: no
  hint: ask
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.history.batch.generation import Progress

#: How many bytes a request may have.
LONGEST: Final = 1 << 20


class Refused(PenstockError):
    """The running app has refused a statement."""


@dataclass(frozen=True)
class Reply:
    """An answer: a small table, a message, or both."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    message: str = ""

    def line(self) -> bytes:
        """The answer as it travels."""
        return _line({"columns": self.columns, "rows": self.rows, "message": self.message})

    @classmethod
    def read(cls, line: bytes) -> Reply:
        """An answer that came; raises the error that came instead."""
        found = json.loads(line)
        if "error" in found:
            error = found["error"]
            raise Refused(error["message"], detail=error.get("detail"), hint=error.get("hint"))
        return cls(tuple(found["columns"]), tuple(tuple(row) for row in found["rows"]), found["message"])


def failure(error: PenstockError) -> bytes:
    """An error as it travels."""
    return _line({"error": {"message": error.message, "detail": error.detail, "hint": error.hint}})


def request(sql: str, file: str | None = None) -> bytes:
    """A statement as it travels, with the name of the file that it stands in."""
    return _line({"sql": sql} if file is None else {"sql": sql, "file": file})


def task(name: str, given: Mapping[str, object]) -> bytes:
    """A task of the app's as it travels, by its name and what it is given."""
    return _line({"task": name, "given": dict(given)})


def asked_task(line: bytes) -> tuple[str, dict[str, Any]] | None:
    """The task that a line asks for, None if it asks for something else."""
    try:
        found: Any = json.loads(line) if len(line) < LONGEST else None
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("task"), str):
        return None
    given = found.get("given", {})
    return found["task"], given if isinstance(given, dict) else {}


def progress_line(progress: Progress) -> bytes:
    """How far something is, as it travels before the answer."""
    return _line({"progress": asdict(progress)})


def read_progress(line: bytes) -> Progress | None:
    """How far something is, if a line says that."""
    found = json.loads(line).get("progress")
    return None if found is None else Progress(**found)


def requested(line: bytes) -> tuple[str, str | None]:
    """The statement that a line asks to run, and its file."""
    if len(line) >= LONGEST:
        raise PenstockError(f"the statement is longer than {LONGEST} bytes")
    try:
        found: Any = json.loads(line)
    except ValueError:
        found = None
    file = found.get("file") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("sql"), str) or not isinstance(file, str | None):
        raise PenstockError("not a request", hint='send {"sql": "SHOW VIEWS"} in one line')
    return found["sql"], file


def _line(content: object) -> bytes:
    return json.dumps(content, default=str).encode() + b"\n"
