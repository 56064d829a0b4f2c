"""Models over HTTP: their versions, and what keys have, as the reference has learned it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import httpx
import pytest

import penstock as ps
from penstock.app import App
from penstock.learning import Factors
from penstock.learning.played import LearningRun
from penstock.serve.server import Server
from penstock.store import Commit
from penstock.testing import TestStream, learn
from tests.serve.conftest import NOON, Filled

_NUMBERS = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str | None:
    """Both stores."""
    if request.param == "sqlite":
        return None
    return f"{request.getfixturevalue('postgres').url}?schema=models{os.getpid()}_{next(_NUMBERS)}"


@pytest.fixture
def learned(filled: Filled) -> LearningRun:
    """A model that learned five epochs, of which the last three are kept."""
    app = App("rated")
    rated = app.stream("rated", ps.files("nowhere"), schema="user string, item int, stars double")
    taste = app.learn("taste", rated, Factors("user", "item", "stars", factors=2), versions=3)
    script = TestStream(rated)
    for epoch in range(5):
        script = script.add(("ann", epoch, 5.0), ("bob", epoch, 1.0 + epoch))
    found = learn(taste, script)
    memory, counters = {"taste": found.memory.all()}, {"taste.learned": 10}
    filled.store.commit(
        Commit(kind="epoch", now=NOON, query="t", epoch=0, offsets="{}", memory=memory, counters=counters)
    )
    return found


def test_models_and_their_versions_are_told(client: httpx.Client, learned: LearningRun):
    (told,) = client.get("/api/v1/models").json()
    assert (told["name"], told["version"], told["parts"]) == ("taste", 5, ["item", "user"])
    assert [(one["number"], one["rows"]) for one in told["versions"]] == [(3, 6), (4, 8), (5, 10)]
    assert client.get("/api/v1/models/taste").json() == told
    assert client.get("/api/v1/models/tast").json()["hint"] == "did you mean 'taste'?"


def test_keys_are_looked_up_in_the_newest_version_or_in_one_that_is_kept(client: httpx.Client, learned: LearningRun):
    told = client.get("/api/v1/models/taste/user", params={"key": ["bob", "nobody"]}).json()
    newest = learned.model()
    (bob,) = newest["user"][newest.keys_of["user"].to_list().index("bob")][None, :].tolist()
    assert told == {"version": 5, "rows": [{"key": "bob", "values": bob}]}
    was = client.get("/api/v1/models/taste/item", params={"key": "4", "version": 4})
    assert was.json() == {"version": 4, "rows": []}, "the fifth epoch was the first to have it"
    assert client.get("/api/v1/models/taste/item", params={"key": "4", "version": 1}).status_code == 404
    assert client.get("/api/v1/models/taste/item", params={"key": "4", "version": 6}).status_code == 404
    assert client.get("/api/v1/models/taste/things", params={"key": "4"}).status_code == 404
    assert client.get("/api/v1/models/taste/item").status_code == 422


def test_without_models_there_are_none(serving: Callable[..., Server], filled: Filled):
    assert httpx.get(f"{serving().url}/api/v1/models").json() == []
