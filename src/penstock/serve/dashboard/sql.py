"""A box for SQL: statements are run as those of the API, and the browser remembers them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from nicegui import ui
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError
from penstock.model.types import is_numeric
from penstock.serve.askers import Select
from penstock.serve.dashboard.charts import Grid, column, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot, ViewNow
from penstock.serve.dashboard.words import number, seconds

#: How many rows are shown, and how many statements remembered.
_ROWS: Final = 1_000
_PAST: Final = 30
_KEPT: Final = "penstock_sql"


class Sql:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._past: list[str] = []
        self._has_example = False
        with card("SQL", "a SELECT over the views; Ctrl-Enter asks"):
            self._box = ui.textarea().props("outlined autogrow spellcheck=false").classes("ps-sql")
            self._box.props('data-mark="sql"').on("keydown.ctrl.enter.prevent", self._ask)
            with ui.element("div").classes("ps-row"):
                ui.button("Ask", on_click=self._ask, icon="play_arrow").props('no-caps unelevated data-mark="ask"')
                self._note = ui.label("").classes("ps-note").props('data-mark="sql-note"')
            self._error = ui.label("").classes("ps-error").props('data-mark="sql-error" role="alert"')
            self._grid = Grid("sql-rows")
        with card("Asked before"):
            self._list = ui.element("div").props('data-mark="sql-past"')
        ui.timer(0.1, self._remembered, once=True)

    async def _remembered(self) -> None:
        try:
            kept = await ui.run_javascript(f"return localStorage.getItem('{_KEPT}')", timeout=5)
            past = json.loads(kept) if kept else []
        except (TimeoutError, ValueError):
            past = []
        self._past = [text for text in past if isinstance(text, str)][:_PAST] if isinstance(past, list) else []
        self._show_past()

    def _show_past(self) -> None:
        self._list.clear()
        with self._list:
            for text in self._past:
                ui.button(" ".join(text.split()), on_click=lambda text=text: self._box.set_value(text)).props(
                    "flat dense no-caps"
                ).classes("ps-past")
            if not self._past:
                ui.label("nothing yet").classes("ps-note")

    async def _ask(self) -> None:
        text = (self._box.value or "").strip()
        if not text:
            return
        self._past = [text, *(past for past in self._past if past != text)][:_PAST]
        self._show_past()
        ui.run_javascript(f"localStorage.setItem('{_KEPT}', {json.dumps(json.dumps(self._past))})")
        began = time.monotonic()
        try:
            answer = await self._place.service.select(Select(text, {}, _ROWS))
        except PenstockError as error:
            lines = [error.message, error.detail, f"hint: {error.hint}" if error.hint else None]
            self._error.set_text("\n".join(part for part in lines if part))
            self._note.set_text("")
            self._grid.draw([], [])
            return
        self._error.set_text("")
        result = json.loads(answer.body)
        names = [one["name"] for one in result["columns"]]
        drawn = [numeric if is_numeric(one["type"]) else column for one in result["columns"]]
        columns = [draw(f"c{n}", name) for n, (draw, name) in enumerate(zip(drawn, names, strict=True))]
        places = [str(place) for place in range(len(names))]
        shown = [[row[name] for name in names] for row in result["rows"]]
        self._grid.draw(columns, [cells(places, dict(zip(places, row, strict=True)), n) for n, row in enumerate(shown)])
        more = ", and more" if answer.more else ""
        self._note.set_text(f"{number(len(shown))} rows{more} in {seconds(time.monotonic() - began)}")

    def draw(self, snapshot: Snapshot) -> None:
        """The box starts with a statement that runs, until the user writes another one."""
        if not self._has_example and snapshot.views:
            self._has_example = True
            if not self._box.value:
                self._box.set_value(example(snapshot.views.values()))

    def close(self) -> None:
        pass


def example(views: Iterable[ViewNow]) -> str:
    """A SELECT over a view: its newest windows, or its largest values. Views with windows in time come first."""
    view = min(views, key=lambda one: (not one.in_time, not one.numbers))
    names = [_quoted(name) for name in view.shown_columns if name not in ("window_end", "final")]
    order = [f"{name} DESC" for name in ("window_start", *map(_quoted, view.numbers[:1])) if name in names]
    text = f"SELECT {', '.join(names) or '*'}\nFROM {_quoted(view.name)}"
    return f"{text}\nORDER BY {', '.join(order)}\nLIMIT 10" if order else f"{text}\nLIMIT 10"


@lru_cache(maxsize=1024)
def _quoted(name: str) -> str:
    """A name as SQL takes it: in backticks, unless it reads as a plain name.

    >>> _quoted("tag"), _quoted("order"), _quoted("per cent")
    ('tag', '`order`', '`per cent`')
    """
    tokens = Spark().tokenize(f"{name} by") if name.isidentifier() else []  # ORDER BY is one token
    is_plain = [token.text for token in tokens] == [name, "by"] and tokens[0].token_type is TokenType.VAR
    return name if is_plain else f"`{name.replace('`', '``')}`"
