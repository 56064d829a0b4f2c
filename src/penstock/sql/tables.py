"""From CREATE TABLE to the table that it means, and back."""

from __future__ import annotations

from penstock.model.table import AT_START, Table, table
from penstock.sources import Files, files
from penstock.sources.database import Database, database
from penstock.sql.errors import Source
from penstock.sql.options import Options
from penstock.sql.show_sources import show_log
from penstock.sql.statements import CreateTable, Origin
from penstock.sql.streams import schema_of
from penstock.sql.words import only_python, quoted

_RULES = ("reload", "valid_from", "valid_to", "broadcast")
_FILES = ("format", "header", "delimiter")


def table_of(statement: CreateTable) -> Table:
    """The table that a statement means."""
    source = statement.source
    if not statement.columns:
        raise source.error(
            f"the table '{statement.name.text}' has no columns", statement.name,
            hint=f"write CREATE TABLE {statement.name.text} (id BIGINT, …) FROM …",
        )  # fmt: skip
    options = Options(source, statement.options)
    rules = options.take(*_RULES)
    key = options.take("key").get("key")
    if key is None:
        raise source.error(
            f"the table '{statement.name.text}' has no key", statement.name, hint="write WITH (key = 'a column')"
        )
    origin = None if statement.origin is None else _origin(source, statement.origin, options)
    options.nothing_left("a table")
    with options.blamed(statement.name):
        keys = [name.strip() for name in str(key).split(",")]
        return table(statement.name.text, origin, schema=schema_of(statement), key=keys, **rules)


def _origin(source: Source, origin: Origin, options: Options) -> Files | Database:
    assert origin.address is not None
    with options.blamed(origin.address):
        if origin.kind.text.upper() == "FILES":
            return files(origin.address.text, **options.take(*_FILES))
        place, query = options.place("query"), options.take("query").get("query")
        if query is None:
            raise source.error(
                "a table from a database needs a query for its rows",
                place or origin.kind,
                hint="WITH (query = 'SELECT …')",
            )
        return database(origin.address.text, query)


def show_table(table: Table) -> str:
    """The statement that makes a table."""
    columns = ",\n  ".join(f"{name} {kind.upper()}" for name, kind in table.schema)
    options = [f"key = {quoted(', '.join(table.key))}"]
    if isinstance(table.source, Database):
        origin = f" FROM DATABASE {quoted(table.source.url)}"
        options.append(f"query = {quoted(table.source.query)}")
    elif isinstance(table.source, Files):
        source_text, more = show_log(table.source)
        origin, options = f" {source_text}", [*options, *more]
    elif table.source is None:
        origin = ""
    else:
        raise only_python(table.source)
    if table.reload != AT_START:
        options.append(f"reload = {quoted(table.shown_reload)}")
    options += [f"{what} = {quoted(text)}" for what in ("valid_from", "valid_to") if (text := getattr(table, what))]
    if table.broadcast is not None:
        options.append(f"broadcast = {str(table.broadcast).lower()}")
    return f"CREATE TABLE {table.name} (\n  {columns}\n){origin} WITH ({', '.join(options)})"
