"""Whatever text comes in, what comes out is a statement or a SqlError: never anything else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import sql
from penstock.scripts import Play

FIXTURES = Path(__file__).parent / "fixtures"
GIVEN = """
    CREATE STREAM s (k STRING, v INT, at TIMESTAMP, other TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
    CREATE STREAM t (k STRING, v INT, at TIMESTAMP, other TIMESTAMP, WATERMARK FOR at AS PERCENTILE(at, 99));
    CREATE STREAM bare (k STRING, v INT);
    CREATE CONTINUOUS VIEW totals AS SELECT k, sum(v) AS total FROM s GROUP BY k
"""
DEEP = bool(os.environ.get("PENSTOCK_DEEP"))
EXAMPLES = 20_000 if DEEP else 300


def known() -> list[str]:
    found = []
    for file in sorted(FIXTURES.glob("*.yaml")):
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))["cases"]:
            prefix = "CREATE CONTINUOUS VIEW x AS " if file.stem == "views" else ""
            found.append(prefix + case["sql"])
    return found


KNOWN = known()
PIECES = sorted({piece for text in KNOWN for piece in re.findall(r"\w+|'[^']*'|[^\w\s]", text)})
SIGNS = [
    *("(", ")", ",", ";", "'", '"', "`", "--", "/*", "*/", "\\", "\n", "\t", "\0", "é", "=>", "::", "{{"),
    *("1e999", "$$", "²", "5L", "99D", "-1", "1.5"),
]


def survives(text: str) -> None:
    """Reads a text and runs what it says; only SqlError may come of it."""
    play = Play("kernel")
    for statement in sql.parse(GIVEN):
        play.do(statement)
    try:
        for statement in sql.parse(text):
            assert statement.text.strip()
            play.do(statement)
    except sql.SqlError as error:
        said = str(error)
    else:
        return
    assert re.match(r"sql:\d+:\d+: ", said)
    assert "^" in said


@given(st.text(max_size=120))
@settings(max_examples=EXAMPLES, deadline=None)
def test_random_text(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from([*PIECES, *SIGNS]), max_size=30).map(" ".join))
@settings(max_examples=EXAMPLES, deadline=None)
def test_random_words(text: str) -> None:
    survives(text)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    pieces = re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", draw(st.sampled_from(KNOWN)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(pieces) - 1)))
        match draw(st.sampled_from(["drop", "double", "replace", "insert", "swap", "cut"])):
            case "drop":
                del pieces[at : at + 1]
            case "double":
                pieces[at:at] = pieces[at : at + 1]
            case "replace":
                pieces[at : at + 1] = [draw(st.sampled_from([*PIECES, *SIGNS]))]
            case "insert":
                pieces.insert(at, draw(st.sampled_from([*PIECES, *SIGNS])))
            case "swap":
                other = draw(st.integers(0, max(0, len(pieces) - 1)))
                if pieces:
                    pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                del pieces[at:]
    return "".join(pieces)


@given(mutated())
@settings(max_examples=EXAMPLES * 3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_statements(text: str) -> None:
    survives(text)


@pytest.mark.parametrize("depth", [50, 2000])
@pytest.mark.parametrize(
    ("shape", "core", "opening"),
    [
        ("SELECT {} FROM totals", "1", "("),
        ("CREATE STREAM x AS SELECT {} AS y FROM s", "1", "("),
        ("CREATE STREAM x AS {}", "SELECT * FROM s", "("),
        ("CREATE STREAM x AS SELECT * FROM {}", "s", "(SELECT * FROM "),
        ("CREATE CONTINUOUS VIEW x AS SELECT count(*) AS n FROM s EMIT {}", "CHANGES", "("),
        ("CREATE CONTINUOUS VIEW x AS SELECT count(*) AS n FROM s EMIT {}", "CHANGES", "REPEATEDLY ("),
    ],
)
def test_deep_nesting(shape: str, core: str, opening: str, depth: int) -> None:
    survives(shape.format(opening * depth + core + ")" * depth))
