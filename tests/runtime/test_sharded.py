"""Views whose state is in segments, on Spark: tasks reduce, exchange deltas, merge shards, and write segments."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from penstock.model.placement import Placement
from penstock.model.reference import Reference
from penstock.runtime.script import OnSpark
from penstock.testing import replay
from penstock.transcripts import Transcript, load
from tests.comparison import differences
from tests.strategies import DEEP, cases, scripts, views
from tests.transcripts.functions import FUNCTIONS

FOLDER = Path(__file__).parent.parent / "transcripts"
SHARDED = Placement("sharded", 3)
#: Of each topic every so many.
EVERY = 1 if DEEP else 25


@cases(6, deep=60)
@given(view=views(), data=st.data(), tasks=st.integers(1, 3))
def test_any_view_gives_the_same_panes_table_and_refusals_on_spark(spark, view, data, tasks):
    script = data.draw(scripts(view, longest=5))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, Reference(view))
    with tempfile.TemporaryDirectory() as directory:
        got = replay(view, script, OnSpark(view, spark, Path(directory), tasks, SHARDED))
    assert not (found := differences(expected, got)), "\n".join(found)


def chosen() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for transcript in load(path, FUNCTIONS)[::EVERY]:
            yield pytest.param(transcript, id=f"{path.stem}: {transcript.name}")


@pytest.mark.parametrize("transcript", list(chosen()))
def test_transcript_in_segments_on_spark(transcript: Transcript, spark, tmp_path):
    transcript.run(lambda view: OnSpark(view, spark, tmp_path, 2, SHARDED))
