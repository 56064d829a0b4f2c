"""Word count in Python counts what word count in SQL counts."""

from __future__ import annotations

import runpy
from pathlib import Path

from penstock.cli.load import load_app
from penstock.testing import TestStream, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "word_count"


def test_python_and_sql_count_the_same_words():
    tables = []
    for app in (runpy.run_path(str(EXAMPLE / "app.py"))["app"], load_app(EXAMPLE / "app.sql")):
        script = TestStream(app.streams["lines"]).add(("To be, or not to be", "12:00:10"), (None, "12:00:20"))
        tables.append([(row["word"], row["n"]) for row in run(app.views["word_count"], script).table])
    assert tables[0] == tables[1] == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]
