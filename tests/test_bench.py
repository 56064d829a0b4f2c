"""Benchmarks are not run by the tests, so what they import from elsewhere is looked up here."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

BENCH = sorted((Path(__file__).parent.parent / "bench").glob("*.py"))


def imported(file: Path) -> set[tuple[str, str]]:
    """The names that a file imports from this project, with their modules."""
    nodes = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    return {
        (node.module, one.name)
        for node in nodes
        for one in node.names
        if node.module is not None and node.module.partition(".")[0] in ("penstock", "examples")
    }


@pytest.mark.parametrize("file", BENCH, ids=lambda file: file.stem)
def test_what_a_benchmark_imports_is_there(file: Path) -> None:
    missing = []
    for module, name in sorted(imported(file)):
        if not hasattr(importlib.import_module(module), name):
            try:
                importlib.import_module(f"{module}.{name}")
            except ModuleNotFoundError:
                missing.append(f"{module}.{name}")
    assert missing == []
