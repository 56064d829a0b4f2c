"""The README tells the truth: its program prints what stands below it, its links lead somewhere, its numbers are those
that the benchmarks wrote."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from penstock.app import App
from penstock.sql import define, parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "bench" / "results").glob("*.md")))
TIME = re.compile(r"\b\d[\d,.]* ms\b")
#: The parts of README and docs that quote benchmarks.
QUOTED = [
    *re.findall(r"## Speed\n(.*?)\n## ", README, re.DOTALL),
    (ROOT / "docs" / "speed.md").read_text(encoding="utf-8"),
    *re.findall(
        r"## Measured side by side\n(.*?)\n## ", (ROOT / "docs" / "compare.md").read_text(encoding="utf-8"), re.DOTALL
    ),
]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
#: A number with a unit of what benchmarks measure.
FIGURE = re.compile(rf"({NUMBER.pattern})\s?(?:k/s|M/s|µs|s|MB|GB|times|seconds|events/s|events a second)\b")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_first_program_prints_what_stands_below_it():
    printed = re.search(r"```python\n.*?```\n\n```\n(.*?)```", README, re.DOTALL)
    assert printed is not None
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(PROGRAMS[0], {})
    assert output.getvalue() == printed[1]


def test_the_other_programs_run_after_it():
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for program in PROGRAMS:
            exec(program, scope)


def test_its_sql_is_the_same_app_as_its_python():
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for program in PROGRAMS:
            exec(program, scope)
    (text,) = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    app = App("shop")
    for statement in parse(text):
        define(app, statement)
    written = scope["app"]
    assert isinstance(written, App)
    assert (app.streams, app.views) == (written.streams, written.views)


def test_its_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#\s:]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_its_numbers_are_those_that_the_benchmarks_wrote():
    measured = set(RESULTS.splitlines())
    tables = [line for text in QUOTED for line in text.splitlines() if line.startswith(("|", "Measured on", "**"))]
    assert len(tables) > 50
    assert [line for line in tables if line not in measured] == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/realtime.md", "docs/compare.md"])
def test_the_times_of_its_sentences_were_measured(page: str):
    times = set(TIME.findall((ROOT / page).read_text(encoding="utf-8")))
    assert times - set(TIME.findall(RESULTS)) == set()


def test_the_figures_between_its_tables_were_measured():
    measured = set(NUMBER.findall(RESULTS))
    prose = [line for text in QUOTED for line in text.splitlines() if not line.startswith("|")]
    assert [line for line in prose if not set(FIGURE.findall(line)) <= measured] == []
