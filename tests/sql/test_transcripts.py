"""Every transcript that SQL can express, in SQL: the same definition as a value, the same panes, rows and refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path

import pytest

from penstock import sql
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.model.stream import Stream
from penstock.model.time import END
from penstock.model.view import View
from penstock.scripts import Play
from penstock.scripts.values import comparable
from penstock.testing import Step, TestStream, run
from penstock.transcripts import Transcript, load
from tests.transcripts.functions import FUNCTIONS

FOLDER = Path(__file__).parents[1] / "transcripts"
ALL = [(file.stem, one) for file in sorted(FOLDER.glob("*.yaml")) for one in load(file, FUNCTIONS)]


def in_sql(view: View) -> list[str] | None:
    """The statements that make a view, or None if it holds a Python function."""
    try:
        return [*(sql.show(source, source.name) for source in view.input.sources), sql.show(view, "v")]
    except DefinitionError as error:
        if "Python function" not in str(error):
            raise
        return None


EXPRESSIBLE = [(name, one, texts) for name, one in ALL if (texts := in_sql(one.view)) is not None]
each = pytest.mark.parametrize(
    ("transcript", "texts"), [pytest.param(one, texts, id=f"{name}: {one.name}") for name, one, texts in EXPRESSIBLE]
)


def test_sql_expresses_all_but_python_functions() -> None:
    assert len(ALL) - len(EXPRESSIBLE) <= 20
    assert len(EXPRESSIBLE) > 250


@each
def test_a_transcripts_view_in_sql_is_the_same_value(transcript: Transcript, texts: list[str]) -> None:
    app = App("transcript")
    for statement in sql.parse(";\n".join(texts)):
        sql.define(app, statement, without_log=True)
    made = app.views["v"]
    if made != transcript.view:  # hidden aggregates have names of SQL's choice
        assert transcript.view.shown is not None or transcript.view.condition is not None
        assert made.columns == transcript.view.columns
    assert sql.show(made, "v") == texts[-1]


@each
def test_a_transcript_in_sql_gives_the_same_panes(transcript: Transcript, texts: list[str]) -> None:
    steps = tuple(step for line in transcript.lines for step in line.steps)
    streams = {source.name: source for source in transcript.view.input.sources}
    expected = run(transcript.view, TestStream(*streams.values(), clock=transcript.clock, steps=steps))
    play = Play("kernel")
    script = [*texts, f"START CLOCK AT {instant(transcript.clock)}", *(written(step, streams) for step in steps)]
    for statement in sql.parse(";\n".join(script)):
        play.do(statement)
    got = play.result("v")
    for what in ("panes", "table", "late", "duplicates", "dead"):
        assert comparable(getattr(got, what)) == comparable(getattr(expected, what))


@pytest.mark.parametrize("transcript", [one for _, one, _ in EXPRESSIBLE[::7]], ids=lambda one: one.name)
def test_a_transcript_holds_for_the_view_in_sql(transcript: Transcript) -> None:
    app = App("transcript")
    for statement in sql.parse(";\n".join(in_sql(transcript.view) or [])):
        sql.define(app, statement, without_log=True)
    replace(transcript, view=app.views["v"]).run("reference")


# Scripts as SQL


def written(step: Step, streams: dict[str, Stream]) -> str:
    if step.kind == "add":
        assert step.stream is not None
        kinds = dict(streams[step.stream].schema)
        groups = " ".join(
            f"PARTITION {partition} VALUES " + ", ".join(row(values, kinds) for _, values in rows)
            for partition, rows in groupby(step.rows, lambda pair: pair[0])
        )
        return f"INSERT INTO {step.stream} {groups}"
    if step.kind == "watermark":
        to = "END" if step.to == END else instant(step.to)
        return f"ADVANCE WATERMARK {f'OF {step.stream} ' if step.stream else ''}TO {to}"
    if step.kind == "clock":
        return f"ADVANCE CLOCK TO {instant(step.to)}"
    return step.kind.upper()


def row(values: object, kinds: dict[str, str]) -> str:
    return f"({', '.join(literals(values, kinds))})"


def literals(values: object, kinds: dict[str, str]) -> Iterator[str]:
    for name, kind in kinds.items():
        yield literal(values[name], kind)  # type: ignore[index]


def literal(value: object, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "timestamp":
        return instant(value)  # type: ignore[arg-type]
    if kind == "date":
        return f"DATE '{datetime(1970, 1, 1) + timedelta(days=value):%Y-%m-%d}'"  # type: ignore[arg-type]
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)" if not math.isfinite(value) or value == 0 else f"{value!r}D"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS {kind})"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value).lower()


def instant(micros: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}Z'"
