"""Every transcript on the reference and on the kernel: rows in other orders, epochs cut into batches in other ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.errors import DefinitionError, TestFailure
from penstock.kernel.local import Cut, LocalKernel
from penstock.model.reference import Reference
from penstock.model.view import View
from penstock.testing import Engine
from penstock.transcripts import Transcript, load, parse
from tests.transcripts.functions import FUNCTIONS

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
TRANSCRIPTS = {path.stem: load(path, FUNCTIONS) for path in FILES}


def kernel(cut: Cut) -> Callable[[View], Engine]:
    return lambda view: LocalKernel(view, cut=cut)


def in_pieces(size: int) -> Cut:
    return lambda rows: [rows[i : i + size] for i in range(0, rows.height, size)]


def by_partition(rows: pl.DataFrame) -> list[pl.DataFrame]:
    return rows.partition_by("__partition", maintain_order=True)[::-1]


ENGINES: dict[str, Callable[[View], Engine]] = {"reference": Reference, "kernel": LocalKernel}
CUTS: dict[str, Callable[[View], Engine]] = {
    "kernel, batches of one": kernel(in_pieces(1)),
    "kernel, batches of two": kernel(in_pieces(2)),
    "kernel, batches by partition": kernel(by_partition),
}


def cuts(transcript: Transcript) -> list[str]:
    """The ways of cutting epochs that change anything for this transcript."""
    epochs = [step.rows for line in transcript.lines for step in line.steps]
    most, partitions = max(map(len, epochs)), max(len({partition for partition, _ in rows}) for rows in epochs)
    return [name for name, changes in zip(CUTS, (most > 1, most > 2, partitions > 1), strict=True) if changes]


def cases() -> Iterator[Any]:
    for topic, transcripts in TRANSCRIPTS.items():
        for transcript in transcripts:
            ways = [(name, order) for name in ENGINES for order in transcript.orders]
            ways += [(name, "as written") for name in cuts(transcript)]
            for name, order in ways:
                case = f"{topic}: {transcript.name} [{name}, {order}]"
                yield pytest.param(transcript, (ENGINES | CUTS)[name], order, id=case)


@pytest.mark.parametrize(("transcript", "engine", "order"), list(cases()))
def test_transcript(transcript: Transcript, engine: Callable[[View], Engine], order: str) -> None:
    transcript.run(engine, order)


def test_names_are_unique_and_say_something() -> None:
    names = Counter(transcript.name for several in TRANSCRIPTS.values() for transcript in several)
    assert [name for name, times in names.items() if times > 1] == []
    assert all(len(name.split()) > 3 for name in names)


def test_there_are_transcripts_that_must_fail() -> None:
    assert sum(transcript.fails is not None for transcript in TRANSCRIPTS["harness"]) >= 8


GOOD = """
streams:
  s: ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 day"))
transcripts:
  - name: good
    view: s.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
    script:
      - add: [a 12:00:10]
"""


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("  script", "  skript", "unknown entry of a transcript 'skript'"),
        ("- add", "- ad", "unknown step 'ad'"),
        ("- add: [a 12:00:10]", "- add: [a 12:00:10]\n        pane: [x]", "unknown entry of a step 'add' 'pane'"),
        ("a 12:00:10", "a 12:00:10 7", "3 words for 2 columns"),
        ("12:00:10", "noon", "not an instant"),
        ("- add: [a 12:00:10]", "- add: [a 12:00:10]\n        add: [b 12:00:10]", "'add' appears twice"),
        (".agg(n=ps.count())", "", "the view is a Grouped"),
        ("ps.count()", "ps.sum('x')", "unknown column 'x'"),
        ("ps.count()", "ps.counts()", "line 6: unknown name of Penstock's 'counts'"),
        ("- add: [a 12:00:10]", "- restart:\n        panes: [x]", "unknown entry of a step 'restart' 'panes'"),
        ("name: good", "name: good\n    fails: never", "'good' passed, and should fail with 'never'"),
    ],
)
def test_a_wrong_transcript_says_what_is_wrong(wrong: str, right: str, message: str) -> None:
    def run(text: str) -> None:
        for transcript in parse(text):
            transcript.run("reference")

    run(GOOD)
    with pytest.raises((DefinitionError, TestFailure)) as error:
        run(GOOD.replace(wrong, right))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("__import__('os').system('true')", "'__import__' is not allowed"),
        ("ps.count().__class__.__mro__", "is not allowed"),
        ("s.group_by('k').__init__()", "is not allowed"),
        ("ps.errors", "is not allowed"),
        ("ps.testing.run(s, s)", "is not allowed"),
        ("ps.files('/etc')", "'ps.files' makes no stream"),
        ("ps.App('a')", "'ps.App' makes no stream"),
        ("ps._MODULES()", "is not allowed"),
        ("ps.stream(schema='k string', **{'name': 's'})", "is not allowed"),
        ("[k for k in (1, 2)]", "is not allowed"),
        ("{**{}}", "is not allowed"),
        ("(lambda: 1)()", "is not allowed"),
        ("s.pipe(print)", "unknown name 'print'"),
        ("s.pipe(lambda t: t)", "is not allowed"),
        ("s.name.upper()", "is not allowed"),
        ("'a' * 10 ** 9", "is not allowed"),
        ("f'{s}'", "is not allowed"),
        ("(x := 1)", "is not allowed"),
        ("'abc'.encode()", "is not allowed"),
        ("s if s else s", "is not allowed"),
        ("s.schema[0]", "is not allowed"),
        ("1) + (2", "is not allowed"),
        ("import os", "is not an expression"),
        ("(" * 5000 + ")" * 5000, "is not an expression"),
        ("[" * 150 + "]" * 150, "nested more than 100 levels"),
        ("s.where(1, 2, 3, 4)", "cannot be evaluated"),
    ],
)
def test_a_hostile_transcript_is_rejected_with_file_and_line(tmp_path: Path, code: str, message: str) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(GOOD.replace('s.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())', f"|\n      {code}"))
    with pytest.raises(DefinitionError) as error:
        load(file)
    assert error.value.message.startswith("hostile.yaml: 'good': line 6: ")
    assert message in str(error.value)


def test_functions_of_definitions_come_from_the_caller() -> None:
    text = GOOD.replace('ps.fixed("1 minute")', "ps.custom(whole_minute)")
    [transcript] = parse(text, FUNCTIONS)
    transcript.run("reference")
    with pytest.raises(DefinitionError, match="unknown name 'whole_minute'"):
        parse(text)
