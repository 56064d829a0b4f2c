"""The reference: every example of docs/sql.md runs, prints what it says, and each statement has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import sql
from penstock.scripts import Play
from penstock.sql.read import _READERS

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
FIRST, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
APP = BLOCK.findall(FIRST)[0][1]


def printed(play: Play, text: str) -> str:
    """What the last statement of a text answers, or the error that it is refused with."""
    answer = None
    try:
        for statement in sql.parse(text):
            answer = play.do(statement)
    except sql.SqlError as error:
        return str(error)
    return str(answer)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0])
def test_the_examples_of_a_section_run_and_print_what_it_says(section: str) -> None:
    play = Play()
    assert printed(play, APP) == "None"
    blocks = BLOCK.findall(section)
    for number, (kind, text) in enumerate(blocks):
        if kind != "sql":
            continue
        got = printed(play, text)
        after = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
        expected = after[1].rstrip("\n") if after[0] == "text" else "None"
        assert [line.rstrip() for line in got.splitlines()] == expected.splitlines()


def test_every_statement_has_a_grammar() -> None:
    grammars = " ".join(text for kind, text in BLOCK.findall(PAGE) if kind == "ebnf")
    missing = [word for word in _READERS if word not in grammars]
    assert missing == []


def test_every_aggregate_is_in_the_reference() -> None:
    assert [name for name in sql.aggregates.AGGREGATES if f"`{name}" not in PAGE] == []
