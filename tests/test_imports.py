"""Imports point one way: faces → kernel → model → errors. The model knows no Polars, no Spark and no database."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "penstock"

#: What each part may import of Penstock, besides itself and the errors.
ALLOWED = {
    "errors": set(),
    "descriptors": set(),
    "private": set(),
    "jars": set(),
    "kafka_client": set(),
    "ports": set(),
    "broker": {"jars", "engine", "ports"},
    "cluster": {"engine", "ports"},
    "model": set(),
    "kernel": {"model"},
    "logs": {"model", "kernel", "kafka_client"},
    "store": {"model", "kernel"},
    "lake": {"model", "kernel", "store"},
    "learning": {"model", "kernel", "store"},
    "savepoints": {"private", "lake", "model", "sinks", "store"},
    "topology": {"model"},
    "engine": {
        "descriptors",
        "private",
        "model",
        "kernel",
        "lake",
        "learning",
        "logs",
        "savepoints",
        "sinks",
        "store",
        "topology",
        "jars",
        "kafka_client",
    },
    "batch": {"engine", "kernel", "lake", "logs", "model", "store"},
    "app": {"model", "learning", "logs", "sinks", "engine", "topology", "control"},  # the last one only in App.run
    "sinks": {"private", "model", "kernel", "store", "kafka_client"},
    "demos": {"app", "logs", "model", ""},
    "sql": {"app", "demos", "logs", "model", "sinks", "testing"},
    "query": {"kernel", "model", "sql", "store"},
    "scripts": {"app", "model", "query", "sql", "testing"},
    "control": {"app", "batch", "engine", "kernel", "lake", "logs", "model", "query", "sinks", "sql", "store"},
    "cli": {
        "private",
        "app",
        "batch",
        "control",
        "demos",
        "engine",
        "lake",
        "logs",
        "model",
        "query",
        "savepoints",
        "scripts",
        "serve",
        "sql",
        "store",
        "",
    },
    "serve": {"descriptors", "control", "kernel", "learning", "logs", "model", "query", "sinks", "sql", "store"},
    "client": set(),
    "testing": {"model", "kernel", "learning", "engine", "topology"},
    "transcripts": {"model", "kernel", "testing", ""},
    "": {"app", "client", "engine", "learning", "model", "logs", "sinks", "topology"},
}
#: Libraries that a part must do without.
FORBIDDEN = {
    "model": {"polars", "pyarrow", "pyspark", "numpy", "duckdb", "sqlite3", "adbc_driver_sqlite"},
    "kernel": {"pyspark", "duckdb", "sqlite3", "adbc_driver_sqlite"},
    "topology": {"polars", "pyarrow", "pyspark", "numpy", "duckdb", "sqlite3", "adbc_driver_sqlite"},
}


def part_of(module: str) -> str:
    """
    >>> part_of("penstock.model.time"), part_of("penstock")
    ('model', '')
    """
    return module.removeprefix("penstock").lstrip(".").split(".")[0]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            found.add(node.module or "")
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_lies_below_it(path: Path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    part = "" if parts[0] == "__init__" else parts[0]
    assert part in ALLOWED, f"say in ALLOWED what {part} may import"
    for module in imports(path):
        if module.split(".")[0] == "penstock":
            target = part_of(module)
            assert target in {part, "errors"} | ALLOWED[part], f"{part} must not import {module}"
        assert module.split(".")[0] not in FORBIDDEN.get(part, set()), f"{part} must do without {module}"


def test_the_model_loads_without_polars():
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['polars'] = sys.modules['pyspark'] = sys.modules['pyarrow'] = None; "
        "import penstock as ps; from penstock.model.reference import Reference; "
        "Reference(ps.stream('s', schema='k string').group_by('k').agg(n=ps.count()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
