"""One commit as rows: the changed state, the panes to deliver, what was refused, and how far everything is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

import polars as pl

from penstock.kernel.keys import encoded
from penstock.kernel.reduce import closing_bound
from penstock.model.time import Instant
from penstock.state.ids import owner_of
from penstock.store.base import REFUSALS, REFUSED, Commit, Keep, StoreError
from penstock.store.block import flow_panes, view_panes
from penstock.store.connection import Connection
from penstock.store.dialect import marks
from penstock.store.figures import Figures, write_figures
from penstock.store.files import write_files, write_retried
from penstock.store.marks import trim_marks, write_made_marks, write_mark, write_ticks
from penstock.store.memory import remember
from penstock.store.operators import write_operators
from penstock.store.outbox import Panes, write_panes
from penstock.store.outbox import drop_panes as drop_panes
from penstock.store.outbox import trim_panes as trim_panes
from penstock.store.segments import expire_segments, list_segments, note_expired
from penstock.store.sharded_view import ShardedView
from penstock.store.state import SqlState, apply_stack
from penstock.store.tables import create_ids, ids_table, set_meta
from penstock.store.versions import trim_versions, write_past_versions, write_versions

#: A view's state in the store's tables, or in segments.
ViewState: TypeAlias = SqlState | ShardedView

_TIMES = {"view": pl.String(), "watermark": pl.Int64(), "closed": pl.Int64()}


def write(connection: Connection, record: Commit, states: Mapping[str, ViewState]) -> int:
    """Writes everything of a commit; the caller ends the transaction. The commit's number."""
    (last,) = connection.rows("SELECT coalesce(max(number), 0) FROM __commits").row(0)
    number = int(last) + 1
    for name, change in record.changes.items():
        in_tables(states[name]).apply(change)
    for stack, change in record.stacked:
        apply_stack(connection, stack, [in_tables(states[name]).layout for name in stack.names], change)
    for segments in record.segments.values():
        list_segments(connection, segments.added)
    for stream, ids in record.id_segments.items():
        list_segments(connection, ids.added)
        if ids.expired is not None:
            note_expired(connection, owner_of(stream), ids.expired)
    for name, before in record.expire.items():
        _expire(connection, states[name], before, record.now)
    panes = _deliver(connection, record, states, number)
    _refuse(connection, record, number)
    _remember_ids(connection, record)
    remember(connection, record.memory)
    _advance(connection, record, states, number)
    write_files(connection, record.files, number)
    if record.mark is not None and record.query is not None and record.epoch is not None:
        write_mark(connection, record.mark, number, record.query, record.epoch, record.now, record.read_through)
        write_versions(connection, record.mark.stream, record.versions, number)
        if record.figures is not None:
            write_figures(connection, record.mark.stream, record.figures, record.versions)
    write_operators(connection, record.operators, record.now)
    write_made_marks(connection, record.made, record.mark, number, record.now)
    write_ticks(connection, record.passed, number, record.now)
    if record.past is not None:
        write_past_versions(connection, record.past, number)
    for stream, places in record.retried.items():
        write_retried(connection, stream, places, number)
    _summarize(connection, record, number, panes)
    return number


def _summarize(connection: Connection, record: Commit, number: int, panes: int) -> None:
    """Lists the commit."""
    figures = record.figures or Figures()
    lateness, intake = figures.lateness, figures.intake
    own = [figures.rows, lateness.events, lateness.pairs, lateness.inputs, lateness.late_inputs]
    values = [
        number, record.kind, None if record.mark is None else record.mark.stream, record.query, record.epoch,
        record.offsets, record.now, panes, *([None] * len(own) if record.figures is None else own),
        intake.behind, intake.unit, intake.limit, intake.taken,
        json.dumps(dict(record.timings)), json.dumps(dict(record.details)),
    ]  # fmt: skip
    connection.run(f"INSERT INTO __commits VALUES ({marks(len(values))})", values)


def trim(connection: Connection, record: Commit, number: int, keep: Keep) -> None:
    """Forgets the oldest commits periodically, and the oldest refused rows when there are new ones."""
    if number == 1:
        set_meta(connection, "born", record.now)
    if number % keep.every == 0:
        connection.run("DELETE FROM __commits WHERE number <= ?1", [number - keep.commits])
        trim_marks(
            connection, number - keep.commits, [one.stream for one in (record.mark, *record.made) if one is not None]
        )
        trim_versions(connection, number - keep.commits)
    if any(frame.height for frame in record.refused.values()):
        connection.run("DELETE FROM __refused WHERE rowid <= (SELECT max(rowid) FROM __refused) - ?1", [keep.refused])


def closing_bounds(record: Commit, states: Mapping[str, ViewState]) -> dict[str, Instant]:
    """Up to where the windows of each view that took its step are final after a commit.

    Of a view that forgets keys: before which time a key must have been touched last to be forgotten.
    """
    bounds = {}
    for view, time in record.view_times.items():
        if view in states:
            plan = states[view].plan
            bound = plan.view.forgotten_before(time) if plan.forgets else closing_bound(plan, time)
            if bound is not None:
                bounds[view] = bound
    return bounds


def in_tables(state: ViewState) -> SqlState:
    """The state of a view that is in the store's own tables."""
    if not isinstance(state, SqlState):
        raise StoreError(f"the state of the view '{state.name}' is in segments")
    return state


def _expire(connection: Connection, state: ViewState, before: Instant, now: Instant) -> None:
    if isinstance(state, ShardedView):
        expire_segments(connection, state.name, before, now)
        return
    if not state.plan.view.windows.ends_in_event_time:
        raise StoreError(
            f"the windows of '{state.layout.name}' do not end in event time", hint="leave out its retention"
        )
    connection.run(f"DELETE FROM {state.layout.table} WHERE final = 1 AND __end < ?1", [before])


# panes


def _deliver(connection: Connection, record: Commit, states: Mapping[str, ViewState], number: int) -> int:
    """Puts the panes of the views that someone receives into the outbox; how many they are."""
    fired = {name: change.panes for name, change in record.changes.items()}
    fired |= {name: change.panes for name, change in record.segments.items()}
    for stack, change in record.stacked:
        fired |= stack.parted(change.panes)
    fired = {name: frame for name, frame in fired.items() if frame.height and _is_received(record, name)}
    panes: dict[str, Panes] = {name: view_panes(states[name].plan, frame) for name, frame in fired.items()}
    panes |= {
        name: change.filed
        for name, change in record.segments.items()
        if change.filed.files and _is_received(record, name)
    }
    panes |= {name: flow_panes(frame) for name, frame in record.rows.items()}
    return write_panes(connection, panes, number)


def _is_received(record: Commit, view: str) -> bool:
    return record.deliver is None or view in record.deliver


# rows that did not count, ids, time


def _refuse(connection: Connection, record: Commit, number: int) -> None:
    for kind, frame in record.refused.items():
        if kind not in REFUSALS:
            raise StoreError(f"unknown kind of refused rows '{kind}'", detail=f"there are: {', '.join(REFUSALS)}")
        missing = [pl.lit(None, of).alias(name) for name, of in REFUSED.items() if name not in frame.columns]
        rows = frame.with_columns(missing).select(
            pl.lit(number, pl.Int64).alias("commit"),
            pl.lit(kind).alias("kind"),
            *(pl.col(name).cast(of) for name, of in REFUSED.items()),
        )
        connection.put("__refused", rows, columns=rows.columns)


def _remember_ids(connection: Connection, record: Commit) -> None:
    for stream in record.new_ids.keys() | record.forget_ids.keys():
        for statement in create_ids(stream):
            connection.run(statement)
    for stream, ids in record.new_ids.items():
        rows = ids.select(encoded(ids.select("__id")).alias("id"), pl.col("__at").alias("at")).sort("id")
        conflict = "ON CONFLICT (id) DO UPDATE SET at = excluded.at"
        connection.put(ids_table(stream), rows, columns=rows.columns, conflict=conflict)
    for stream, before in record.forget_ids.items():
        connection.run(f"DELETE FROM {ids_table(stream)} WHERE at < ?1", [before])


def _advance(connection: Connection, record: Commit, states: Mapping[str, ViewState], number: int) -> None:
    if record.kind == "epoch":
        _progress(connection, record, number)
    closed = closing_bounds(record, states)
    rows = [(view, time, closed.get(view)) for view, time in record.view_times.items()]
    times = pl.DataFrame(rows, schema=_TIMES, orient="row")
    connection.change("__views", "watermark = ?2, closed = coalesce(?3, closed)", "name = ?1", times)
    for stream, snapshot in record.trackers.items():
        connection.run(
            "INSERT INTO __trackers VALUES (?1, ?2) ON CONFLICT (stream) DO UPDATE SET snapshot = excluded.snapshot",
            [stream, json.dumps(snapshot)],
        )
    for name, count in record.counters.items():
        connection.run(
            "INSERT INTO __counters VALUES (?1, ?2) "
            "ON CONFLICT (name) DO UPDATE SET value = __counters.value + excluded.value",
            [name, count],
        )


def _progress(connection: Connection, record: Commit, number: int) -> None:
    if record.query is None or record.epoch is None or record.offsets is None:
        raise StoreError(
            "an epoch's commit names its query, epoch and offsets",
            detail=f"it has {record.query!r}, {record.epoch!r}, {record.offsets!r}",
        )
    done = connection.rows("SELECT epoch FROM __progress WHERE query = ?1", [record.query])
    if done.height and done.item() >= record.epoch:
        raise StoreError(
            f"epoch {record.epoch} of query '{record.query}' comes after epoch {done.item()}, which is committed",
            hint="skip epochs that progress() says are committed",
        )
    connection.run(
        "INSERT INTO __progress VALUES (?1, ?2, ?3, ?4) ON CONFLICT (query) DO UPDATE SET "
        '"commit" = excluded."commit", epoch = excluded.epoch, offsets = excluded.offsets',
        [record.query, number, record.epoch, record.offsets],
    )
