"""Every transcript with its state in segments, in one shard and in several, merged now and then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.transcripts import Transcript
from tests.state.kernel import SegmentKernel
from tests.transcripts.test_transcripts import TRANSCRIPTS


def cases() -> Iterator[Any]:
    for topic, transcripts in TRANSCRIPTS.items():
        for number, transcript in enumerate(transcripts):
            yield pytest.param(transcript, number, id=f"{topic}: {transcript.name}")


@pytest.mark.parametrize(("transcript", "seed"), list(cases()))
def test_transcript_in_segments(transcript: Transcript, seed: int, tmp_path):
    transcript.run(lambda view: SegmentKernel(view, tmp_path, seed))
