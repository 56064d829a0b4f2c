"""The transcripts on the engine: all of them without Spark, and a part of every topic on Spark; all in the deep run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.placement import Placement
from penstock.runtime.script import OnEngine, OnSpark
from penstock.transcripts import Transcript, load
from tests.strategies import DEEP
from tests.transcripts.functions import FUNCTIONS

FOLDER = Path(__file__).parent.parent / "transcripts"
#: On Spark, one of this number of each topic by default; its rows are in one task, and in three.
EVERY = 1 if DEEP else 9
PLACEMENTS = (Placement(), Placement("sharded", 3))


def without_spark() -> Iterator[Any]:
    """Each transcript with its state in the store or in segments, taking turns; with both in the deep run."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for number, transcript in enumerate(load(path, FUNCTIONS)):
            for placement in PLACEMENTS if DEEP else PLACEMENTS[number % 2 :][:1]:
                yield pytest.param(transcript, placement, id=f"{path.stem}: {transcript.name} [{placement.kind}]")


def on_spark() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for transcript in load(path, FUNCTIONS)[::EVERY]:
            for tasks in (1, 3) if DEEP else (2,):
                yield pytest.param(transcript, tasks, id=f"{path.stem}: {transcript.name} [{tasks} tasks]")


@pytest.mark.parametrize(("transcript", "placement"), list(without_spark()))
def test_transcript_on_the_engine(transcript: Transcript, placement: Placement, tmp_path):
    transcript.run(lambda view: OnEngine(view, tmp_path, placement))


@pytest.mark.parametrize(("transcript", "tasks"), list(on_spark()))
def test_transcript_on_spark(transcript: Transcript, tasks: int, spark, tmp_path):
    transcript.run(lambda view: OnSpark(view, spark, tmp_path, tasks))
