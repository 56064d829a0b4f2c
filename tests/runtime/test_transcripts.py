"""The transcripts on Spark: a part of every topic by default, all of them in the deep run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.script import OnSpark
from penstock.transcripts import Transcript, load
from tests.strategies import DEEP
from tests.transcripts.functions import FUNCTIONS

FOLDER = Path(__file__).parent.parent / "transcripts"
#: Of each topic every so many; a script's rows stand in one task, and in three.
EVERY = 1 if DEEP else 9


def chosen() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for transcript in load(path, FUNCTIONS)[::EVERY]:
            for tasks in (1, 3) if DEEP else (2,):
                yield pytest.param(transcript, tasks, id=f"{path.stem}: {transcript.name} [{tasks} tasks]")


@pytest.mark.parametrize(("transcript", "tasks"), list(chosen()))
def test_transcript_on_spark(transcript: Transcript, tasks: int, spark, tmp_path):
    transcript.run(lambda view: OnSpark(view, spark, tmp_path, tasks))
