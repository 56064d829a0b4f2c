"""The list of functions in docs/sql.md: `python -m tests.query.functions` writes it from the tables of the code."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.query.aggregates import AGGREGATES, WINDOWS
from penstock.query.functions import FUNCTIONS, SPECIAL

DOCUMENT = Path(__file__).parents[2] / "docs" / "sql.md"
_LIST = re.compile(r"(<!-- functions: [^\n]*-->\n)(.*?)(<!-- end of functions -->)", re.DOTALL)


def listed() -> str:
    """The table of the document."""
    kinds = {
        "aggregates": sorted(AGGREGATES),
        "with OVER": [*sorted(WINDOWS), "and every aggregate"],
        "of a row": sorted({*FUNCTIONS, *SPECIAL}),
    }
    rows = "".join(
        f"| {kind} | {', '.join(name if ' ' in name else f'`{name}`' for name in names)} |\n"
        for kind, names in kinds.items()
    )
    return f"| functions | |\n|---|---|\n{rows}"


def in_document() -> str:
    match = _LIST.search(DOCUMENT.read_text())
    assert match is not None, "docs/sql.md has no list of functions"
    return match[2]


if __name__ == "__main__":
    DOCUMENT.write_text(_LIST.sub(lambda match: match[1] + listed() + match[3], DOCUMENT.read_text()))
