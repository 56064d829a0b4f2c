"""The state of joins, processors and patterns, as the store lists it: segments, and how far each operator is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.errors import DefinitionError
from penstock.kernel.operators.base import StateKind
from penstock.model.time import BEGINNING, Instant
from penstock.state.operator_state import OperatorChange, ShardedOperator, owner_of
from penstock.state.segment import Segment
from penstock.store.connection import Connection
from penstock.store.segments import add_sharding, list_segments, note_expired, remove_sharding, segments_of

if TYPE_CHECKING:
    from penstock.store.view_states import Access

#: `given`: how many rows the operator has given out. `mark`: the watermark of its input. `replayed`: how much of the
#: past it has read.
OPERATOR_TABLES: Final = (
    """CREATE TABLE __operators (stream TEXT PRIMARY KEY, definition TEXT NOT NULL, given INTEGER NOT NULL,
       mark INTEGER NOT NULL, replayed INTEGER NOT NULL) WITHOUT ROWID""",
)
_SHARDS: Final = 16


class Operators:
    """The operators of an app, by the stream that each gives."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[str, ShardedOperator] = {}
        self._kinds: dict[str, Mapping[str, StateKind]] = {}

    def prepare(self, stream: str, definition: str, kinds: Mapping[str, StateKind]) -> ShardedOperator:
        """Takes up an operator. One that was defined otherwise is refused: its state would not fit."""
        with self._access.exclusive():
            with self._access.transaction() as connection:
                sql = "SELECT definition, given, mark, replayed FROM __operators WHERE stream = ?1"
                rows = connection.rows(sql, [stream])
                if not rows.height:
                    connection.run("INSERT INTO __operators VALUES (?1, ?2, 0, ?3, 0)", [stream, definition, BEGINNING])
                    add_sharding(connection, owner_of(stream), _SHARDS)
                    state = ShardedOperator(stream, self._access.root, _SHARDS)
                else:
                    was, rows_given, mark, replayed = rows.row(0)
                    if was != definition:
                        raise DefinitionError(
                            f"'{stream}' had another definition, and its state does not fit the new one",
                            detail=f"it was: {was}; it is: {definition}",
                            hint="give it another name: it then begins with what the history has; or take back the "
                            f'change; or drop it: penstock sql -c "DROP STREAM {stream}"',
                        )
                    segments = segments_of(connection, owner_of(stream))
                    state = ShardedOperator(stream, self._access.root, _SHARDS, segments, mark, rows_given, replayed)
            self._known[stream], self._kinds[stream] = state, kinds
        return state

    def moment(self) -> tuple[dict[str, ShardedOperator], dict[str, Mapping[str, StateKind]]]:
        """What is known now, to go back to."""
        return dict(self._known), dict(self._kinds)

    def go_back(self, moment: tuple[dict[str, ShardedOperator], dict[str, Mapping[str, StateKind]]]) -> None:
        """A transaction has failed: what was known before it is known again."""
        self._known, self._kinds = moment

    def kinds(self, stream: str) -> Mapping[str, StateKind]:
        """The kinds of state that an operator keeps."""
        return self._kinds[stream]

    def of(self, stream: str) -> ShardedOperator:
        """The state of an operator, as the last commit left it."""
        return self._known[stream]

    @property
    def streams(self) -> list[str]:
        """The streams that operators give."""
        with self._access.exclusive():
            return sorted(self._known)

    def forget(self, connection: Connection, stream: str) -> None:
        """A stream is gone, in the transaction of the caller."""
        (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
        remove_sharding(connection, owner_of(stream), now)
        connection.run("DELETE FROM __operators WHERE stream = ?1", [stream])
        self._known.pop(stream, None)

    def replaced(self, owner: str, old: Collection[Segment], new: Sequence[Segment]) -> None:
        """The store lists other segments of an operator."""
        for stream, state in self._known.items():
            if owner_of(stream) == owner:
                self._known[stream] = state.changed(new, tuple(old))

    def committed(self, changes: Mapping[str, OperatorChange]) -> None:
        """A commit is written."""
        for stream, change in changes.items():
            state = self._known[stream]
            over = tuple(one for one in state.segments if is_over(one, state.expired))
            state = state.changed(change.added, over)
            rows_given, expired = state.rows_given + change.rows, max(state.expired, change.mark)
            self._known[stream] = replace(state, rows_given=rows_given, expired=expired, replayed=change.replayed)


def write_operators(connection: Connection, changes: Mapping[str, OperatorChange], now: Instant) -> None:
    """Writes what a commit does to operators, in its transaction. Segments whose rows are all over go."""
    for stream, change in changes.items():
        owner = owner_of(stream)
        (mark,) = connection.rows("SELECT mark FROM __operators WHERE stream = ?1", [stream]).row(0)
        connection.run(
            "UPDATE __segments SET removed = ?3 WHERE owner = ?1 AND removed IS NULL AND kind IN ('left', 'right') "
            "AND last_end <= ?2",
            [owner, mark, now],
        )
        list_segments(connection, change.added)
        note_expired(connection, owner, change.mark)
        connection.run(
            "UPDATE __operators SET given = given + ?2, mark = ?3, replayed = ?4 WHERE stream = ?1",
            [stream, change.rows, change.mark, change.replayed],
        )


def is_over(segment: Segment, mark: Instant) -> bool:
    """Whether all rows of a segment have ended by a watermark."""
    return segment.kind in ("left", "right") and segment.last_end <= mark
