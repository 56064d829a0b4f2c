"""What a store is: where an app's state lives between commits, and how one commit is written.

Only the kernel merges: a store hands out rows and replaces rows, and never adds partial states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import polars as pl

from penstock.errors import DefinitionError, PenstockError
from penstock.model.time import Instant
from penstock.store.arrivals import Ages, DeliveryTime
from penstock.store.block import Block, Head
from penstock.store.entry import Entry, Part
from penstock.store.figures import Figures
from penstock.store.file import File, Listing, PastVersions, Tombstone
from penstock.store.marks import Mark

if TYPE_CHECKING:
    from penstock.kernel.plan import Plan
    from penstock.kernel.stack import Stack, StoredState
    from penstock.kernel.step import Change
    from penstock.state.ids import IdChange
    from penstock.state.operator_state import OperatorChange
    from penstock.state.segment import Segment
    from penstock.state.step import SegmentChange
    from penstock.store.known_ids import KnownIds
    from penstock.store.operators import Operators
    from penstock.store.sharded_view import ShardedView

Kind: TypeAlias = Literal["epoch", "tick", "swap"]
#: The kinds of refused rows.
REFUSALS: Final = ("late", "duplicate", "dead")
#: The counter of events that were late for at least one view; `late` counts each view that an event was late for.
LATE_EVENTS: Final = "late_events"

#: The counter of files that could not be read. Each is one dead letter.
DEAD_FILES: Final = "dead_files"
#: The columns of refused rows. `view` is null where the stream itself refused; `row` is the raw row as JSON; `missed`
#: of its `windows` had closed (frames may leave these two out).
REFUSED: Final[dict[str, pl.DataType]] = {
    "stream": pl.String(), "view": pl.String(), "partition": pl.Int32(), "offset": pl.Int64(), "at": pl.Int64(),
    "reason": pl.String(), "row": pl.String(), "missed": pl.Int64(), "windows": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True)
class Keep:
    """How much of what only grows is kept: the newest commits, and the newest refused rows.

    Old commits are forgotten once in `every` commits.
    """

    commits: int = 100_000
    refused: int = 1_000_000
    every: int = 100

    def __post_init__(self) -> None:
        if self.commits < 1 or self.refused < 0 or self.every < 1:
            raise DefinitionError(f"cannot keep {self.commits} commits and {self.refused} refused rows")


class StoreError(PenstockError):
    """The store cannot be read or written, or holds something else than the app expects."""


class Gone(StoreError):
    """The file of a store is no longer where it was."""


@dataclass(frozen=True)
class Progress:
    """The last epoch of a query (one checkpoint of Spark's) that the store holds."""

    commit: int
    query: str
    epoch: int
    offsets: str


@dataclass(frozen=True)
class Summary:
    """A commit as the store remembers it."""

    number: int
    kind: Kind
    query: str | None
    epoch: int | None
    offsets: str | None
    now: Instant
    panes: int
    timings: str
    stream: str | None


@dataclass(frozen=True)
class Commit:
    """All that one commit writes.

    `changes` are those of single views, `stacked` those of views that took their steps together, `segments` those of
    views whose state is in segments. `id_segments` are new ids, by stream, where they are in segments.
    `rows` are those of flows without state, by the flow's name, in order: their columns as `c:name`, and `__sign`.
    `deliver` names the views whose panes go to the outbox (None: all). `expire` removes the final rows of a view whose
    windows ended before an instant. `counters` are added to; everything else replaces what was there.
    `files` are those that its tasks have written for the history. `retried` are places of dead letters that it
    retries, by stream. `memory` is what streams that are made from others remember from here on (`store.memory`).
    `versions` are those of the tables that its rows were joined with, `past` those of a run from the past that it
    swaps in.
    `operators` is what it does to the state of joins and processors, by the stream that each gives; `made` are the
    marks of such streams that got rows.
    `mark` and `figures` are those of an epoch; a derived stream's has read commits `read_through` one. `passed` tells
    derived streams up to where time has passed. `timings` are seconds, `details` what people may want to know.
    """

    kind: Kind
    now: Instant
    query: str | None = None
    epoch: int | None = None
    offsets: str | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)
    segments: Mapping[str, SegmentChange] = field(default_factory=dict, kw_only=True)
    rows: Mapping[str, pl.DataFrame] = field(default_factory=dict, kw_only=True)
    view_times: Mapping[str, Instant] = field(default_factory=dict)
    trackers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refused: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    new_ids: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    forget_ids: Mapping[str, Instant] = field(default_factory=dict)
    id_segments: Mapping[str, IdChange] = field(default_factory=dict, kw_only=True)
    operators: Mapping[str, OperatorChange] = field(default_factory=dict, kw_only=True)
    made: Sequence[Mark] = field(default=(), kw_only=True)
    counters: Mapping[str, int] = field(default_factory=dict)
    expire: Mapping[str, Instant] = field(default_factory=dict)
    deliver: Collection[str] | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    stacked: Sequence[tuple[Stack, Change]] = ()
    files: Sequence[File] = ()
    mark: Mark | None = None
    retried: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    memory: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    past: PastVersions | None = None
    figures: Figures | None = None
    read_through: int | None = None
    passed: Mapping[str, Instant] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


class Store(ABC):
    """The state of one app. One process writes, after `lock`; everything that is read was committed."""

    token: int = 0
    known_ids: KnownIds
    operators: Operators

    @abstractmethod
    def lock(self) -> int:
        """Makes this process the only writer; the token tells it apart from earlier ones."""

    @abstractmethod
    def check_owner(self) -> None:
        """Refuses to go on where another process has taken over."""

    @abstractmethod
    def prepare(self, views: Mapping[str, Plan], statements: Mapping[str, str] | None = None) -> None:
        """Makes the tables that are missing, and checks that those that exist hold the state of these definitions.

        `statements` are remembered in the same transaction: those of views that a shell has created.
        """

    @abstractmethod
    def drop(self, view: str) -> None:
        """Removes a view with its state."""

    @abstractmethod
    def note(self, kind: Part, name: str, statement: str | None) -> None:
        """Remembers what a statement of a shell has made; without one it is the app's own."""

    @abstractmethod
    def note_rest(self, view: str, rests: bool) -> None:
        """Remembers that a view takes no events from here on, or that it does again."""

    @abstractmethod
    def forget_sink(self, sink: str, flow: str | None = None) -> None:
        """Forgets a sink and how far it was; with the last sink of a flow without state, also its rows."""

    @abstractmethod
    def forget_stream(self, stream: str) -> None:
        """Forgets how far a stream was. Until `forgotten` its name is remembered, for what lies elsewhere."""

    @abstractmethod
    def forgotten(self, stream: str) -> None:
        """All that a forgotten stream had is gone."""

    @abstractmethod
    def catalog(self) -> list[Entry]:
        """What the app is made of, in the order in which it was made."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """The streams that are forgotten in the store only."""

    @abstractmethod
    def index(self, view: str, *columns: str) -> None:
        """Adds an index, so that lookups by these columns of a view are fast."""

    @property
    @abstractmethod
    def segments_at(self) -> str:
        """The folder of segments."""

    @abstractmethod
    def state(self, view: str) -> StoredState:
        """A view's open windows, for the kernel."""

    @property
    def moves_by_size(self) -> bool:
        """Whether views move into segments when they are large. Else only those whose users ask for it."""
        return True

    @abstractmethod
    def count_open(self, view: str, most: int) -> int:
        """How many open windows a view in the store's own tables has, counted up to `most`."""

    @abstractmethod
    def shard(self, view: str, shards: int) -> None:
        """Moves the state of a view into segments, or cuts it into another number of shards."""

    @abstractmethod
    def sharded(self, view: str) -> ShardedView | None:
        """A view whose state is in segments; None if it is in the store's own tables."""

    @abstractmethod
    def replace_segments(self, owner: str, old: Collection[Segment], new: Sequence[Segment], now: Instant) -> bool:
        """Lists segments in the place of others; false if those are not all listed any more."""

    @abstractmethod
    def commit(self, record: Commit) -> int:
        """Writes a commit, whole or not at all; its number (1, 2, 3 … without gaps)."""

    @abstractmethod
    def ids(self, stream: str, candidates: pl.DataFrame) -> pl.DataFrame:
        """Which of these ids (column `__id`) are known: `__id`, `__at`."""

    @abstractmethod
    def memory(self, stream: str, keys: pl.DataFrame | None = None, *, part: str | None = None) -> pl.DataFrame:
        """What a stream that is made from others remembers: of these parts and keys, of a part, or all of it."""

    @abstractmethod
    def delivered(self, positions: Mapping[str, int], deliveries: Collection[DeliveryTime] = ()) -> None:
        """These sinks have all panes up to these ids; `deliveries` are those of the commits that had some for them."""

    @abstractmethod
    def ages_between(self, streams: Collection[str], after: int, through: int, now: Instant) -> Ages:
        """The ages, now, of the events that some streams had in the commits after one, up to another."""

    @abstractmethod
    def trim_outbox(self, through: int) -> int:
        """Removes the blocks of panes that end at this id or before; how many panes they had."""

    @abstractmethod
    def keep_history(self, streams: Mapping[str, tuple[str, str]], location: str | None) -> None:
        """Remembers what the history keeps of each stream from here on, with its schema, and where it lies.

        Without a location that is beside the store.
        """

    @abstractmethod
    def listing(self) -> Listing:
        """The files of the history and what is known of them, at one moment."""

    @abstractmethod
    def swap_files(self, old: Collection[str], new: Sequence[File], now: Instant) -> None:
        """Lists files of the history in the place of others, which hold the same rows except for erased ones."""

    @abstractmethod
    def expire_files(self, stream: str, old: Collection[str], now: Instant) -> None:
        """Takes files off the list: the stream's history begins after them."""

    @abstractmethod
    def note_erased(self, paths: Collection[str], tombstone: int) -> None:
        """The tombstones up to this id have been applied to these files."""

    @abstractmethod
    def removed_files(self, before: Instant, needed_from: int = 1 << 62) -> list[File]:
        """The files that were taken off the list before an instant, and before the commit `needed_from`."""

    @abstractmethod
    def forget_files(self, paths: Collection[str]) -> None:
        """Files that were taken off the list are gone."""

    @abstractmethod
    def erase(self, stream: str, condition: str, reason: str | None, now: Instant) -> Tombstone:
        """Appends a tombstone: rows of a stream so far, for which a condition holds, are gone."""

    @abstractmethod
    def erase_refused(self, rows: Collection[int]) -> None:
        """Forgets the text of refused rows, by their rowid."""

    @abstractmethod
    def views(self) -> dict[str, str]:
        """The definition of each view, as text."""

    @abstractmethod
    def progress(self, query: str) -> Progress | None:
        """The last epoch of a query that was committed."""

    @abstractmethod
    def last(self) -> Summary | None:
        """The newest commit."""

    @abstractmethod
    def last_mark(self, reader: str, sources: Collection[str]) -> Instant:
        """Up to where time had passed for a derived stream when the last commit told it."""

    @abstractmethod
    def trackers(self) -> dict[str, dict[str, Any]]:
        """What each stream's watermark tracker has saved."""

    @abstractmethod
    def view_times(self) -> dict[str, Instant]:
        """Each view's watermark, where it has one."""

    @abstractmethod
    def closed(self) -> dict[str, Instant]:
        """Up to where each view's windows were closed when it allowed less lateness than now, where it did."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """The counters, by name."""

    @abstractmethod
    def heads(self, view: str, after: int, limit: int) -> list[Head]:
        """Which blocks of a view have panes after an id, in order, at most `limit`."""

    @abstractmethod
    def blocks(self, view: str, after: int, limit: int) -> list[Block]:
        """The blocks of a view that have panes after an id, in order, at most `limit`."""

    @abstractmethod
    def new_blocks(self, views: Sequence[str], after: int, limit: int) -> list[tuple[str, Block]]:
        """The blocks of these views that end after an id, in order, at most `limit`."""

    @abstractmethod
    def newest_blocks(self, after: int) -> dict[str, int]:
        """By view the id of its newest pane, of views with blocks that end after an id."""

    @abstractmethod
    def position(self, sink: str) -> int:
        """The id of the last pane that a sink has; 0 before the first."""

    @abstractmethod
    def query(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The answer to a question in the store's SQL. It sees what was committed, and cannot write."""

    @abstractmethod
    def close(self) -> None:
        """Gives the lock back."""
