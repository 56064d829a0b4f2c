"""Apps that are closed when a test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.history.savepoints.support import Written


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[..., Written]]:
    """Makes an app after so many epochs."""
    made: list[Written] = []

    def make(epochs: int = 0, name: str = "state") -> Written:
        made.append(Written(tmp_path / name))
        return made[-1].run(epochs)

    yield make
    for app in made:
        app.store.close()
