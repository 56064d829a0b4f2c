"""What the components of topologies did so far, from the counters of their streams."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.table import Table

from penstock.cli import figures as fig


def by_component(counters: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The counters of a topology's stream by its components.

    >>> by_component({"events": 9, "split:executed": 3, "split:microseconds": 60})
    {'split': {'executed': 3, 'microseconds': 60}}
    """
    by_name: dict[str, dict[str, int]] = {}
    for name, count in counters.items():
        component, separator, what = name.partition(":")
        if separator:
            by_name.setdefault(component, {})[what] = count
    return by_name


def components_table(figures: fig.Figures) -> Table:
    """A row for each component of each topology: what it did, and how long its code takes for a tuple."""
    table = Table("topology", "component", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    counted = ("executed", "emitted", "acked", "failed")
    for title in (*counted, "each"):
        table.add_column(title, justify="right")
    for stream, counters in sorted(figures.counters.items()):
        for component, did in by_component(counters).items():
            each = f"{did.get('microseconds', 0) / did['executed']:.1f} µs" if did.get("executed") else "–"
            table.add_row(stream, component, *(fig.number(did.get(what, 0)) for what in counted), each)
    return table
