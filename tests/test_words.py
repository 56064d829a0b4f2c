"""Words that do not come back. `tests/words.yaml` lists patterns, what to write instead, and where they may still be.

A folder that is not clean yet has a count that may only shrink: `python -m tests.test_words` writes those of today, and
refuses to raise one. Names of rules as arguments are new ones, which get their first counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[1]
LIST: Final = ROOT / "tests" / "words.yaml"
#: What is looked at, with the depth at which folders are counted on their own.
PLACES: Final = {"src/penstock": 3, "docs": 1, "README.md": 1, "CONTRIBUTING.md": 1, "examples": 1}


@dataclass(frozen=True)
class Rule:
    """A pattern in text, or names in code: `names` of values and arguments, `types` of classes."""

    name: str
    instead: str
    text: str | None = None
    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    apart_from: tuple[str, ...] = ()
    allowed: dict[str, int] = field(default_factory=dict)

    def lines(self, path: Path, text: str) -> Iterator[int]:
        """The numbers of the lines with it."""
        if self.text is not None:
            for match in re.finditer(self.text, text, re.IGNORECASE):
                yield text.count("\n", 0, match.start()) + 1
        elif path.suffix == ".py":
            for node in ast.walk(ast.parse(text)):
                named = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in self.names
                taken = isinstance(node, ast.arg) and node.arg in self.names
                typed = isinstance(node, ast.ClassDef) and node.name in self.types
                if named or taken or typed:
                    assert isinstance(node, ast.expr | ast.arg | ast.stmt)
                    yield node.lineno


def rules() -> list[Rule]:
    return [
        Rule(
            name, entry["instead"], entry.get("text"), frozenset(entry.get("names", ())),
            frozenset(entry.get("types", ())), tuple(entry.get("apart_from", ())), entry.get("allowed", {}),
        )
        for name, entry in yaml.safe_load(LIST.read_text(encoding="utf-8")).items()
    ]  # fmt: skip


def pages() -> Iterator[tuple[str, Path]]:
    """Files with the folder under which they are counted."""
    for place, depth in PLACES.items():
        top = ROOT / place
        for path in sorted([top] if top.is_file() else top.rglob("*")):
            if path.suffix in (".py", ".md", ".sql", ".html", ".js"):
                parts = path.relative_to(ROOT).parts
                yield "/".join(parts[: min(depth, len(parts) - 1) or 1]), path


def places(rule: Rule) -> dict[str, list[str]]:
    """By folder, where the rule is broken."""
    broken: dict[str, list[str]] = {}
    for folder, path in pages():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(rule.apart_from or ("-",)):
            lines = [f"{name}:{line}" for line in rule.lines(path, path.read_text(encoding="utf-8"))]
            broken.setdefault(folder, []).extend(lines)
    return {folder: lines for folder, lines in broken.items() if lines}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_word_does_not_come_back(rule: Rule) -> None:
    """Where more is there than is allowed, all places of the folder are shown: the new one is among them."""
    many = {folder: lines for folder, lines in places(rule).items() if len(lines) > rule.allowed.get(folder, 0)}
    assert not many, f"{rule.name}: {rule.instead}\n" + "\n".join(line for lines in many.values() for line in lines)


def test_the_rules_see_what_they_forbid() -> None:
    rule = Rule("names", "", names=frozenset({"found"}), types=frozenset({"Came"}))
    code = "def f(found):\n    found = found\n    return found\nclass Came: ...\n"
    assert Counter(rule.lines(Path("x.py"), code)) == Counter({1: 1, 2: 1, 4: 1})
    assert list(rule.lines(Path("x.md"), code)) == []
    assert list(Rule("text", "", text=r"\bso many\b").lines(Path("x.md"), "so manyfold\nSo many")) == [2]


def lower(new: Collection[str] = ()) -> None:
    """Writes the counts of today. None may be higher than it was, but for rules that are new."""
    listed: dict[str, Any] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    for rule in rules():
        now = {folder: len(lines) for folder, lines in sorted(places(rule).items())}
        raised = [folder for folder, count in now.items() if count > rule.allowed.get(folder, 0)]
        if raised and rule.name not in new:
            raise SystemExit(f"'{rule.name}' has come back in {', '.join(raised)}: {rule.instead}")
        listed[rule.name].pop("allowed", None)
        listed[rule.name] |= {"allowed": now} if now else {}
    head = "".join(f"{line}\n" for line in LIST.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    LIST.write_text(head + yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")


if __name__ == "__main__":
    lower(sys.argv[1:])
