"""A view of a running app, as frames and as a table in a notebook: `run.view("by_page").to_polars()`."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.errors import PenstockError
from penstock.html_table import html_table

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Parameters: TypeAlias = Mapping[str, str | int | float | bool | None] | Sequence[str | int | float | bool | None]
#: How many rows a notebook shows.
SHOWN: Final = 20


class RunView:
    """A view by its name. Each call reads all its rows, of the newest commit."""

    def __init__(self, name: str, ask: Callable[[str], pa.Table]) -> None:
        self.name, self._ask = name, ask

    def to_arrow(self) -> pa.Table:
        """All rows as a table of Arrow."""
        return self._ask(f"SELECT * FROM {self._quoted}")

    def to_polars(self) -> pl.DataFrame:
        """All rows as a frame of Polars."""
        return polars_frame(self.to_arrow())

    def to_pandas(self) -> Any:
        """All rows as a frame of pandas."""
        if find_spec("pandas") is None:
            raise PenstockError("to_pandas needs pandas", hint="pip install pandas, or use to_polars()")
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """The newest rows."""
        newest = self._ask(f"SELECT * FROM {self._quoted} ORDER BY window_start DESC NULLS LAST LIMIT {SHOWN + 1}")
        rows = [list(row.values()) for row in newest.to_pylist()]
        more = f" · its newest {SHOWN} rows" if len(rows) > SHOWN else ""
        return html_table(newest.column_names, rows[:SHOWN], f"{self.name}{more}")

    def __repr__(self) -> str:
        return f"run.view({self.name!r})"

    @property
    def _quoted(self) -> str:
        return "`" + self.name.replace("`", "``") + "`"


def run_html(caption: str, columns: Mapping[str, Sequence[str]], url: str | None) -> str:
    """A run in a notebook: the columns of its streams and views, and a link to its dashboard."""
    link = "" if url is None else f'<p><a href="{html.escape(url)}">{html.escape(url)}</a></p>'
    return html_table(("", "columns"), [(what, ", ".join(names)) for what, names in columns.items()], caption) + link


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """A table of Arrow as a frame of Polars."""
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
