"""Apps to look at, with events that are made up or replayed. `penstock demo` runs them."""

from penstock.dev.demos import flights, repair, trending

#: The demos by name; each module has `app(…)`.
DEMOS = {"trending": trending, "flights": flights, "repair": repair}

__all__ = ["DEMOS"]
