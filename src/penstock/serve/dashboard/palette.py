"""Colours by name that stay: a name keeps the colour it got first, whatever comes and goes beside it.

>>> palette = Palette()
>>> palette.learn(["clicks", "orders"])
>>> before = palette.color("orders")
>>> palette.learn(["alerts", "clicks", "orders"])
>>> palette.color("orders") == before, palette.color("alerts") in (before, palette.color("clicks"))
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.serve.dashboard.style import COLORS


class Palette:
    """Colours in the order in which names come; after the last one they repeat. It forgets all where names are many."""

    def __init__(self, most: int = 1_000) -> None:
        self._places: dict[str, int] = {}
        self._most = most

    def learn(self, names: Iterable[str]) -> None:
        """Gives a colour to each name that has none."""
        for name in names:
            self.color(name)

    def color(self, name: str) -> str:
        """The colour of a name."""
        if name not in self._places and len(self._places) >= self._most:
            self._places.clear()
        return COLORS[self._places.setdefault(name, len(self._places)) % len(COLORS)]
