"""Generations of a store's views: those in the making, and how one is swapped in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.kernel.merge import one_row
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import closing_bound
from penstock.kernel.step import Change
from penstock.model.time import BEGINNING, Instant
from penstock.store import generations, segment_differences, signed
from penstock.store.base import Commit, Keep
from penstock.store.connection import Connection
from penstock.store.generations import Difference, Origin, Scope
from penstock.store.reader import Reader
from penstock.store.segment_generation import GenerationFiles
from penstock.store.segment_swap import SegmentSwap
from penstock.store.segments import add_sharding, remove_sharding, replace_segments
from penstock.store.sharded_view import moved_rows
from penstock.store.signed import Signer
from penstock.store.state import put
from penstock.store.tables import Layout, drop_view
from penstock.store.view_states import Access, ShardedView, ViewStates
from penstock.store.write import closing_bounds, trim, write


class ViewGenerations:
    """The generations of the views that a store has. `keep` is what commits leave of what only grows."""

    def __init__(self, access: Access, views: ViewStates, reader: Reader, keep: Keep) -> None:
        self._access, self._views, self._reader, self._keep = access, views, reader, keep
        self._files: dict[str, GenerationFiles] = {}  # of generations in segments, by their hidden names

    def hidden(self, view: str) -> str:
        """The name of the next generation of a view while it is in the making."""
        generations_made = self._reader.generations_of(view)
        return generations.hidden_name(view, generations_made[-1].number + 1 if generations_made else 2)

    def begin(self, hidden: str, plan: Plan) -> None:
        """Makes room for a generation; by its hidden name `state` and `load` know it.

        If the view is in segments, so is its generation.
        """
        old = self._views.sharded.get(generations.view_of(hidden))
        if old is not None:
            self._remove_files(hidden)
            files = GenerationFiles(self._access.root, self._access.token())
            self._files[hidden] = files
            self._views.sharded[hidden] = files.begin(hidden, plan, old.shards)
            return
        with self._access.transaction() as connection:
            layout = Layout(hidden, plan, connection.dialect)
            connection.script([*drop_view(hidden, connection.dialect), *layout.create_hidden()])
            put(connection, layout, one_row(plan), final=False)
            self._views.tables[hidden] = self._views.in_tables(layout, connection)

    def load(self, hidden: str, change: Change, watermark: Instant = BEGINNING) -> None:
        """Takes up rows of a generation in the making. Its panes are shown to nobody.

        All windows that the watermark closes are final.
        """
        if hidden in self._files:
            view = self._views.sharded[hidden]
            self._views.sharded[hidden], plan = self._files[hidden].load(view, change), view.plan
        else:
            plan = self._views.load(hidden, change)
        bound = closing_bound(plan, watermark)
        if bound is not None:
            self._views.note_closed(hidden, bound)

    @property
    def in_segments(self) -> frozenset[str]:
        """The hidden names of generations in segments."""
        return frozenset(self._files)

    def end(self, hidden: str) -> None:
        """Removes a generation that is swapped in or given up."""
        self._remove_files(hidden)
        with self._access.transaction() as connection:
            self._views.tables.pop(hidden, None)
            connection.script(drop_view(hidden, connection.dialect))

    def _remove_files(self, hidden: str) -> None:
        files, view = self._files.pop(hidden, None), self._views.sharded.pop(hidden, None)
        if files is not None and view is not None:
            files.remove(view.segments)

    def writes(self) -> frozenset[str]:
        """The write ids of generations in the making: their files are spared though no list names them."""
        return frozenset(files.id for files in list(self._files.values()))

    def compare(self, view: str, hidden: str, scope: Scope, limit: int) -> Difference:
        """How a generation in the making differs from the current one, with up to `count` rows of it."""
        self._bring_together(view, hidden)
        if hidden in self._files:
            return segment_differences.compare(self._views.sharded[view], self._views.sharded[hidden], scope, limit)
        with self._access.read() as connection:
            old, new = self._views.tables_of(view).layout, self._views.tables_of(hidden).layout
            return generations.compare(connection, old, new, scope, limit)

    def _bring_together(self, view: str, hidden: str) -> None:
        """Moves both generations into segments where one of them is, because the view was moved meanwhile."""
        if hidden in self._files and view in self._views.tables:
            self._views.shard(view, self._views.sharded[hidden].shards)
        elif view in self._views.sharded and hidden in self._views.tables:
            state, files = self._views.tables[hidden], GenerationFiles(self._access.root, self._access.token())
            self._files[hidden] = files
            with self._access.transaction() as connection:
                segments = files.write(moved_rows(connection, state.layout, 1))
                connection.script(drop_view(hidden, connection.dialect))
            shards = self._views.sharded[view].shards
            self._views.sharded[hidden] = ShardedView(
                hidden, self._access.root, shards, segments, plan=state.plan, closed=state.closed
            )
            self._views.tables.pop(hidden)

    def swap(self, view: str, hidden: str, record: Commit, origin: Origin, scope: Scope) -> int:
        """Makes a generation the current one, with its corrections, in one transaction; the commit's number."""
        self._bring_together(view, hidden)
        if hidden in self._files:
            return self._swap_segments(view, hidden, record, origin, scope)
        old, new = self._views.tables.get(view), self._views.tables_of(hidden)
        watermark = record.view_times[view]
        with self._access.transaction() as connection:
            if old is not None and old.plan.written == new.plan.written:
                state, layout = old, old.layout
                panes = generations.swap_rows(connection, layout, new.layout, scope, watermark)
                origin = replace(origin, statement=generations.statement_of(connection, view))
            else:
                before = None if old is None else old.layout
                panes = generations.swap_tables(connection, before, new.layout, view, watermark, scope)
                layout = Layout(view, new.plan, connection.dialect)
                state = self._views.in_tables(layout, connection)
                generations.note_definition(connection, before, layout, origin.statement)
            record = replace(record, changes={view: generations.with_panes(layout.plan, panes)})
            number = write(connection, record, {view: state})
            generations.remember(connection, view, repr(layout.plan.written), origin, number, record.now)
            trim(connection, record, number, self._keep)
        self._views.tables[view] = state
        for name, bound in closing_bounds(record, {view: state}).items():
            self._views.tables[name].closed = bound
        return number

    def _swap_segments(self, view: str, hidden: str, record: Commit, origin: Origin, scope: Scope) -> int:
        """The same for generations in segments. Nothing but the list changes in the transaction."""
        old, new, files = self._views.sharded.get(view), self._views.sharded[hidden], self._files[hidden]
        swap = SegmentSwap(view, old, new, scope, record.view_times[view], files)
        same = old is not None and old.plan.written == new.plan.written
        change = swap.rows() if same else swap.definition()
        run, erases = change.added, same and self._has_erased(view, new.plan)
        with self._access.exclusive():
            if not same:  # from here on the list decides whose its files are
                del self._files[hidden], self._views.sharded[hidden]
            with self._access.transaction() as connection:
                if same:
                    # Compaction may have replaced segments meanwhile. The new run is above all of them.
                    state = self._views.sharded[view].changed(change.added)
                    if erases:
                        change = replace(change, added=files.rewrite(state))
                        replace_segments(connection, self._views.sharded[view].segments, (), record.now)
                        state = replace(state, segments=change.added)
                    origin = replace(origin, statement=generations.statement_of(connection, view))
                else:
                    state = ShardedView(view, new.root, new.shards, change.added, plan=new.plan)
                    self._note_segments(connection, old, state, origin, record.now)
                record = replace(record, segments={view: change})
                number = write(connection, record, {view: state})
                generations.remember(connection, view, repr(state.plan.written), origin, number, record.now)
                trim(connection, record, number, self._keep)
            self._views.sharded[view] = state
            for name, bound in closing_bounds(record, {view: state}).items():
                self._views.note_closed(name, bound)
        if erases:
            files.remove(run)
        return number

    def _has_erased(self, view: str, plan: Plan) -> bool:
        """Whether events of a view were erased since its last generation. Then no file may keep their rows."""
        records, sources = self._reader.generations_of(view), {source.name for source in plan.streams}
        last = records[-1].commit if records else 0
        return any(one.stream in sources and one.commit >= last for one in self._reader.listing().tombstones)

    def _note_segments(
        self, connection: Connection, old: ShardedView | None, new: ShardedView, origin: Origin, now: Instant
    ) -> None:
        """A view in segments has another definition from here on."""
        remove_sharding(connection, new.name, now)
        add_sharding(connection, new.name, new.shards)
        layout = Layout(new.name, new.plan, connection.dialect)
        before = None if old is None else Layout(new.name, old.plan, connection.dialect)
        connection.script(layout.drop_tables())
        generations.note_definition(connection, before, layout, origin.statement)

    def unknown_definitions(self, definitions: Mapping[str, str]) -> list[str]:
        """The views whose definition, as text, no remembered generation has."""
        with self._access.read() as connection:
            return generations.unknown(connection, definitions)

    def note_definition(self, view: str, definition: str, pickled: bytes | None, now: Instant) -> None:
        """Remembers a definition that no run from the past has made."""
        with self._access.transaction() as connection:
            origin = Origin(generations.FIRST, 0, generations.statement_of(connection, view), pickled)
            generations.remember(connection, view, definition, origin, 0, now)

    def foreign_code(self, signer: Signer) -> list[str]:
        """What the store holds of Python code that another app has written: views and streams by name."""
        with self._access.read() as connection:
            return signed.foreign(connection, signer)

    def trust_code(self, signer: Signer) -> None:
        """Takes the Python code in the store for this app's own."""
        with self._access.transaction() as connection:
            signed.sign_again(connection, signer)
