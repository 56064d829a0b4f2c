"""`make attacks`: runs every attack and prints which of them held."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console
from rich.table import Table

from tests.attacks.table import FOLDER, attacks

HELD, BROKEN, NOT_TRIED = "held", "BROKEN", "not tried"


class Outcomes:
    """Collects what became of each test; of its cases the worst one counts."""

    def __init__(self) -> None:
        self.by_test: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, name = report.nodeid.partition("::")
        test = path.rsplit("/", 1)[-1], name.partition("[")[0]
        if report.failed:
            self.by_test[test] = BROKEN
        elif report.skipped:
            self.by_test.setdefault(test, NOT_TRIED)
        elif report.when == "call" and self.by_test.get(test) != BROKEN:
            self.by_test[test] = HELD


def main(arguments: list[str]) -> int:
    outcomes = Outcomes()
    code = pytest.main([str(FOLDER), *arguments], plugins=[outcomes])
    table = Table("attack", "what happens", "", title="attacks")
    results = [(one, outcomes.by_test.get((one.file, one.test), NOT_TRIED)) for one in attacks()]
    for one, result in results:
        style = {HELD: "green", BROKEN: "bold red", NOT_TRIED: "yellow"}[result]
        table.add_row(one.action, one.outcome, f"[{style}]{result}[/]")
    Console().print(table)
    counts = {kind: sum(result == kind for _, result in results) for kind in (HELD, BROKEN, NOT_TRIED)}
    print(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
