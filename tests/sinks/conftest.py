"""Stores with a view in them, closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.testing import TestStream
from tests.sinks.support import LIVE, Fed, steady


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Callable[..., Fed]]:
    """Makes the store of a view that a script feeds."""
    made: list[Fed] = []

    def make(view: ps.View = LIVE, script: TestStream | None = None, name: str = "state") -> Fed:
        made.append(Fed(view, tmp_path / name, steady(20) if script is None else script))
        return made[-1]

    yield make
    for fed in made:
        fed.store.close()
