"""The OpenAPI document is what the server does: Schemathesis looks for a difference."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import schemathesis  # noqa: F401

from penstock.serve.server import Server
from penstock.serve.settings import Limits

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"

#: Whether a key, a cursor or a question fits a view only the store can tell: it answers 422 to what is well formed too.
#: And who waits for events that are not there gets 504, as the document says.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 404, 406, 409, 415, 422, 504]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 431]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
"""


def test_the_document_names_every_path(client: httpx.Client):
    document = client.get("/api/v1/openapi.json").json()
    assert set(document["paths"]) == {
        "/api/v1/alerts", "/api/v1/models", "/api/v1/models/{name}", "/api/v1/models/{name}/{part}",
        "/api/v1/query", "/api/v1/sinks", "/api/v1/sinks/{name}", "/api/v1/streams", "/api/v1/streams/{name}",
        "/api/v1/views", "/api/v1/views/{name}", "/api/v1/views/{name}/schema", "/api/v1/views/{name}/subscribe",
        "/health", "/metrics", "/ready",
    }  # fmt: skip


def test_schemathesis_finds_nothing(serving: Callable[..., Server], filled, tmp_path: Path, pytestconfig):
    """Requests made up from the document, good ones and bad ones; each answer must be one that it names."""
    filled.store.delivered({"out": 2})
    server = serving(limits=Limits(rate=100_000, burst=100_000, wait_seconds=0.2))
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml"), "run",
        f"{server.url}/api/v1/openapi.json", "--exclude-path-regex", "subscribe$",  # one that is accepted never ends
        "--max-examples", "300" if DEEP else "8", "--seed", pytestconfig.getoption("--hypothesis-seed") or "7",
        "--phases", "examples,coverage,fuzzing,stateful" if DEEP else "examples,coverage,fuzzing",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200 if DEEP else 300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "failed" not in done.stdout
