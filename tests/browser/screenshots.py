"""Takes the pictures of the dashboard for the docs: `python -m tests.browser.screenshots DIRECTORY`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, Serving, chromium
from tests.browser.live import filled

LAPTOP, PHONE = {"width": 1366, "height": 860}, {"width": 390, "height": 844}
SETTLED = 4_000


def main(out: Path) -> None:
    found = chromium()
    if found is None:
        sys.exit("there is no Chromium; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        live = filled(Path(scratch) / "state", seconds=100).start()
        serving = Serving(live.directory).start()
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            _all(browser, serving.url, out)
        finally:
            browser.close()
            serving.stop()
            live.stop()


def _all(browser: Any, url: str, out: Path) -> None:
    light, dark = _page(browser, LAPTOP, "light"), _page(browser, LAPTOP, "dark")
    phone = _page(browser, PHONE, "light")
    for page, panel, name in (
        (light, "app", "app"), (dark, "app", "app-dark"), (phone, "app", "phone"),
        (light, "views&view=trending", "view"), (dark, "views&view=by_country", "view-dark"),
        (phone, "views&view=top_tags", "phone-view"), (light, "time", "time"), (light, "epochs", "epochs"),
    ):  # fmt: skip
        _take(page, f"{url}/?panel={panel}", out / f"dashboard-{name}.png")
    _go(dark, f"{url}/?panel=refused")
    dark.locator('[data-mark="refused-rows"] .ag-row[row-index="0"] .ag-cell').first.click()
    dark.locator('[data-mark="letter"]').wait_for()
    dark.wait_for_timeout(800)
    dark.screenshot(path=out / "dashboard-letter-dark.png")
    _go(light, f"{url}/?panel=sql")
    light.locator("textarea").fill(
        "SELECT tag, max(posts) AS best, sum(likes) AS likes\nFROM trending GROUP BY tag ORDER BY best DESC"
    )
    light.locator('[data-mark="ask"]').click()
    light.wait_for_selector('[data-mark="sql-rows"] .ag-row[row-index="3"]')
    light.wait_for_timeout(800)
    light.screenshot(path=out / "dashboard-sql.png")


def _page(browser: Any, size: dict[str, int], scheme: str) -> Any:
    return browser.new_context(viewport=size, color_scheme=scheme).new_page()


def _go(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("section.ps-card")
    page.wait_for_timeout(SETTLED)


def _take(page: Any, url: str, path: Path) -> None:
    _go(page, url)
    page.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
