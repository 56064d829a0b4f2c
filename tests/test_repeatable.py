"""`make test` gives the same result each time: no test takes its examples from the clock or the machine."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def test_random_tests_try_the_same_examples_each_time_and_others_in_the_deep_run():
    assert settings(max_examples=5).derandomize is not DEEP
    assert settings(max_examples=5).deadline is None, "a busy machine is not a failure"


def test_no_test_decides_for_itself_whether_its_examples_repeat():
    deciding = [
        f"{path.relative_to(TESTS)}:{call.lineno}"
        for path in TESTS.rglob("*.py")
        if path.name not in ("conftest.py", Path(__file__).name)
        for call in calls(path)
        if any(keyword.arg == "derandomize" for keyword in call.keywords)
    ]
    assert not deciding, f"the profile in tests/conftest.py decides: {deciding}"


def test_every_generator_of_random_numbers_has_a_seed():
    unseeded = [
        f"{path.relative_to(TESTS)}:{call.lineno}"
        for path in TESTS.rglob("*.py")
        for call in calls(path)
        if ast.unparse(call.func) in ("random.Random", "Random") and not call.args
    ]
    assert not unseeded, f"give them a seed: {unseeded}"
