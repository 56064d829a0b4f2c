"""The map in CONTRIBUTING.md: each file exists and defines what the map names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| ([^|]+) \| `([\w/]+\.py)` \| `([\w.]+)` \|$", TEXT, re.MULTILINE)
ASKED = ("is parsed", "closes", "commit is written", "position is kept", "duplicate", "restarted")


def test_the_map_answers_the_questions_of_a_newcomer():
    for words in ASKED:
        assert any(words in step for step, _, _ in STEPS), words


@pytest.mark.parametrize(("step", "file", "name"), STEPS, ids=[step for step, _, _ in STEPS])
def test_a_file_of_the_map_defines_what_the_map_names(step: str, file: str, name: str):
    body: list[ast.stmt] = ast.parse((ROOT / "src" / "penstock" / file).read_text(encoding="utf-8")).body
    for part in name.split("."):
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        found = next((node for node in body if isinstance(node, kinds) and node.name == part), None)
        assert found is not None, f"{file} has no {name}: correct the map in CONTRIBUTING.md"
        body = found.body


def test_every_path_that_the_guide_names_exists():
    for path in re.findall(r"`((?:tests|docs|bench|src)/[\w/.]*)`", TEXT):
        assert (ROOT / path).exists(), path
