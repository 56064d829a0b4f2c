"""An app that changes from version to version while it runs, on Spark, and what its views must hold."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.app import App
from penstock.control import Client, Live, Reply
from penstock.control.planning import planned
from penstock.control.starting import Apply
from penstock.history.batch.generation import Progress
from penstock.sinks import read_jsonl
from penstock.store import Reader
from tests.control.support import Clock
from tests.plans.apps import app_of

#: Versions that write the same folder, each with a sink of another name.
SAME_FOLDER = {"a sink", "a renamed sink", "a renamed view with a sink"}
#: Versions whose windows or rows of pages differ from those of all others: they are computed again.
OTHER_PAGES = {"another window", "a view over a changed view", "another input", "no view"}
#: What a test hears of a change: the phases, in order.
Phases = list[str]


def visit(number: int) -> dict[str, Any]:
    """The visits of a test, one a second."""
    at = f"2024-05-01T12:{number // 60:02}:{number % 60:02}Z"
    return {"page": f"/{number % 3}", "user": f"u{number % 2}", "ms": 5 + number % 4 * 5, "at": at}


class File:
    """The file of an app, which has another version now and then."""

    has_other_modules = False

    def __init__(self, root: Path, version: str) -> None:
        self.path, self.root, self.version = root / "app.py", root, version

    def load(self) -> App:
        return app_of(self.version, self.root)


class Changing:
    """A running app. It gets a visit with each file; `visits` are all so far."""

    def __init__(self, root: Path, spark: Any, version: str, visits: int = 0) -> None:
        self.root, self.file, self.visits = root, File(root, version), [visit(n) for n in range(visits)]
        self.shown_early = 0  # the first visits, whose open windows have fired by a trigger that is gone
        self.spark, self.client = spark, Client(root / "state")
        self.live = self.started()

    def started(self, apply: Apply | None = None) -> Live:
        """Starts it with the file."""
        self.live = Live(
            self.file.load(), self.root / "state", file=self.file, apply=apply, spark=self.spark, tick=3600.0,
            clock=Clock(),
        ).start()  # fmt: skip
        return self.live

    @property
    def folder(self) -> str:
        """Where its visits come from."""
        return "in2" if self.file.version == "another folder" else "in"

    def put(self, count: int = 2) -> None:
        """Some visits come, later than all before."""
        number = len(self.visits)
        new = [visit(n) for n in range(number, number + count)]
        self.visits += new
        hidden = self.root / ".writing"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in new))
        hidden.rename(self.root / self.folder / f"{number:05}.json")

    def apply(self, version: str, plan: str | None = None, keep_removed: bool = False) -> tuple[Reply, Phases]:
        """Changes it to another version, as the command does."""
        if "another folder" in (version, self.file.version):
            self.live.catch_up()  # what lies in the other folder would not be read
        if self.file.version == "another trigger":
            self.live.catch_up()
            self.shown_early = len(self.visits)
        if OTHER_PAGES & {version, self.file.version}:
            self.shown_early = 0
        if version in SAME_FOLDER and self.file.version not in SAME_FOLDER:
            shutil.rmtree(self.root / "out", ignore_errors=True)  # the files of a sink that was dropped, maybe another
        self.file.version = version
        phases: Phases = []

        def hear(progress: Progress) -> None:
            text = progress.phase if progress.kind == "apply" else f"{progress.view} {progress.phase}"
            if phases[-1:] != [text]:
                phases.append(text)

        wanted = plan or planned(app_of(version, self.root), Reader(self.root / "state")).to_json()
        given = {"file": str(self.file.path), "plan": wanted, "keep_removed": keep_removed}
        return self.client.watch("apply", given, hear), phases

    def stop(self) -> None:
        self.client.close()
        self.live.stop()

    def rows(self, view: str) -> Counter[tuple[object, ...]]:
        """The rows of a view, without windows."""
        rows = self.live.store.query(f'SELECT * FROM "{view}"')
        hidden = {"window_start", "window_end", "final"}
        return Counter(rows.select(column for column in rows.columns if column not in hidden).rows())

    def check(self) -> None:
        """Waits for all that was written, and compares each view with what it must hold."""
        self.live.catch_up()
        app = self.file.load()
        assert set(self.live.store.views()) == set(app.views)
        for view in app.views:
            rows, wanted = self.rows(view), expected(view, self.file.version, self.visits, self.shown_early)
            assert rows == wanted, f"{view} of '{self.file.version}': {rows} instead of {wanted}"
        assert not self.live.works.failures
        if self.file.version in SAME_FOLDER:
            assert read_jsonl(self.root / "out"), "the first window has fired"


def expected(
    view: str, version: str, visits: list[dict[str, Any]], shown_early: int = 0
) -> Counter[tuple[object, ...]]:
    """What a view of a version holds after these visits."""
    minutes = 2 if version in ("another window", "a view over a changed view") else 1
    rows = [row for row in visits if version != "another input" or row["ms"] > 10]

    def window(row: dict[str, Any]) -> int:
        return int(row["at"][14:16]) // minutes

    match view:
        case "by_page" | "pages":
            pages = Counter((row["page"], window(row)) for row in rows)
            return Counter((page, n) for (page, _), n in pages.items())
        case "by_user":
            return Counter(Counter(row["user"] for row in visits).items())
        case "total":  # of windows that have fired: a visit comes each second, and may be ten seconds late
            fired = [
                number for number, row in enumerate(visits)
                if number < shown_early or (window(row) + 1) * minutes * 60 <= len(visits) - 1 - 10
            ]  # fmt: skip
            return Counter([(len(fired) or None,)])
        case "by_count":
            key = "page" if version == "an operator by another key" else "user"
            sizes = Counter(row[key] for row in visits).values()
            return Counter(Counter(n for size in sizes for n in range(1, size + 1)).items())
        case "by_item":
            return Counter()
    raise AssertionError(view)
