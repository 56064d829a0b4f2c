"""A process that asks a store in PostgreSQL, for a server: `python asker_postgres.py SCHEMA BYTES`.

The URL stands in PENSTOCK_STORE. It speaks as `asker` does, and like it is run as a file, without the rest of
Penstock. Its session can only read, and every question has its time.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import adbc_driver_manager

#: Parameters stand as ?1, ?2 …; what is quoted stays as it is.
_MARK: Final = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|\?(\d+)""")
#: What stands for NUL in PostgreSQL's text, and for what stands for it.
_ESCAPES: Final = (("\ufffe", "\ufffe1"), ("\0", "\ufffe0"))
_TIMED_OUT, _LOST = "57014", ("08", "57P")


def _beside(name: str) -> ModuleType:
    """A module of this folder, without the packages above it."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Asker:
    """Answers questions from one store."""

    def __init__(self, url: str, schema: str, largest: int, failed: Any) -> None:
        self._url, self._schema, self._largest, self._failed = url, schema, largest, failed
        self._connection: Any = None

    def answer(self, questions: list[list[Any]], seconds: float) -> list[Any]:
        """For each question (text, parameters, most rows): names of columns, rows, and whether there are more.

        All see the same commit. A connection that was lost while nobody asked is opened again, once.
        """
        for again in (True, False):
            try:
                return self._all(questions, seconds)
            except adbc_driver_manager.Error as error:
                self._close()
                if not again or not _is_lost(error):
                    raise self._translated(error, seconds) from None
            except MemoryError:
                self._close()
                raise self._failed("large", "it takes too much memory") from None
            except self._failed:
                self._close()
                raise
        raise AssertionError

    def _all(self, questions: list[list[Any]], seconds: float) -> list[Any]:
        if self._connection is None:
            from adbc_driver_postgresql import dbapi  # an extra brings it along

            self._connection = dbapi.connect(self._url, autocommit=True)
            path = self._schema.replace('"', '""').replace("'", "''")
            self._run(f"""SET search_path = "{path}", pg_catalog""")
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._run(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
        answers = [self._one(*question) for question in questions]
        self._run("ROLLBACK")
        return answers

    def _run(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def _one(self, text: str, parameters: list[Any], most: int) -> Any:
        text = _MARK.sub(lambda mark: mark[0] if mark[1] is None else f"${mark[1]}", text)
        with self._connection.cursor() as cursor:
            bound = tuple(_escaped(value) for value in parameters) or None
            cursor.execute(f"SELECT * FROM ({text}) q LIMIT {most + 1}", bound)
            table = cursor.fetch_arrow_table()
        if table.nbytes > self._largest:
            raise self._failed("large", f"the answer is larger than {self._largest} bytes")
        columns = [[_plain(value, kind) for value in column.to_pylist()] for column, kind in _typed(table)]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return table.column_names, rows[:most], len(rows) > most

    def _translated(self, error: Exception, seconds: float) -> Exception:
        message, state = str(error), str(getattr(error, "sqlstate", None) or "")
        if state == _TIMED_OUT:
            return self._failed("time", f"it takes longer than {seconds:g} s")  # type: ignore[no-any-return]
        if _is_lost(error) or "Failed to connect" in message or re.search(r'relation "__\w+" does not exist', message):
            return self._failed("absent", message.strip().splitlines()[0])  # type: ignore[no-any-return]
        reason = message.split("Query was:")[0].split("SQLSTATE")[0].rpartition("ERROR:")[2].split("LINE 1:")[0]
        return self._failed("sql", reason.strip() or message.strip())  # type: ignore[no-any-return]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _typed(table: Any) -> list[tuple[Any, str]]:
    """The columns with what they are; PostgreSQL's numeric is an extension over text."""
    return [(column, "numeric" if "numeric" in str(column.type) else "") for column in table.columns]


def _plain(value: Any, kind: str) -> Any:
    """A value as all stores show it: booleans as 0 and 1, NaN as text."""
    if value is None or type(value) is int or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return "NaN" if value != value else value
    if kind:
        return float(value) if "." in str(value) or "N" in str(value) else int(value)
    for plain, escaped in reversed(_ESCAPES):
        value = str(value).replace(escaped, plain)
    return value


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        for plain, escaped in _ESCAPES:
            value = value.replace(plain, escaped)
    return value


def _is_lost(error: Exception) -> bool:
    state = str(getattr(error, "sqlstate", None) or "")
    return state.startswith(_LOST) or (not state and "IO:" in str(error))


def main() -> None:
    """One process for one store. It may use some gigabytes, most of them for code, and ends when its server does."""
    schema, largest = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    asker = _beside("asker")
    asked = Asker(os.environ["PENSTOCK_STORE"], schema, int(largest), asker.Failed)
    sys.stdout.buffer.write(b"\n")  # ready
    sys.stdout.buffer.flush()
    asker.serve(asked, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
