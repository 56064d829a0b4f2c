"""What panels share: the page that they are on, and small parts that are made of labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from nicegui import ui

from penstock.serve.dashboard.board import Board
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.service import Service


@dataclass
class Place:
    """What a panel may use, and what it is asked for: the view that is looked at.

    `may_change` says whether the person may change what the app has: their token is looked up each time.
    """

    board: Board
    service: Service
    narrow: bool = False
    view: str | None = None
    may_change: Callable[[], bool] = lambda: True


class Panel(Protocol):
    """A part of the page, made where it stands. It draws snapshots."""

    def draw(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None: ...


@contextmanager
def card(title: str, note: str = "") -> Iterator[None]:
    """A part with a title."""
    with ui.element("section").classes("ps-card"):
        if title:
            with ui.element("div").classes("ps-row"):
                ui.label(title).classes("ps-title")
                if note:
                    ui.label(note).classes("ps-note")
        yield


class Tile:
    """A number, what it is, and a word about it."""

    def __init__(self, name: str, mark: str) -> None:
        with ui.element("div").classes("ps-tile"):
            ui.label(name).classes("k")
            self._value = ui.label("–").classes("v").props(f'data-mark="{mark}"')
            self._note = ui.label("").classes("d")

    def draw(self, value: str, note: str = "") -> None:
        self._value.set_text(value)
        self._note.set_text(note)


def cells(names: Sequence[str], row: Mapping[str, Any], id: object) -> dict[str, Any]:
    """A row for a table: by place, since names are anybody's, and what is not a plain value as text."""
    values = {f"c{place}": plain(row.get(name)) for place, name in enumerate(names)}
    return {"__id": str(id), **values}


def plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
