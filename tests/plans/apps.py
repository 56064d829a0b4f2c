"""Versions of one app: every kind of change lies between two of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import penstock as ps
from penstock.app import App

MINUTE = ps.fixed("1 minute")


class Count(ps.Processor):
    """Counts the visits of a user."""

    output = "user string, n bigint"
    n = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.n += 1
        self.emit(user=event.user, n=self.n)


class Version:
    """An app in the making, with its stream."""

    def __init__(self, root: Path, keep: str | None, schema: str = "", source: str = "in", **options: object) -> None:
        self.root, self.app = root, App("shop")
        columns = f"page string, user string, ms int, at timestamp{schema}"
        settings = {"event_time": "at", "watermark": ps.bounded("10 seconds"), "keep": keep, **options}
        (root / source).mkdir(exist_ok=True)
        self.visits = self.app.stream("visits", ps.files(root / source), schema=columns, **settings)

    def page(self, name: str = "by_page", window: object = MINUTE, condition: str | None = None, **options: object):
        rows = self.visits if condition is None else self.visits.where(condition)
        return self.app.view(name, rows.group_by("page").window(window).agg(n=ps.count()).retracting(), **options)

    def sink(self, view: object, folder: str, name: str = "out"):
        return self.app.sink(view, ps.to_jsonl(str(self.root / folder)), name=name)


def _base(version: Version) -> None:
    version.page()


def _added_view(version: Version) -> None:
    version.page()
    version.app.view("by_user", version.visits.group_by("user").agg(n=ps.count()))


def _other_window(version: Version) -> None:
    version.page(window=ps.fixed("2 minutes"))


def _other_input(version: Version) -> None:
    version.page(condition="ms > 10")


def _other_trigger(version: Version) -> None:
    view = version.visits.group_by("page").window(MINUTE).agg(n=ps.count())
    version.app.view("by_page", view.trigger(ps.each()).allow_late("1 hour").retracting())


def _renamed_view(version: Version) -> None:
    version.page("pages")


def _sink(version: Version) -> None:
    version.sink(version.page(), "out")


def _renamed_sink(version: Version) -> None:
    version.sink(version.page(), "out", "others")


def _renamed_view_with_sink(version: Version) -> None:
    version.sink(version.page("pages"), "out")


def _other_target(version: Version) -> None:
    version.sink(version.page(), "elsewhere")


def _view_over_view(version: Version) -> None:
    pages = version.page()
    version.app.view("total", pages.changes("by_page").group_by().agg(n=ps.sum("n")))


def _view_over_changed_view(version: Version) -> None:
    pages = version.page(window=ps.fixed("2 minutes"))
    version.app.view("total", pages.changes("by_page").group_by().agg(n=ps.sum("n")))


def _operator(version: Version) -> None:
    version.page()
    counts = version.app.process("counts", version.visits, Count, by="user")
    version.app.view("by_count", counts.group_by("n").agg(users=ps.count()))


def _operator_by_page(version: Version) -> None:
    version.page()
    counts = version.app.process("counts", version.visits, Count, by="page")
    version.app.view("by_count", counts.group_by("n").agg(users=ps.count()))


def _two_streams(version: Version) -> None:
    version.page()
    (version.root / "orders").mkdir(exist_ok=True)
    orders = version.app.stream(
        "orders", ps.files(version.root / "orders"), schema="item string", keep=version.visits.keep
    )
    version.app.view("by_item", orders.group_by("item").agg(n=ps.count()))


def _no_view(version: Version) -> None:
    version.app.sink(version.visits.where("ms > 0"), ps.to_jsonl(str(version.root / "rows")), name="rows")


VERSIONS: dict[str, tuple[Callable[[Version], None], dict[str, object]]] = {
    "one view": (_base, {}),
    "an added view": (_added_view, {}),
    "another window": (_other_window, {}),
    "another input": (_other_input, {}),
    "another trigger": (_other_trigger, {}),
    "a renamed view": (_renamed_view, {}),
    "a sink": (_sink, {}),
    "a renamed sink": (_renamed_sink, {}),
    "a renamed view with a sink": (_renamed_view_with_sink, {}),
    "another target": (_other_target, {}),
    "a view over a view": (_view_over_view, {}),
    "a view over a changed view": (_view_over_changed_view, {}),
    "an operator": (_operator, {}),
    "an operator by another key": (_operator_by_page, {}),
    "two streams": (_two_streams, {}),
    "no view": (_no_view, {}),
    "another column": (_base, {"schema": ", device string"}),
    "another folder": (_base, {"source": "in2"}),
    "another watermark": (_base, {"watermark": ps.bounded("1 minute")}),
}


def app_of(name: str, root: Path, keep: str | None = None) -> App:
    """The version of this name."""
    define, options = VERSIONS[name]
    version = Version(root, keep, **options)
    define(version)
    return version.app
