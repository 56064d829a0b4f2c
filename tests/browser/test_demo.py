"""The dashboard of the demo itself: one process with Spark, its server and its pages; and the door where tokens are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.dev.ports import free_port
from tests.browser.conftest import PATIENCE, Serving
from tests.browser.live import LiveApp
from tests.browser.test_dashboard import mark, until
from tests.conftest import need_spark

pytestmark = pytest.mark.xdist_group("browser")


class Demo:
    """`penstock demo` as a process, on the same port after each restart."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> Demo:
        command = [sys.executable, "-m", "penstock.cli", "demo", "--dir", str(self.directory), "--port", str(self.port)]
        with (self.directory.parent / "said").open("ab") as said:
            self._process = subprocess.Popen([*command, *more], stdout=said, stderr=said, start_new_session=True)
        return self

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    need_spark()
    made = Demo(tmp_path / "demo").start()
    yield made
    made.kill()


@pytest.mark.deep
def test_the_demos_own_page_shows_its_parts_lives_and_comes_back_after_a_kill(demo: Demo, browser: Any):
    page = browser.new_context(viewport={"width": 1366, "height": 850}).new_page()
    page.set_default_timeout(2 * PATIENCE)
    from playwright.sync_api import Error

    url = f"http://127.0.0.1:{demo.port}/"
    for _ in range(600):  # until Spark has started
        with suppress(Error):
            page.goto(url)
            break
        page.wait_for_timeout(200)
    for name in ("posts", "trending"):
        page.wait_for_selector(f'[data-mark="graph"] svg text >> text="{name}"')
    page.wait_for_function(
        """() => [...document.querySelectorAll('[data-mark="graph"] svg text')]
           .some(part => /^[1-9].*\\/s$/.test(part.textContent))"""
    )
    before = mark(page, "events").inner_text()
    until(page, "events", f"text !== {before!r}")
    demo.kill()
    page.wait_for_timeout(500)
    seen = number(mark(page, "events").inner_text())
    demo.start("--resume")
    page.wait_for_function(
        f"""() => {{ const found = document.querySelector('[data-mark="events"]');
        return found && Number(found.textContent.replace(/[^0-9]/g, '')) > {seen} }}"""
    )
    page.context.close()


def number(text: str) -> int:
    return int(re.sub(r"[^0-9]", "", text.split("\n")[0]) or 0)


def test_where_tokens_are_needed_the_page_asks_for_one(live: LiveApp, browser: Any):
    command = [sys.executable, "-m", "penstock.cli", "token", "create", "--scope", "read", "--dir", str(live.directory)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    token = max(re.findall(r"\S{20,}", said), key=len)
    serving = Serving(live.directory).start()
    try:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(serving.url)
        assert page.url.endswith("/login")
        page.fill("#token", "wrong-" + token)
        page.click("button")
        page.wait_for_function("() => document.querySelector('[role=alert]').textContent.length > 5")
        page.fill("#token", token)
        page.click("button")
        page.wait_for_selector("section.ps-card")
        until(page, "events", "/\\d/.test(text)")
        assert token not in page.url
        assert token not in page.content()
        assert page.evaluate("document.cookie") == ""  # no script can read it
        page.context.close()
    finally:
        serving.stop()
        revoke(live.directory)


def revoke(directory: Path) -> None:
    """Takes the tokens away: other tests open the app without one."""
    for file in directory.glob("tokens*"):
        file.unlink()
