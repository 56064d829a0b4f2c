"""The dashboard in Chromium, on an app that lives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.conftest import PATIENCE, Serving

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def opened(browser: Any, serving: Serving) -> Iterator[Callable[..., Any]]:
    """Opens a panel in a browser of its own; whatever goes wrong in there fails the test."""
    contexts, problems = [], []

    def open(panel: str = "app", width: int = 1366, height: int = 850, **more: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
        page.on("request", lambda asked: problems.append(asked.url) if outside(asked.url, serving) else None)
        page.goto(f"{serving.url}/?panel={panel}")
        page.wait_for_selector("section.ps-card")
        return page

    yield open
    for context in contexts:
        context.close()
    assert not problems


def outside(url: str, serving: Serving) -> bool:
    return not url.startswith((serving.url, serving.url.replace("http", "ws"), "data:", "blob:"))


def mark(page: Any, name: str) -> Any:
    return page.locator(f'[data-mark="{name}"]')


def until(page: Any, name: str, test: str) -> None:
    """Waits until the text of a part passes a test in JavaScript, as `text`."""
    page.wait_for_function(
        f"""() => {{ const found = document.querySelector('[data-mark="{name}"]');
        const text = found ? found.textContent : ''; return {test} }}"""
    )


def drawn(page: Any, name: str) -> Any:
    """What a chart shows, once it shows something."""
    script = f"""() => {{
        const found = document.querySelector('[data-mark="{name}"]'); if (!found) return null;
        const chart = getElement(Number(found.id.slice(1))).chart; if (!chart) return null;
        const told = chart.getOption(), series = told.series || [];
        return series.length && series[0].data.length ? told : null }}"""
    return page.wait_for_function(script).json_value()


def test_the_graph_shows_the_parts_and_what_flows_between_them(opened: Callable[..., Any]):
    page = opened()
    for name in ("http", "posts", "trending", "by_country", "top_tags", "totals", "trending_jsonl"):
        page.wait_for_selector(f'[data-mark="graph"] svg text >> text="{name}"')
    page.wait_for_function(
        """() => [...document.querySelectorAll('[data-mark="graph"] svg text')]
           .some(part => /^[1-9].*\\/s$/.test(part.textContent))"""
    )


def test_freshness_is_shown_for_views_and_sinks(opened: Callable[..., Any]):
    page = opened()
    until(page, "freshness", "/\\d+ ms/.test(text)")
    mark(page, "go-time").click()
    page.wait_for_selector('[data-mark="freshness-figures"] .ag-row >> text="trending_jsonl"')
    assert {one["name"] for one in drawn(page, "freshness-chart")["series"]} == {"posts, median", "posts, 99 %"}


def test_numbers_change_without_a_reload(opened: Callable[..., Any]):
    page = opened()
    page.evaluate("window.untouched = true")
    until(page, "events", "/\\d/.test(text)")
    before = mark(page, "events").inner_text()
    until(page, "events", f"text !== {before!r}")
    assert page.evaluate("window.untouched")
    assert re.match(r"running · commit \d+", mark(page, "state").inner_text())
    assert mark(page, "app").inner_text() == "trending"
    assert page.title() == "trending · Penstock"


def test_a_views_chart_has_the_numbers_of_the_api(opened: Callable[..., Any], serving: Serving):
    page = opened("views&view=by_country")
    page.wait_for_selector("text=lines over time")
    asked = {"limit": 1000, "final": "true"}  # the app lives, but windows that are final do not change any more
    rows = httpx.get(f"{serving.url}/api/v1/views/by_country", params=asked, timeout=60).json()["rows"]
    final = {(row["country"], row["window_start"]): row["posts"] for row in rows}
    assert len(final) > 5
    known: dict[tuple[str, str], int] = {}
    for _ in range(100):
        lines = drawn(page, "view-chart")["series"]
        known = {(line["name"], at): n for line in lines for at, n in line["data"]}
        if final.keys() <= known.keys():
            break
        page.wait_for_timeout(200)
    assert {key: known.get(key) for key in final} == final
    until(page, "timing", "/newest pane: (early|on time|late)/.test(text)")


def test_other_shapes_get_other_charts_and_tables_are_sorted_by_a_click(opened: Callable[..., Any]):
    page = opened("views&view=top_tags")
    page.wait_for_selector("text=· bars ·")
    assert drawn(page, "view-chart")["series"][0]["type"] == "bar"
    page.locator('[data-mark="view"]').first.click()
    page.locator('.q-menu >> text="trending"').click()
    page.wait_for_selector("text=· heat map ·")
    first = page.locator('[data-mark="view-rows"] .ag-row[row-index="0"] .ag-cell[col-id="c0"]')
    first.wait_for()
    page.locator('[data-mark="view-rows"] .ag-header-cell[col-id="c0"]').click()
    page.wait_for_function(
        """() => document.querySelector('[data-mark="view-rows"] .ag-row[row-index="0"] .ag-cell[col-id="c0"]')
           ?.textContent === 'books'"""
    )


def test_a_dead_letter_can_be_opened_and_is_text(opened: Callable[..., Any]):
    page = opened("refused")
    page.locator('[data-mark="refused-kind"] >> text="Dead letters"').click()
    page.locator('[data-mark="refused-rows"] .ag-row[row-index="0"] >> text=dead').first.click()
    letter = mark(page, "letter")
    letter.wait_for()
    told = letter.inner_text()
    assert "A dead letter of 'posts'" in told
    assert "holds no int" in told
    assert '"tag": "<b>rain</b>"' in told


def test_a_dead_letter_can_be_retried_and_rows_exported(opened: Callable[..., Any]):
    page = opened("refused")
    page.locator('[data-mark="refused-kind"] >> text="Dead letters"').click()
    page.locator('[data-mark="refused-rows"] .ag-row[row-index="0"] >> text=dead').first.click()
    mark(page, "letter").wait_for()
    assert mark(page, "retry-all").inner_text() == "Retry all of 'posts'"
    mark(page, "retry").click()  # this app commits by hand: it takes no tasks
    until(page, "retry-outcome", "text.includes('no app runs')")
    page.keyboard.press("Escape")
    mark(page, "letter").wait_for(state="hidden")
    with page.expect_download() as download:
        mark(page, "export").click()
    assert download.value.suggested_filename == "dead-letters.jsonl"
    rows = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert {row["kind"] for row in rows} == {"dead"}
    assert rows[0]["row"]["tag"] == "<b>rain</b>"


def test_sql_begins_with_an_example_that_runs(opened: Callable[..., Any]):
    page = opened("sql")
    page.wait_for_function("() => document.querySelector('textarea').value.startsWith('SELECT')")
    mark(page, "ask").click()
    page.wait_for_selector('[data-mark="sql-rows"] .ag-row[row-index="0"]')
    assert mark(page, "sql-error").inner_text() == ""


def test_sql_is_answered_errors_show_their_place_and_questions_are_remembered(opened: Callable[..., Any]):
    page = opened("sql")
    box = page.locator("textarea")
    box.fill("SELECT tag, posts FROM top_tags ORDER BY posts DESC LIMIT 3")
    mark(page, "ask").click()
    until(page, "sql-note", "text.startsWith('3 rows')")
    page.wait_for_selector('[data-mark="sql-rows"] .ag-row[row-index="2"]')
    box.fill("SELECT nothing FROM top_tags")
    box.press("Control+Enter")
    until(page, "sql-error", "text.includes('nothing')")
    assert "^" in mark(page, "sql-error").inner_text()
    box.fill("DROP TABLE top_tags")
    mark(page, "ask").click()
    until(page, "sql-error", "text.length > 0 && !text.includes('nothing')")
    page.reload()
    page.locator('[data-mark="sql-past"] >> text=/ORDER BY posts/').click()
    page.wait_for_function("() => document.querySelector('textarea').value.includes('LIMIT 3')")


def test_dark_is_a_click_and_is_remembered(opened: Callable[..., Any]):
    page = opened(color_scheme="light")
    ground = "getComputedStyle(document.querySelector('section.ps-card')).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    mark(page, "dark").click()
    page.wait_for_function(f"() => {ground} !== 'rgb(255, 255, 255)'")
    page.reload()
    page.wait_for_function("() => document.body.classList.contains('body--dark')")


def test_a_narrow_screen_has_all_of_it(opened: Callable[..., Any]):
    page = opened(width=390, height=844)
    mark(page, "graph").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not mark(page, "go-epochs").is_visible() or mark(page, "go-epochs").bounding_box()["x"] < 0
    mark(page, "menu").click()
    page.wait_for_function("""() => document.querySelector('[data-mark="go-epochs"]').getBoundingClientRect().x >= 0""")
    mark(page, "go-epochs").click()
    page.wait_for_selector("text=Where the time went")
    assert drawn(page, "epochs-chart")["series"][0]["name"] == "reduce"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    mark(page, "commits-swipe").wait_for()  # a table with more columns than fit says so


def test_time_and_batch_show_what_was_noted(opened: Callable[..., Any]):
    page = opened("time")
    assert {line["name"] for line in drawn(page, "watermark")["series"]} == {"posts", "now"}
    assert drawn(page, "completeness-chart")["series"][0]["data"]
    mark(page, "go-batch").click()
    page.wait_for_selector('[data-mark="audits"] .ag-row >> text=equal')
    page.wait_for_selector('[data-mark="generations"] .ag-row >> text=first')


def test_an_open_page_comes_back_after_a_restart(opened: Callable[..., Any], serving: Serving):
    page = opened("app")
    until(page, "events", "/\\d/.test(text)")
    before = mark(page, "events").inner_text()
    serving.stop()
    serving.start()
    until(page, "events", f"/\\d/.test(text) && text !== {before!r}")
