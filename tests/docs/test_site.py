"""The documentation site: it builds without a warning, loads nothing from elsewhere, and its tables are complete."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import penstock
from penstock.cli.commands import COMMANDS, loaded
from penstock.runtime.run import Run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: What metrics of freshness are about.
KINDS = ("view", "sink")
#: Elements that a browser loads when it opens a page.
LOADED = re.compile(r"<(?:script|img|link rel=\"stylesheet\")[^>]+(?:src|href)=\"(https?:[^\"]+)\"")


def test_it_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} <= {name.removesuffix(".html") for name in pages}
    assert {url for page in pages.values() for url in LOADED.findall(page)} == set()
    for name in COMMANDS:
        assert f'id="penstock-{name}"' in pages["cli.html"]
    described = set(re.findall(r'id="penstock\.[\w.]*?(\w+)"', pages["python-api.html"]))
    assert set(penstock.__all__) - described == set()


def test_a_page_stands_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = [page for page in re.findall(r"(\S+\.md)$", text, re.MULTILINE) if page != "serving.md"]
    assert len(pages) > 40
    assert sorted(pages) == sorted(set(pages))


def test_every_option_is_in_the_table_of_the_configuration() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    arguments = {*inspect.signature(Run.__init__).parameters} - {"self", "name", "streams", "views"}
    parameters = [*loaded("run").params, *loaded("serve").params]
    options = {option for parameter in parameters for option in parameter.opts if option.startswith("--")}
    variables = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"\bPENSTOCK_[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    named = set(re.findall(r"[\w-]+", page))
    assert (arguments | options | variables) - named - {"--help"} == set()


def test_every_metric_is_in_its_table() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/penstock/serve").glob("metrics*.py"))
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    families = {name.replace("{kind}", kind) for name in re.findall(r'"(penstock_[\w{}]+)"', source) for kind in KINDS}
    assert families - set(re.findall(r"`(penstock_\w+)`", page)) == set()


def test_the_first_view_is_the_same_in_python_and_in_sql() -> None:
    import penstock as ps
    from penstock.sql import define, parse

    page = (DOCS / "first-view.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    app = ps.App("shop")
    for statement in parse(text):
        define(app, statement)
    visits = ps.stream(
        "visits", ps.files("visits"), schema="page string, user string, at timestamp", event_time="at",
        watermark=ps.bounded("10 seconds"),
    )  # fmt: skip
    assert app.views["by_page"] == visits.group_by("page").window(ps.fixed("1 minute")).agg(visits=ps.count())
