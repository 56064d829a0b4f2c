"""Tests that start Spark's processes of their own run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.support import Scene
from tests.conftest import need_spark

#: Apps that the tests run, with a neighbour that only they can import.
collect_ignore = ["apps"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[int], Scene]]:
    """Makes a directory with so many files of events to come."""
    need_spark()
    made: list[Scene] = []

    def make(files: int) -> Scene:
        made.append(Scene(tmp_path, files))
        return made[-1]

    yield make
    for scene in made:
        scene.close()
