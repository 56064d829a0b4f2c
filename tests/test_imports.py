"""Imports point one way: faces → kernel → model → errors. The model knows no Polars, no Spark and no database."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "penstock"

#: What each part may import of Penstock, besides itself and the errors. A part is a folder, or a folder in `SPLIT`.
ALLOWED = {
    "errors": set(),
    "lazy": set(),
    "descriptors": set(),
    "durable": set(),
    "private": set(),
    "process_state": set(),
    "redaction": set(),
    "text_table": set(),
    "html_table": {"text_table"},
    "postgres": {"redaction"},
    "kafka_client": set(),
    "model": {"html_table", "process_state"},
    "kernel": {"model", "process_state"},
    "dataflow": {"model", "kernel"},
    "sources": {"durable", "model", "kernel", "kafka_client", "postgres", "redaction"},
    "state": {"durable", "model", "kernel", "process_state"},
    "store": {"durable", "lazy", "model", "kernel", "postgres", "process_state", "state"},
    "history": set(),
    "history.events": {"durable", "model", "kernel", "store"},
    "history.savepoints": {"durable", "private", "history.events", "model", "sinks", "state", "store"},
    "history.batch": {"runtime", "kernel", "history.events", "sources", "model", "state", "store"},
    "learning": {"model", "kernel", "store"},
    "topology": {"model"},
    "sinks": {
        "durable",
        "private",
        "process_state",
        "model",
        "kernel",
        "store",
        "kafka_client",
        "postgres",
        "redaction",
        "text_table",
    },
    "runtime": {
        "descriptors",
        "durable",
        "html_table",
        "private",
        "process_state",
        "model",
        "kernel",
        "dataflow",
        "history.events",
        "history.savepoints",
        "learning",
        "sources",
        "state",
        "sinks",
        "store",
        "topology",
        "kafka_client",
    },
    "app": {
        "dataflow",
        "model",
        "learning",
        "sources",
        "sinks",
        "runtime",
        "topology",
        "start",
    },  # the last one only in App.run and App.start
    "start": {"app", "control", "model", "plans", "runtime", "serve", "store"},
    "plans": {"app", "dataflow", "model", "redaction", "sinks"},
    "dev": {"app", "sources", "model", "runtime", ""},
    "sql": {"lazy", "app", "dev", "sources", "model", "postgres", "redaction", "sinks", "text_table"},
    "query": {"kernel", "model", "process_state", "sql", "store"},
    "scripts": {"app", "model", "query", "sql", "testing"},
    "control": {
        "lazy",
        "app",
        "history.batch",
        "history.events",
        "kernel",
        "model",
        "plans",
        "query",
        "runtime",
        "sinks",
        "sources",
        "sql",
        "store",
    },
    "cli": {
        "private",
        "app",
        "control",
        "dataflow",
        "dev",
        "history",
        "history.batch",
        "history.events",
        "history.savepoints",
        "model",
        "plans",
        "query",
        "runtime",
        "scripts",
        "serve",
        "sources",
        "sql",
        "store",
        "",
    },
    "serve": {
        "descriptors",
        "postgres",
        "control",
        "dataflow",
        "kernel",
        "learning",
        "sources",
        "model",
        "query",
        "sinks",
        "sql",
        "store",
    },
    "client": {"html_table"},
    "testing": {"html_table", "model", "kernel", "learning", "runtime", "text_table", "topology"},
    "definition_text": {""},
    "transcripts": {"definition_text", "model", "kernel", "testing"},
    "": {"lazy", "app", "client", "learning", "model", "runtime", "sources", "sinks", "topology"},
}
#: Folders whose own folders are parts: the events of the history lie below the runtime, batch runs over them above it.
SPLIT = {"history"}
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
    >>> part_of("penstock.history.batch.audit")
    'history.batch'
    """
    first, *rest = module.removeprefix("penstock").lstrip(".").split(".")
    return f"{first}.{rest[0]}" if first in SPLIT and rest else first


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
    part = part_of(".".join(("penstock", *(parts[:-1] if parts[-1] == "__init__" else parts))))
    assert part in ALLOWED, f"say in ALLOWED what {part} may import"
    for module in imports(path):
        if module.split(".")[0] == "penstock":
            target = part_of(module)
            assert target in {part, "errors"} | ALLOWED[part], f"{part} must not import {module}"
        assert module.split(".")[0] not in FORBIDDEN.get(part, set()), f"{part} must do without {module}"


#: Tools for tests, and the parts that are such tools themselves. `penstock test` loads them when it runs.
TOOLS = {"testing", "transcripts", "scripts"}


def test_no_production_code_imports_tools_for_tests():
    for path in FILES:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        tools = {module for module in imports(path) if part_of(module) in TOOLS and module.startswith("penstock.")}
        assert parts[0] in TOOLS or not tools or parts == ("cli", "sql_test"), f"{path} imports {sorted(tools)}"


def test_the_command_line_and_the_server_load_no_tools_for_tests():
    modules = (
        "cli", "serve.server", "control.server", "sql", "sql.answers", "sql.inserts", "query.process", "runtime.run",
    )  # fmt: skip
    tools = ", ".join(f"'penstock.{tool}'" for tool in sorted(TOOLS))
    loaded = ", ".join(f"penstock.{module}" for module in modules)
    code = f"import sys, {loaded}; assert sys.modules.keys().isdisjoint([{tools}])"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_module_evaluates_text_as_code():
    for path in FILES:
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        names = {function.id for function in calls if isinstance(function, ast.Name)}
        assert names.isdisjoint({"eval", "exec"}), path


def test_the_model_loads_without_polars():
    code = (
        "import sys; sys.modules['polars'] = sys.modules['pyspark'] = sys.modules['pyarrow'] = None; "
        "import penstock as ps; from penstock.model.reference import Reference; "
        "Reference(ps.stream('s', schema='k string').group_by('k').agg(n=ps.count()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
