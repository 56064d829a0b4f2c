"""The files that documents and examples show are apps, and the same ones as in the text beside them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from penstock.cli.load import load_app
from penstock.dev.demos import DEMOS

ROOT = Path(__file__).parents[2]


def test_the_app_of_the_tutorial_is_the_view_that_it_tests(app_file: Callable[..., Path]) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (file,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if ">>>" not in block]
    view = load_app(app_file(file)).views["by_page"]
    assert view.columns == ("page", "window_start", "window_end", "visits", "people", "final")
    said = re.sub(r"^(>>>|\.\.\.) ?", "", text, flags=re.MULTILINE)
    definition = re.search(r"visits\.group_by.*?allow_late\(.*?\)", file, re.DOTALL)
    assert definition is not None
    assert re.sub(r"\s", "", definition[0]) in re.sub(r"\s", "", said.partition("## Test it")[0])


def test_the_example_is_the_demo() -> None:
    example, demo = load_app(ROOT / "examples" / "trending" / "app.py"), DEMOS["trending"].app()
    assert example.views == demo.views
