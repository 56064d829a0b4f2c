"""The answers: DuckDB's, computed once for an input, and how each other one is compared with it, row by row."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import cast

import duckdb
import polars as pl

from bench.peers.contender import HERE
from bench.peers.workloads import Workload
from penstock.store import Reader
from penstock.store.scan import scanning


class WrongAnswer(Exception):
    """An answer that differs from DuckDB's. The message shows the first differences."""


def expected(workload: Workload, folder: Path, table: Path) -> pl.DataFrame:
    """DuckDB's answer for an input."""
    query = (HERE / "duckdb" / f"{workload.query or workload.job}.sql").read_text().format(
        input=folder, table=table, queries=workload.queries
    )  # fmt: skip
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        return _typed(database.sql(query).pl(), workload)


def answer(output: Path, workload: Workload) -> pl.DataFrame:
    """What a job has left behind: files, a table `answer` of SQLite, or a view in a store of Penstock's.

    Files are lines of JSON, or CSV without a header.
    """
    names = list(workload.columns)
    folder, state = output / "answer", output / "state"
    if state.is_dir() and not folder.is_dir():
        return _typed(_of_views(state, workload), workload)
    if (output / "answer.db").exists():
        database = sqlite3.connect(output / "answer.db")
        try:
            rows = database.execute(f"SELECT {', '.join(names)} FROM answer").fetchall()
        finally:
            database.close()
        return _typed(pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None), workload)
    paths = (
        [path for path in folder.rglob("*") if _has_rows(path, folder)] if folder.is_dir() else [output / "answer.csv"]
    )
    if not any(path.exists() for path in paths):
        raise WrongAnswer("it left no answer")
    files, columns = [str(path) for path in paths], dict(workload.columns)
    is_json = paths[0].read_bytes()[:1] == b"{"
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        if is_json:
            frame = database.read_json(files, format="newline_delimited", columns=columns).pl()
        else:
            frame = database.read_csv(files, header=False, columns=columns).pl()
    return _typed(frame, workload)


def _of_views(state: Path, workload: Workload) -> pl.DataFrame:
    """The rows of Penstock's views. If there are several, each has the number of its query."""
    shown = {name: "window_start" if name == "start" else name for name in workload.columns if name != "query"}
    frames = []
    reader = Reader(state)
    try:
        with scanning(reader) as snapshot:
            for number, view in workload.views.items():
                rows = snapshot.scan(snapshot.views[view], list(shown.values()), []).read_all()
                frame = cast(pl.DataFrame, pl.from_arrow(rows)).rename({was: name for name, was in shown.items()})
                frames.append(frame.with_columns(query=pl.lit(number)) if workload.queries else frame)
    finally:
        reader.close()
    return pl.concat(frames)


def _has_rows(path: Path, folder: Path) -> bool:
    """Whether a file is one of an answer; hidden ones are not finished, or say which ones are."""
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return path.is_file() and path.stat().st_size > 0 and not hidden


def _typed(frame: pl.DataFrame, workload: Workload) -> pl.DataFrame:
    """Times as microseconds and numbers as integers, whatever they came as; a list is a row for each of its values."""
    lists = [name for name in workload.columns if isinstance(frame.schema[name], pl.List)]
    frame = frame.explode(lists) if lists else frame
    kinds: dict[str, pl.DataType | type[pl.DataType]] = {
        "VARCHAR": pl.String, "BIGINT": pl.Int64, "DOUBLE": pl.Float64, "TIMESTAMP": pl.Datetime("us"),
    }  # fmt: skip
    columns = []
    for name, kind in workload.columns.items():
        column = pl.col(name)
        if kind == "TIMESTAMP" and frame.schema[name] == pl.String:
            column = column.str.slice(0, 19).str.replace("T", " ").str.to_datetime("%Y-%m-%d %H:%M:%S")
        elif isinstance(frame.schema[name], pl.Datetime) and frame.schema[name].time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        columns.append(column.cast(kinds[kind]))
    return frame.select(columns)


def check(actual: pl.DataFrame, right: pl.DataFrame) -> None:
    """Raises WrongAnswer where rows are missing, too many, or others."""
    if actual.columns != right.columns:
        raise WrongAnswer(f"it has the columns {actual.columns}, not {right.columns}")
    if actual.height == right.height and actual.sort(actual.columns).equals(right.sort(right.columns)):
        return
    counted = [frame.group_by(frame.columns).len() for frame in (actual, right)]
    names = [*right.columns, "len"]
    extra, missing = (
        one.join(other, on=names, how="anti", nulls_equal=True) for one, other in (counted, reversed(counted))
    )
    if extra.is_empty() and missing.is_empty():
        return
    shown = [f"{what} {rows.sort(names).row(0)}" for what, rows in (("has", extra), ("lacks", missing)) if len(rows)]
    raise WrongAnswer(
        f"{len(extra)} rows of {len(actual)} are not in DuckDB's answer, {len(missing)} of its {len(right)} rows are "
        f"missing: it {' and '.join(shown)}"
    )
