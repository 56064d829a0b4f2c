"""Tables of an app: read from files or a database, or the rows of one of its views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from penstock.errors import DefinitionError
from penstock.model.table import AT_START, ON_CHANGE, Table, table
from penstock.model.types import Schema, SchemaLike
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import CountBased, Global
from penstock.runtime.tables.read import ViewRows
from penstock.sources import Files, Source
from penstock.sources.database import Database


def source_table(
    name: str,
    source: Source | Database,
    *,
    schema: SchemaLike,
    key: str | Sequence[str],
    reload: str | timedelta = AT_START,
    valid_from: str | None = None,
    valid_to: str | None = None,
    broadcast: bool | None = None,
) -> Table:
    """A table of this app, `penstock.table` with a source: `ps.files(…)` or `ps.database(…)`."""
    if not isinstance(source, (Files, Database)):
        raise DefinitionError(
            f"a table cannot be read from {source!r}",
            hint="read ps.files('folder', format='parquet') or ps.database('postgresql://…', 'SELECT …')",
        )
    return table(
        name, source, schema=schema, key=key, reload=reload, valid_from=valid_from, valid_to=valid_to,
        broadcast=broadcast,
    )  # fmt: skip


def view_table(name: str, view_name: str, view: View, reload: str | timedelta) -> Table:
    """The rows of a view as a table. Where it has windows, its rows are valid in theirs."""
    keys = [(key, view.bound(text).type or "string") for key, text in view.keys]
    if not keys:
        raise DefinitionError(f"the view '{view_name}' has no key to be looked up by", hint="group it by a column")
    if isinstance(view.windows, CountBased):
        raise DefinitionError(f"the windows of the view '{view_name}' are not spans of time", hint="use another window")
    timed = not isinstance(view.windows, Global)
    windows = [(bound, "timestamp") for bound in WINDOW_COLUMNS] if timed else []
    schema = Schema((*keys, *windows, *view.value_types.items()))
    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in schema.names)
    return table(
        name, ViewRows(view_name, f'SELECT {columns} FROM "{view_name}"'), schema=schema,
        key=[key for key, _ in keys], reload=reload,
        valid_from=WINDOW_COLUMNS[0] if timed else None, valid_to=WINDOW_COLUMNS[1] if timed else None,
    )  # fmt: skip


def check_reload(table: Table) -> None:
    """Refuses a rule that nobody could follow."""
    if table.reload == ON_CHANGE and not (isinstance(table.source, Files) and "://" not in table.source.path):
        raise DefinitionError(
            f"the table '{table.name}' is read on change, which only local files show",
            hint="set reload='10 minutes': what has not changed makes no version",
        )
