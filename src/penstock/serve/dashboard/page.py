"""The page: a head, a side that leads to the panels, and the panel that is open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from nicegui import Client, ui

from penstock.model.time import SECOND
from penstock.serve.dashboard.alerts import Alerts
from penstock.serve.dashboard.batch import Batch
from penstock.serve.dashboard.board import Board
from penstock.serve.dashboard.epochs import Epochs
from penstock.serve.dashboard.overview import Overview
from penstock.serve.dashboard.panel import Panel, Place
from penstock.serve.dashboard.refused import RefusedPanel
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.sql import Sql
from penstock.serve.dashboard.style import CSS
from penstock.serve.dashboard.times import Times
from penstock.serve.dashboard.views import Views
from penstock.serve.dashboard.words import number, seconds
from penstock.serve.service import Service
from penstock.serve.tokens import Tokens

PANELS: Final[dict[str, tuple[str, str, Callable[[Place], Panel]]]] = {
    "app": ("App", "account_tree", Overview),
    "views": ("Views", "bar_chart", Views),
    "alerts": ("Alerts", "notifications", Alerts),
    "time": ("Time", "schedule", Times),
    "epochs": ("Epochs", "view_timeline", Epochs),
    "refused": ("Late and dead letters", "report", RefusedPanel),
    "sql": ("SQL", "terminal", Sql),
    "batch": ("Batch and audits", "fact_check", Batch),
}
#: A cookie remembers light or dark: the server knows it before the page is drawn.
_DARK: Final = "penstock_dark"
#: A screen with fewer pixels is narrow.
_NARROW: Final = 700
#: With fewer pixels the sidebar covers the page, and opens on request.
_SIDE: Final = 900


class _Page:
    """One open page."""

    def __init__(self, place: Place, panel: str, dark: bool | None) -> None:
        self._place = place
        self._panel: Panel | None = None
        self._dark = ui.dark_mode(dark)
        self._open = panel
        ui.add_css(CSS)
        ui.colors(primary="#0d9488")
        with ui.header().classes("ps-header"):
            ui.button(icon="menu", on_click=self._toggle).props(
                'flat round dense color=grey aria-label="menu" data-mark="menu"'
            )
            ui.label("Penstock").classes("ps-name ps-wide")
            self._app = ui.label("").classes("ps-app").props('data-mark="app"')
            with ui.element("div").classes("ps-pill"):
                self._dot = ui.element("span").classes("ps-dot")
                self._state = ui.label("…").props('data-mark="state"')
            ui.space()
            ui.button(icon="contrast", on_click=self._turn).props(
                'flat round dense color=grey aria-label="light or dark" data-mark="dark"'
            )
        with ui.left_drawer().classes("ps-drawer").props(f"width=250 breakpoint={_SIDE}") as self._drawer:
            self._ways = {name: self._way(name, title, icon) for name, (title, icon, _) in PANELS.items()}
        self._missing = ui.label("").classes("ps-card ps-error")
        self._missing.set_visibility(False)
        self._content = ui.element("main").classes("ps-panel")

    def _way(self, name: str, title: str, icon: str) -> ui.button:
        made = ui.button(title, icon=icon, color=None, on_click=lambda: self._go(name))
        return made.props(f'flat no-caps no-wrap data-mark="go-{name}"').classes("ps-nav")

    async def connected(self) -> None:
        """The browser is there: it says how wide it is, and the panel is made."""
        self._place.narrow = await _width() < _NARROW
        if self._content.client.is_deleted:
            return
        self.show(self._open)
        self._place.board.open(self.draw)

    async def _go(self, name: str) -> None:
        self.show(name)
        if await _width() < _SIDE:
            self._drawer.hide()

    def show(self, name: str) -> None:
        self.leave()
        self._open = name
        for known, way in self._ways.items():
            way.classes(add="here" if known == name else "", remove="" if known == name else "here")
        self._content.clear()
        with self._content:
            self._panel = PANELS[name][2](self._place)
        view = {"view": self._place.view} if name == "views" and self._place.view else {}
        ui.navigate.history.replace(f"/?{urlencode({'panel': name, **view})}")
        if self._place.board.last is not None:
            self.draw(self._place.board.last)

    def leave(self) -> None:
        if self._panel is not None:
            self._panel.close()
            self._panel = None

    def _toggle(self) -> None:
        self._drawer.toggle()

    def _turn(self) -> None:
        self._dark.value = not self._dark.value
        ui.run_javascript(
            f"document.cookie = '{_DARK}={int(self._dark.value)}; path=/; max-age=31536000; SameSite=Strict'"
        )

    def draw(self, snapshot: Snapshot) -> None:
        self._missing.set_visibility(snapshot.missing is not None)
        if snapshot.missing is not None:
            self._missing.set_text(snapshot.missing)
            self._state.set_text("no store")
            self._dot.classes(remove="live bad")
            return
        if snapshot.app and self._app.text != snapshot.app:
            self._app.set_text(snapshot.app)
            with self._content:
                ui.page_title(f"{snapshot.app} · Penstock")
        self._state.set_text(state_text(snapshot, time.time(), self._place.narrow))
        self._dot.classes(replace=f"ps-dot {'live' if snapshot.stopped is None else 'bad'}")
        if self._panel is not None:
            with self._content:
                self._panel.draw(snapshot)


def state_text(snapshot: Snapshot, now: float, narrow: bool = False) -> str:
    """Whether the app runs, and how far it is."""
    if narrow:
        return f"{snapshot.stopped or 'running'} · commit {number(snapshot.commit)}"
    age = now - (snapshot.committed or 0) / SECOND
    ago = f", {seconds(age)} ago" if snapshot.committed is not None and age < 86_400 * 365 else ""
    return f"{snapshot.stopped or 'running'} · commit {number(snapshot.commit)}{ago}"


async def _width() -> float:
    """How wide the page is; as on a laptop, if the browser does not say."""
    try:
        wide = await ui.run_javascript("return window.innerWidth", timeout=10)
    except TimeoutError:
        wide = None
    return float(wide) if isinstance(wide, int | float) else 1400.0


def may_change(tokens: Tokens, request: Request) -> bool:
    """Whether a page's token allows to change what the app has, as the API's other methods want it."""
    if not tokens.are_required():
        return True
    token = tokens.find(request.headers.get("authorization", "").removeprefix("Bearer "))
    return token is not None and token.allows("admin")


def show(board: Board, service: Service) -> None:
    """Registers the page."""

    @ui.page("/")
    async def page(request: Request, client: Client, panel: str = "app", view: str = "") -> None:
        chosen = request.cookies.get(_DARK)
        dark = None if chosen not in ("0", "1") else chosen == "1"
        place = Place(board, service, view=view or None, may_change=lambda: may_change(service.tokens, request))
        made = _Page(place, panel if panel in PANELS else "app", dark)

        def gone() -> None:
            board.close(made.draw)
            made.leave()

        client.on_delete(gone)
        await client.connected()
        if not client.is_deleted:
            await made.connected()
