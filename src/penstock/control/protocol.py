"""What goes through the channel: one line of JSON a request, one line of JSON an answer.

>>> Reply(("view",), (("by_page",),), "1 view").line()
b'{"columns": ["view"], "rows": [["by_page"]], "message": "1 view"}\\n'
>>> Reply.read(failure(PenstockError("no", hint="ask")))
Traceback (most recent call last):
penstock.control.protocol.RemoteError: no
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


class RemoteError(PenstockError):
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
        answer = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            raise RemoteError(error["message"], detail=error.get("detail"), hint=error.get("hint"))
        return cls(tuple(answer["columns"]), tuple(tuple(row) for row in answer["rows"]), answer["message"])


def failure(error: PenstockError) -> bytes:
    """An error as it travels."""
    return _line({"error": {"message": error.message, "detail": error.detail, "hint": error.hint}})


def request(sql: str, file: str | None = None) -> bytes:
    """A statement as a line, with the name of its file."""
    return _line({"sql": sql} if file is None else {"sql": sql, "file": file})


def task(name: str, arguments: Mapping[str, object]) -> bytes:
    """A task of the app as a line: its name and arguments."""
    return _line({"task": name, "given": dict(arguments)})


def asked_task(line: bytes) -> tuple[str, dict[str, Any]] | None:
    """The task that a line asks for, None if it asks for something else."""
    try:
        content: Any = json.loads(line) if len(line) < LONGEST else None
    except ValueError:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("task"), str):
        return None
    arguments = content.get("given", {})
    return content["task"], arguments if isinstance(arguments, dict) else {}


def progress_line(progress: Progress) -> bytes:
    """The progress of a request as a line, sent before the answer."""
    return _line({"progress": asdict(progress)})


def read_progress(line: bytes) -> Progress | None:
    """The progress in a line, if it has one."""
    progress = json.loads(line).get("progress")
    return None if progress is None else Progress(**progress)


def requested(line: bytes) -> tuple[str, str | None]:
    """The statement that a line asks to run, and its file."""
    if len(line) >= LONGEST:
        raise PenstockError(f"the statement is longer than {LONGEST} bytes")
    try:
        content: Any = json.loads(line)
    except ValueError:
        content = None
    file = content.get("file") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(content.get("sql"), str) or not isinstance(file, str | None):
        raise PenstockError("not a request", hint='send {"sql": "SHOW VIEWS"} in one line')
    return content["sql"], file


def _line(content: object) -> bytes:
    return json.dumps(content, default=str).encode() + b"\n"
