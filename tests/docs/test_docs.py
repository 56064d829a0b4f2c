"""The documents: their snippets run, their links lead somewhere, the transcripts that they name exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from penstock.transcripts import load
from tests.transcripts.functions import FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINK = re.compile(r"\[([^\[\]]+)\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def links(page: Path) -> list[tuple[str, str]]:
    return [(text, target) for text, target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_of_a_page_run(page: Path) -> None:
    parsed = doctest.DocTestParser().get_doctest(page.read_text(encoding="utf-8"), {}, page.name, str(page), 0)
    lines: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(parsed, out=lines.append)
    assert not lines, "".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert [target for _, target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_transcripts_that_a_page_names_exist(page: Path) -> None:
    named = [(text, page.parent / target) for text, target in links(page) if target.endswith(".yaml")]
    known = {file: {transcript.name for transcript in load(file, FUNCTIONS)} for file in {file for _, file in named}}
    assert [text for text, file in named if text not in known[file] and text != file.name] == []
