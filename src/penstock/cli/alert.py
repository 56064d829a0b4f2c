"""The command `alert list`: which alerts fire, from the app's directory, whether it runs or not."""

from __future__ import annotations

import json
from typing import Annotated, Any

import polars as pl
import typer

from penstock.cli.answers import Format, Printer
from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.cli.view_rows import ask_views
from penstock.dataflow.graph import GRAPH, AlertNode, graph_from_json
from penstock.model.alert_processor import BOUNDS, FIRING
from penstock.store import Reader
from penstock.store.tables import quoted

alert = typer.Typer(
    name="alert", help="List the alerts of an app, and the keys for which they fire.", no_args_is_help=True
)
_COLUMNS = ("alert", "key", "state", "since", "changed_at", "values")
_OWN = ("state", "since", "changed_at", *BOUNDS, "window_start", "window_end", "final")


@alert.callback()
def alerts() -> None:
    """List the alerts of an app, and the keys for which they fire."""


@alert.command("list")
def list_alerts(
    all: Annotated[bool, typer.Option("--all", help="Keys whose alert is resolved, too.")] = False,
    directory: Directory = DIRECTORY,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    debug: Debug = False,
) -> None:
    """List the keys for which alerts fire, with since when and the values with which they began."""
    with errors_shown(debug):
        reader = Reader(directory)
        reader.check()
        graphs = reader.query(GRAPH)["statement"]
        known = graph_from_json(graphs[0]).alerts if len(graphs) else []
        if not known and format is Format.table:
            output().print("the app has no alerts; add one: app.alert(view, when=…)", markup=False)
            return
        rows = [row for one in known for row in _rows(reader, one, all)]
        frame = pl.DataFrame(rows, schema=dict.fromkeys(_COLUMNS, pl.String()), orient="row")
        if not rows and format is Format.table:
            output().print(f"none of {len(known)} alerts fires: {', '.join(one.name for one in known)}", markup=False)
        else:
            Printer(output(), format).frame(frame)


def _rows(reader: Reader, one: AlertNode, with_resolved: bool) -> list[tuple[Any, ...]]:
    """The keys of an alert, those that fire first."""
    if one.name not in reader.views():
        return []
    where = "" if with_resolved else f" WHERE state = '{FIRING}'"
    order = f"CASE WHEN state = '{FIRING}' THEN 0 ELSE 1 END, changed_at DESC"
    frame = ask_views(reader, f"SELECT * FROM {quoted(one.name)}{where} ORDER BY {order}")
    keys = frame.columns[: frame.columns.index("window_start")]
    rows = []
    for row in frame.iter_rows(named=True):
        key = " · ".join("null" if row[name] is None else str(row[name]) for name in keys) or "all"
        values = {name: value for name, value in row.items() if name not in (*keys, *_OWN) and value is not None}
        shown = json.dumps(values, ensure_ascii=False, default=str)
        rows.append((one.name, key, row["state"], row["since"], row["changed_at"], shown))
    return rows
