"""A generation of a view, computed from the past beside the running one, brought up to now, and swapped in.

1. Between two commits: the past ends here, at commit C. What later commits hold for the view is put aside, on disk.
2. Spark reduces the past by the epoch's own code; to it no event is late. The kernel makes state of the deltas, part by
   part, in hidden tables.
3. What was put aside is merged in, in order, until little is left.
4. Between two commits: the rest is merged in, and one transaction swaps.

A process that dies before the swap leaves nothing behind but hidden tables, which the next start removes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import polars as pl

from penstock.history.batch.as_live import Decisions, LiveReading, before_end
from penstock.history.batch.reading import PART_ROWS, Reading
from penstock.history.events.past import Past
from penstock.history.events.pins import pinned
from penstock.kernel.exact import answered, widened
from penstock.kernel.fire import Time
from penstock.kernel.memory import Memory
from penstock.kernel.plan import END, START, Plan
from penstock.kernel.step import Change, step
from penstock.model.table import tables
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.runtime.commit.definitions import dumped
from penstock.runtime.commit.generations import SPOOL, GenerationStart
from penstock.runtime.commit.view_runtime import GenerationInput
from penstock.runtime.run import Run
from penstock.store.file import PastVersions
from penstock.store.generations import Difference, Origin, Scope
from penstock.store.tables import quoted

Kind: TypeAlias = Literal["batch", "as-live", "replay", "replace", "back-fill", "rollback", "audit", "apply"]
#: What a generation is made of: given how far everything is, each stream's past, and which windows it speaks about.
Pasts: TypeAlias = Callable[[GenerationStart], "Reach"]
#: With so few commits put aside, the rest is merged in while commits wait.
FEW: Final = 2
#: How many rounds may end with more left than that; then commits wait for more.
ROUNDS: Final = 50


@dataclass(frozen=True)
class Reach:
    """Each stream's past, in one piece or several, and the windows that it gives whole; None: all."""

    pasts: Mapping[str, Sequence[Past]]
    spans: tuple[tuple[Instant, Instant], ...] | None = None


@dataclass
class Progress:
    """How far a generation is; `share` is of the past that is read, from 0 to 1."""

    view: str
    kind: Kind
    phase: str = "waiting"  # reading, loading, catching up, swapping, done; of an audit: verifying, comparing
    share: float = 0.0
    rows: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome: rows of the past, the commit up to which it was read, and the commit that swapped."""

    view: str
    kind: Kind
    rows: int
    point: int
    commit: int | None
    difference: Difference | None = None


OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass
class _Asides:
    """What later commits hold, on disk: a commit's part is written by its thread and read by another."""

    folder: Path
    waiting: deque[tuple[Path | None, GenerationInput]] = field(default_factory=deque)
    written: int = 0

    def put(self, aside: GenerationInput) -> None:
        path = None
        if aside.deltas is not None:
            path = self.folder / f"aside-{self.written}.arrow"
            aside.deltas.write_ipc(path)
            self.written += 1
        self.waiting.append((path, replace(aside, deltas=None)))

    def take(self) -> GenerationInput:
        path, aside = self.waiting.popleft()
        if path is None:
            return aside
        deltas = pl.read_ipc(path.read_bytes())
        path.unlink()
        return replace(aside, deltas=deltas)


class Generation:
    """One run of it. `statement` is that of a shell which defines the view from here on.

    With `point` it decides as live did: up to that commit no event is late, after it those that were late then.
    About `part_rows` rows are held at a time.
    """

    def __init__(
        self, run: Run, name: str, view: View, pasts: Pasts, kind: Kind,
        *, on_progress: OnProgress | None = None, statement: str | None = None, point: int | None = None,
        part_rows: int = PART_ROWS,
    ) -> None:  # fmt: skip
        self.run_of, self.name, self._view, self._pasts, self.kind = run, name, view, pasts, kind
        self._on_progress, self._statement, self._point = on_progress or (lambda _: None), statement, point
        self._part_rows = part_rows
        self.progress = Progress(name, kind)
        self._joined: dict[str, int] = {}  # the versions of tables that the past is joined with

    def run(self, dry: int | None = None) -> Outcome:
        """Computes and swaps. `dry` only compares, and shows up to that many rows that would differ."""
        with self.computed() as generation, generation.between_commits():
            if dry is not None:
                return generation.compared(dry)
            generation.write()
            return generation.take_over()

    @contextmanager
    def computed(self) -> Iterator[ComputedGeneration]:
        """In here the generation is computed, and nearly caught up, but not visible yet."""
        folder = Path(tempfile.mkdtemp(prefix=SPOOL, dir=self.run_of.directory))
        asides = _Asides(folder)
        try:
            begun = self.run_of.generations.begin(self.name, self._view, asides.put)
            try:
                with pinned(self.run_of.store, f"{self.kind} of {self.name}"):
                    yield self._computed(begun, asides, folder)
            finally:
                self.run_of.generations.end(begun)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _computed(self, begun: GenerationStart, asides: _Asides, folder: Path) -> ComputedGeneration:
        reach = self._pasts(begun)
        reading = self._reading(begun, folder)
        self.report("reading", rows=_known(reach.pasts))
        reading.read(reach.pasts, self._read)
        scope = _scope(begun.plan, begun.watermark, reach)
        self.report("loading")
        for number, change in enumerate(self._states(begun, reading), 1):
            self.run_of.store.generations.load(begun.hidden, _scoped(begun.plan, change, scope), begun.watermark)
            self.report("loading", share=min(number / max(reading.count, 1), 1.0))
        self.report("catching up")
        computed = ComputedGeneration(self, begun, asides, reach, reading.rows)
        rounds = 0
        while len(asides.waiting) > FEW and rounds < ROUNDS:
            computed.merge(len(asides.waiting))
            rounds += 1
        return computed

    def origin(self, begun: GenerationStart) -> Origin:
        """Where the generation comes from."""
        point = begun.commit if self._point is None else self._point
        return Origin(self.kind, point, self._statement, dumped(self.run_of.directory, self.name, self._view))

    def past_of(self, begun: GenerationStart, scope: Scope) -> PastVersions | None:
        """What the commit remembers of the tables that the past was joined with, and how far that goes."""
        if not self._joined:
            return None
        return PastVersions(self.name, self._joined, begun.commit, scope.spans is None)

    def _expected(self) -> int | None:
        """How many windows the view has now, if they are those of the same definition."""
        old = self.run_of.views.get(self.name)
        if old is None or old.plan.written != self._view:
            return None
        sharded = self.run_of.store.sharded(self.name)
        if sharded is not None:
            return sharded.rows
        return int(self.run_of.store.query(f"SELECT count(*) FROM {quoted(self.name)}").item())

    def _reading(self, begun: GenerationStart, folder: Path) -> Reading:
        lowered = self.run_of.groups.lowered_alone(begun.hidden, self._view)
        snapshots = self.run_of.tables.snapshots
        self._joined = {name: snapshots[name].version for name in tables(self._view.input)}
        if self._point is None:
            plain = Reading(self.run_of.spark, begun.hidden, lowered, begun.now, folder, self._part_rows)
            plain.expected = self._expected()
            return plain
        reading = LiveReading(self.run_of.spark, begun.hidden, lowered, begun.now, folder, self._part_rows)
        reading.plan = replace(reading.plan, closed=begun.plan.closed)
        sources = [source.name for source in self._view.input.sources]
        reading.decisions = Decisions.of(self.run_of.store, self.name, sources, self._point, begun.commit)
        return reading

    def _states(self, begun: GenerationStart, reading: Reading) -> Iterator[Change]:
        """The state that the past gives: windows that the watermark has closed since are final, old keys are gone."""
        if isinstance(reading, LiveReading):
            yield from reading.states(begun.watermark, begun.now)
            return
        old = self.run_of.views.get(self.name)
        same = old is not None and old.plan.written == self._view
        forgotten = self.run_of.store.forgotten_before().get(self.name) if same else None
        mark, wide = before_end(begun.plan, begun.watermark, forgotten), widened(begun.plan)
        time = Time(BEGINNING, mark, begun.now, lambda _: mark)
        for deltas in reading.parts():
            yield answered(wide, begun.plan, step(wide, deltas, Memory(wide), time, panes=False))

    # progress

    def report(self, phase: str, share: float = 0.0, rows: int | None = None) -> None:
        """Reports the progress."""
        self.progress = replace(self.progress, phase=phase, share=share, rows=rows or self.progress.rows)
        self._on_progress(self.progress)

    def _read(self, done: int, total: int) -> None:
        if total:
            self.report("reading", share=min(done / total, 1.0))


class ComputedGeneration:
    """A generation that only waits to be swapped in. `run` holds several of them for one swap."""

    def __init__(
        self, generation: Generation, begun: GenerationStart, asides: _Asides, reach: Reach, rows: int
    ) -> None:
        self._generation, self._begun, self._asides = generation, begun, asides
        self._reach, self._rows = reach, rows
        self._run, self._commit = generation.run_of, 0

    @property
    def name(self) -> str:
        """The view."""
        return self._generation.name

    @property
    def is_unlike_any(self) -> bool:
        """Whether the run has no view of its name."""
        return self.name not in self._run.views

    def merge(self, count: int) -> None:
        """Takes up this number of commits that came after the past."""
        for _ in range(count):
            self._merge(self._asides.take())

    def _merge(self, aside: GenerationInput) -> None:
        plan, store = self._run.generations.pending(self._begun).view.plan, self._run.store
        time = Time(aside.before, aside.after, aside.now, lambda _: aside.after)
        deltas = [] if aside.deltas is None else [aside.deltas]
        change = step(plan, deltas, store.state(self._begun.hidden), time, panes=False)
        if self._reach.spans is not None:
            change = _within(plan, change, self._reach.spans)
        store.generations.load(self._begun.hidden, change, aside.after)

    @contextmanager
    def between_commits(self) -> Iterator[None]:
        """In here no epoch and no tick of the view's group commits, and the generation is up to now."""
        with self._run.generations.between_commits(self._begun):
            self.merge(len(self._asides.waiting))
            yield

    @property
    def _scope(self) -> Scope:
        watermark = self._run.generations.pending(self._begun).view.time.watermark
        return _scope(self._begun.plan, watermark, self._reach)

    def compared(self, rows: int) -> Outcome:
        """How it differs from the current one, with this number of rows."""
        difference = self._run.store.generations.compare(self.name, self._begun.hidden, self._scope, rows)
        return Outcome(self.name, self._generation.kind, self._rows, self._begun.commit, None, difference)

    def write(self) -> None:
        """Makes it the current one in the store. `take_over` must follow once that is committed."""
        self._generation.report("swapping")
        origin, scope = self._generation.origin(self._begun), self._scope
        past = self._generation.past_of(self._begun, scope)
        self._commit = self._run.generations.write_swap(self.name, self._begun, origin, scope, past)

    def take_over(self) -> Outcome:
        """The run goes on with it."""
        self._run.generations.take_over(self.name, self._begun)
        self._generation.report("done", share=1.0)
        return Outcome(self.name, self._generation.kind, self._rows, self._begun.commit, self._commit)


def _scoped(plan: Plan, change: Change, scope: Scope) -> Change:
    """The same of windows that the generation speaks about."""
    if scope.oldest is not None:
        change.closed = change.closed.filter(pl.col(END) >= scope.oldest)
    return change if scope.spans is None else _within(plan, change, scope.spans)


def _within(plan: Plan, change: Change, spans: tuple[tuple[Instant, Instant], ...]) -> Change:
    """The same of windows that meet one of the spans: others are not whole here."""
    meets = pl.any_horizontal(pl.lit(False), *((pl.col(START) < end) & (pl.col(END) > start) for start, end in spans))
    return replace(change, live=change.live.filter(meets), closed=change.closed.filter(meets))


def _scope(plan: Plan, watermark: Instant, reach: Reach) -> Scope:
    retention = plan.view.retention
    oldest = watermark - retention if retention is not None and watermark > BEGINNING else None
    return Scope(reach.spans, oldest)


def _known(pasts: Mapping[str, Sequence[Past]]) -> int | None:
    counts = [past.rows for several in pasts.values() for past in several]
    return None if None in counts else sum(count or 0 for count in counts)
