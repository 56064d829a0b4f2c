"""The table of attacks in docs/security.md: `python -m tests.attacks.table` writes it from the tests' docstrings."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "security.md"
BEGIN, END = "<!-- attacks: python -m tests.attacks.table -->", "<!-- end of attacks -->"


@dataclass(frozen=True)
class Attack:
    """A test of this folder. Its docstring is one line: what the attacker does, a colon, what happens."""

    file: str
    test: str
    action: str
    outcome: str


def attacks(folder: Path = FOLDER) -> list[Attack]:
    """All attacks, file by file in the order in which they stand there."""
    return [
        _attack(path.name, node)
        for path in sorted(folder.glob("test_*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _attack(file: str, node: ast.FunctionDef) -> Attack:
    action, colon, outcome = (ast.get_docstring(node) or "").partition(": ")
    if not colon or "\n" in outcome:
        raise ValueError(f"{file}: {node.name} needs a docstring of one line: what the attacker does: what happens")
    return Attack(file, node.name, action, outcome.rstrip("."))


def markdown(listed: list[Attack]) -> str:
    """The table, a row for each attack."""
    rows = [f"| {one.action} | {one.outcome} | `{one.file}` |" for one in listed]
    return "\n".join(["| attack | what happens | test |", "|---|---|---|", *rows])


def with_table(page: str, listed: list[Attack]) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{markdown(listed)}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), attacks()), encoding="utf-8")
    print(f"{PAGE.name} lists {len(attacks())} attacks")
