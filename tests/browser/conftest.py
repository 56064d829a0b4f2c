"""A living app, a server for its directory, and Chromium to look at it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.live import LiveApp, filled
from tests.conftest import without

#: As root, and without looking for anything on the net.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 60_000


def chromium() -> str | None:
    """The system's Chromium, if there is one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Serving:
    """`penstock serve` as a process, on the same port after each restart."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Serving:
        command = [
            sys.executable,
            "-m",
            "penstock.cli",
            "serve",
            "--dir",
            str(self.directory),
            "--port",
            str(self.port),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        found = re.search(r"http://[^/]+:(\d+)", said)
        assert found is not None, said
        self.port = int(found[1])
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApp]:
    made = filled(tmp_path_factory.mktemp("app") / "state", seconds=25).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def serving(live: LiveApp) -> Iterator[Serving]:
    made = Serving(live.directory).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    found = chromium()
    if found is None:
        without("there is no Chromium; on Debian: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        without("playwright is not installed")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield made
        made.close()
