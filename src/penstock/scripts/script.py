"""Scripts: an app in SQL, events, time, and what must come out. They run on the kernel, in milliseconds.

>>> report = Script.of(\"\"\"
...     CREATE STREAM visits (page STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
...     CREATE CONTINUOUS VIEW by_page AS SELECT page, window_start, window_end, count(*) AS n
...       FROM TUMBLE(visits, at, INTERVAL 1 MINUTE) GROUP BY page, window_start, window_end;
...     INSERT INTO visits VALUES ('/a', '12:00:10'), ('/a', '12:00:30');
...     ASSERT by_page (page, n) EQUALS ('/a', 2)\"\"\").run()
>>> report.passed
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.scripts.play import Engine, Play
from penstock.sql import statements as sql
from penstock.sql.errors import SqlError
from penstock.sql.read import parse


@dataclass
class Report:
    """What became of a script: each test with its error, if it has one."""

    tests: dict[str, SqlError | None] = field(default_factory=dict)
    assertions: int = 0

    @property
    def passed(self) -> bool:
        return not any(self.tests.values())


class Script:
    """The statements of a test, and the folder that `LOAD` starts from."""

    def __init__(self, statements: Sequence[sql.Statement], folder: Path | None = None) -> None:
        self.statements, self.folder = statements, folder

    @classmethod
    def of(cls, text: str, file: str | None = None) -> Script:
        return cls(parse(text, file))

    @classmethod
    def read(cls, path: str | Path) -> Script:
        """The script of a file."""
        path = Path(path)
        return cls(parse(path.read_text(encoding="utf-8"), path.name), path.parent)

    def run(self, engine: Engine = "kernel") -> Report:
        """Runs all tests. A failing assertion ends its test; an error in what comes before all tests, the script."""
        report = Report()
        shared, tests = _split(self.statements)
        for name, statements in tests or [("the script", [])]:
            play = Play(engine, self.folder)
            try:
                for statement in (*shared, *statements):
                    with statement.source.at(statement.whole, {"engine='spark'": "--engine spark"}):
                        play.do(statement)
                report.tests[name] = None
            except SqlError as error:
                report.tests[name] = error
            report.assertions += play.assertions
        return report


def _split(statements: Sequence[sql.Statement]) -> tuple[list[sql.Statement], list[tuple[str, list[sql.Statement]]]]:
    """What stands before the first TEST holds for all of them."""
    shared: list[sql.Statement] = []
    tests: list[tuple[str, list[sql.Statement]]] = []
    for statement in statements:
        if isinstance(statement, sql.Test):
            if statement.name.text in (name for name, _ in tests):
                raise statement.source.error(f"there are two tests '{statement.name.text}'", statement.name)
            tests.append((statement.name.text, []))
        elif tests:
            tests[-1][1].append(statement)
        else:
            shared.append(statement)
    return shared, tests
