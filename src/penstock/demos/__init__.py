"""Apps to look at, which make up their own events. `penstock demo` runs them."""

from penstock.demos import trending

#: The demos by name; each module has `app()`.
DEMOS = {"trending": trending}

__all__ = ["DEMOS"]
