"""Storm's first two topologies, as the example has them, without Spark."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

from penstock.testing import TestStream, run_topology

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "storm" / "app.py"))


def test_the_exclamation_topology_exclaims_each_name():
    found = run_topology(EXAMPLE["exclamations"], TestStream().clock("+1 second").clock("+1 second"))
    names = EXAMPLE["TestWords"].names
    assert Counter(row["word"] for row in found.rows["exclaim2"]) == {f"{name}!!!!!!": 20 for name in names}
    assert found.pending == 0


def test_the_word_count_counts():
    lines = [EXAMPLE["SENTENCES"][number % 5] for number in range(20)]
    script = (
        TestStream(EXAMPLE["text"]).add(*((one,) for one in lines[:7])).restart().add(*((one,) for one in lines[7:]))
    )
    found = run_topology(EXAMPLE["counts"], script)
    last: Counter[str] = Counter()
    for row in found.rows["count"]:
        last[row["word"]] = max(last[row["word"]], row["count"])
    assert last == Counter(word for line in lines for word in line.split())
