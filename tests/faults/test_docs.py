"""The guarantees as they are written down: their numbers are measured, and every fault has its row."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.app import STEPS

ROOT = Path(__file__).parents[2]


def quoted() -> list[str]:
    """The table of the document."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    found = re.search(r"## The faults\n(.*?)\n## ", page, re.DOTALL)
    assert found is not None
    return [line for line in found[1].splitlines() if line.startswith(("|", "Measured on"))]


def test_the_table_of_faults_is_the_one_that_was_measured():
    measured = (ROOT / "bench" / "results" / "faults.md").read_text(encoding="utf-8")
    assert len(quoted()) > 20, "python bench/faults.py writes it"
    assert [line for line in quoted() if line not in measured.splitlines()] == []


def test_every_fault_point_has_its_row():
    lines = quoted()
    assert [step for step in STEPS if not any(f"| driver killed {step} " in line for line in lines)] == []
