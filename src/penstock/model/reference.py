"""The reference interpreter: what a view means, one element at a time. It is the specification; the kernel is tested
against it, and it is written to be read.

A commit goes through five steps:

1. *admit*: each event gets its time and passes the stream's steps; malformed ones and duplicates are refused;
2. *place*: each element goes into its windows; one that is closed by the watermark in force when the commit began
   refuses it as late;
3. *advance*: the watermark moves by what the commit showed;
4. *fire*: every window's trigger is judged once, and panes are made;
5. *close*: windows whose end and allowed lateness the watermark has passed become final.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from penstock.errors import RowError
from penstock.model.aggregates import Aggregate
from penstock.model.aggregates.base import Partial
from penstock.model.alone import check_alone
from penstock.model.commits import FORGOTTEN, Commit, Pane, Rejection, TableRow, Timing
from penstock.model.intake import Element, Intake
from penstock.model.order import Key, key
from penstock.model.shown import ShownValues
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.triggers import Moment, State
from penstock.model.view import View
from penstock.model.windows import Aligned, Assigned, CountBased, CountWindow, Interval, Merging, span

KeyId = tuple[Key, ...]


@dataclass
class _Shown:
    """A pane that stands: subscribers hold these values under this index until a retraction takes them back."""

    window: Interval
    values: tuple[object, ...]
    index: int


@dataclass
class _Window:
    """One window of one key. Value state (`partials`, `rows`) and firing state (the rest) stand side by side."""

    key: tuple[object, ...]
    partials: list[Partial]
    pending: list[Partial]  # since the last pane; shown by discarding panes
    trigger: State
    rows: int = 0  # inserted less retracted
    elements: int = 0  # ever, for count windows
    new: int = 0  # elements since the last pane
    finished: bool = False
    index: int = 0
    shown: list[_Shown] = field(default_factory=list)
    touched: Instant = BEGINNING  # the newest event time of its elements


class Reference:
    """Runs one view, commit by commit."""

    def __init__(self, view: View) -> None:
        check_alone(view)
        self.view = view
        self.aggregates: list[Aggregate] = [a.retractable() if view.signed else a for _, a in view.aggregates]
        self.intake = Intake(view)
        self.shown = ShownValues(view)
        self.windows: dict[KeyId, dict[Interval, _Window]] = {}
        self.final: dict[tuple[KeyId, Interval], TableRow] = {}
        self.numbers: dict[KeyId, int] = {}  # elements of a key so far, for count windows
        if view.has_one_row:
            whole = Interval(BEGINNING, END)
            self.windows[()] = {whole: self._opened((), whole, BEGINNING, 0)}

    @property
    def watermark(self) -> Instant:
        return self.intake.time.watermark

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]:
        """One epoch or tick: the panes that fire, and the events that were refused."""
        refused: list[Rejection] = []
        before = self.intake.time.watermark
        elements = self.intake.admit(commit, refused)
        self._place(elements, before, commit.now, refused)
        self.intake.advance(commit)
        after = self.intake.time.watermark
        panes = [pane for identity in sorted(self.windows) for pane in self._fire(identity, before, after, commit.now)]
        self._close(after)
        self._forget(after)
        self.intake.forget_ids()
        return panes, refused

    def table(self) -> list[TableRow]:
        """The view's table: every window's accumulated value. A window whose rows were all taken back is not there.

        A view without keys over all time has one row, also without events: its aggregates are those of no rows.
        """
        rows = list(self.final.values())
        for windows in self.windows.values():
            for interval, window in windows.items():
                values = self._present(window, interval, window.partials)
                if values is not None and (window.rows or not self.view.signed or self.view.has_one_row):
                    rows.append(TableRow(window.key, interval, values, False))
        return sorted(rows, key=lambda row: (tuple(map(key, row.key)), row.window))

    def restart(self) -> Reference:
        """The interpreter as a restarted process would find it."""
        return copy.deepcopy(self)

    # place

    def _place(self, elements: list[Element], before: Instant, now: Instant, refused: list[Rejection]) -> None:
        by_key: dict[KeyId, list[Element]] = {}
        for element in elements:
            by_key.setdefault(tuple(map(key, element.key)), []).append(element)
        for identity, group in by_key.items():
            if not self._is_live(identity, group, before):
                refused += [Rejection("late", element.event, FORGOTTEN, 1, 1) for element in group]
                continue
            placed: dict[Interval, list[Element]] = {}
            for element, intervals in self._assign(identity, group, before, now, refused):
                for interval in intervals:
                    placed.setdefault(interval, []).append(element)
            for interval, members in placed.items():
                self._add(identity, interval, members, before, now)

    def _assign(
        self, identity: KeyId, elements: list[Element], before: Instant, now: Instant, refused: list[Rejection]
    ) -> Iterator[tuple[Element, Sequence[Interval]]]:
        """Each element with those of its windows that still take it."""
        kind = self.view.windows
        if isinstance(kind, Merging):
            yield from self._assign_merging(kind, identity, elements, before, now, refused)
        elif isinstance(kind, CountWindow):
            for element in elements:  # in log order, as the intake gives them
                number = self.numbers.get(identity, 0)
                self.numbers[identity] = number + 1
                yield element, kind.assign(number)
        else:
            for element in elements:
                try:
                    windows = self._windows_of(element)
                except RowError as error:
                    refused.append(Rejection("dead", element.event, error.message))
                    continue
                open_ = [window for window in windows if not self._is_closed(window, before)]
                if len(open_) < len(windows):
                    refused.append(_late(element, len(windows) - len(open_), len(windows)))
                yield element, open_

    def _windows_of(self, element: Element) -> tuple[Interval, ...]:
        kind = self.view.windows
        if isinstance(kind, Assigned):
            return kind.assign(element.origin.at, element.window_values)
        assert isinstance(kind, Aligned)
        return kind.assign(element.origin.at)

    def _assign_merging(
        self,
        kind: Merging,
        identity: KeyId,
        elements: list[Element],
        before: Instant,
        now: Instant,
        refused: list[Rejection],
    ) -> Iterator[tuple[Element, Sequence[Interval]]]:
        """The commit's elements and the key's open windows merge together, whatever the order of arrival.

        An element is late only if the window that it ends up in is closed, and holds no open window.
        """
        opened: list[tuple[Element, Interval]] = []
        for element in elements:
            try:
                opened.append((element, kind.open(element.origin.at, element.window_values)))
            except RowError as error:
                refused.append(Rejection("dead", element.event, error.message))
        open_windows = self.windows.get(identity, {})
        for group in kind.groups(sorted({*open_windows, *(interval for _, interval in opened)})):
            whole = span(group)
            absorbed = [interval for interval in group if interval in open_windows]
            joining = [element for element, interval in opened if interval in group]
            if not absorbed and self._is_closed(whole, before):
                refused += [_late(element, 1, 1) for element in joining]
                continue
            if absorbed and absorbed != [whole]:
                self._absorb(identity, absorbed, whole, before, now)
            for element in joining:
                yield element, [whole]

    def _absorb(
        self, identity: KeyId, absorbed: list[Interval], whole: Interval, before: Instant, now: Instant
    ) -> None:
        """Makes one window of several. What they had shown is taken back when the new one fires."""
        windows = self.windows[identity]
        old = [windows.pop(interval) for interval in absorbed]
        moment = Moment(now, complete=self._is_complete(whole, before, 0))
        trigger = self.view.firing.merge([w.trigger for w in old], moment)
        windows[whole] = _Window(
            old[0].key,
            self._merge_all([w.partials for w in old]),
            self._merge_all([w.pending for w in old]),
            trigger,
            sum(w.rows for w in old),
            sum(w.elements for w in old),
            sum(w.new for w in old),
            all(w.finished for w in old) and self.view.firing.stays(trigger, moment),
            max(w.index for w in old),
            [shown for w in old for shown in w.shown],
        )

    def _add(self, identity: KeyId, interval: Interval, elements: list[Element], before: Instant, now: Instant) -> None:
        windows = self.windows.setdefault(identity, {})
        if interval not in windows:
            windows[interval] = self._opened(elements[0].key, interval, before, now)
        window = windows[interval]
        for element in elements:
            for i, (aggregate, values) in enumerate(zip(self.aggregates, element.aggregate_values, strict=True)):
                if values is None:
                    continue
                partial = aggregate.lift(values, element.origin)
                if element.sign < 0:
                    partial = aggregate.inverse(partial)
                window.partials[i] = aggregate.merge(window.partials[i], partial)
                window.pending[i] = aggregate.merge(window.pending[i], partial)
            window.rows += element.sign
            window.touched = max(window.touched, element.origin.at)
        window.elements += len(elements)
        window.new += len(elements)
        window.trigger = self.view.firing.add(window.trigger, len(elements), Moment(now))

    def _opened(self, key: tuple[object, ...], interval: Interval, before: Instant, now: Instant) -> _Window:
        """A window without elements, whose trigger has started."""
        zeros = [aggregate.zero() for aggregate in self.aggregates]
        trigger = self.view.firing.start(Moment(now, complete=self._is_complete(interval, before, 0)))
        return _Window(key, zeros, list(zeros), trigger, finished=self.view.firing.over(trigger))

    # fire

    def _fire(self, identity: KeyId, before: Instant, after: Instant, now: Instant) -> Iterator[Pane]:
        for interval, window in sorted(self.windows[identity].items()):
            firing = self.view.firing
            moment = Moment(
                now,
                complete=self._is_complete(interval, after, window.elements),
                closed=self._closes(interval, after, window.elements),
                complete_to=lambda percent, end=interval.end: self.intake.time.reached(percent) >= end,  # type: ignore[misc]
            )
            passes_now = moment.complete and not self._is_complete(interval, before, 0)
            if window.finished:
                continue
            if firing.ready(window.trigger, moment):
                window.trigger, window.finished = firing.fired(window.trigger, moment)
                fires = window.new > 0 or (passes_now and firing.fires_unchanged)
            else:
                fires = moment.closed and window.new > 0 and firing.shows_rest(window.trigger)
            if fires:
                timing: Timing = "early" if not moment.complete else "on time" if passes_now else "late"
                yield from self._panes(interval, window, timing, moment.closed)

    def _panes(self, interval: Interval, window: _Window, timing: Timing, final: bool) -> Iterator[Pane]:
        """One firing: retractions of what stands, where the view retracts, then the new value."""

        def pane(kind: Literal["insert", "retract"], where: Interval, values: tuple[object, ...], index: int) -> Pane:
            return Pane(window.key, where, values, kind, timing, index, final and kind == "insert")

        how = self.view.accumulation
        if how == "retracting":
            for shown in sorted(window.shown, key=lambda s: (s.window, s.index)):
                yield pane("retract", shown.window, shown.values, shown.index)
            window.shown = []
        values = self._present(window, interval, window.pending if how == "discarding" else window.partials)
        window.pending = [aggregate.zero() for aggregate in self.aggregates]
        window.new = 0
        if values is None or (how == "retracting" and self.view.signed and window.rows == 0):
            return  # it is not to be shown, or all its rows were taken back: nothing stands
        yield pane("insert", interval, values, window.index)
        if how == "retracting":
            window.shown = [_Shown(interval, values, window.index)]
        window.index += 1

    # close

    def _close(self, after: Instant) -> None:
        for identity in list(self.windows):
            for interval, window in list(self.windows[identity].items()):
                if self._closes(interval, after, window.elements):
                    del self.windows[identity][interval]
                    values = self._present(window, interval, window.partials)
                    if values is not None and (window.rows or not self.view.signed):
                        self.final[identity, interval] = TableRow(window.key, interval, values, True)
            if not self.windows[identity]:
                del self.windows[identity]

    # forget

    def _is_live(self, identity: KeyId, elements: list[Element], before: Instant) -> bool:
        """Whether a key takes elements: it is there, or one of them is not older than the retention."""
        bound = self.view.forgotten_before(before)
        return bound is None or identity in self.windows or any(e.origin.at >= bound for e in elements)

    def _forget(self, after: Instant) -> None:
        """Removes the keys that nothing has touched for the view's retention. No pane tells it."""
        bound = self.view.forgotten_before(after)
        if bound is not None:
            newest = {identity: max(w.touched for w in windows.values()) for identity, windows in self.windows.items()}
            self.windows = {identity: self.windows[identity] for identity, at in newest.items() if at >= bound}

    # when a window is complete, and when it is closed

    def _is_complete(self, window: Interval, watermark: Instant, elements: int) -> bool:
        kind = self.view.windows
        if isinstance(kind, CountWindow):
            return elements >= kind.size
        return kind.ends and watermark >= window.end

    def _is_closed(self, window: Interval, watermark: Instant) -> bool:
        return self.view.windows.ends_in_event_time and watermark >= window.end + self.view.lateness

    def _closes(self, window: Interval, watermark: Instant, elements: int) -> bool:
        if isinstance(self.view.windows, CountBased):
            return self._is_complete(window, watermark, elements)
        return self._is_closed(window, watermark)

    # partials

    def _merge_all(self, several: list[list[Partial]]) -> list[Partial]:
        merged = [aggregate.zero() for aggregate in self.aggregates]
        for partials in several:
            merged = [a.merge(m, p) for a, m, p in zip(self.aggregates, merged, partials, strict=True)]
        return merged

    def _present(self, window: _Window, interval: Interval, partials: list[Partial]) -> tuple[object, ...] | None:
        answers = tuple(a.present(p) for a, p in zip(self.aggregates, partials, strict=True))
        return self.shown(window.key, interval, answers)


def _late(element: Element, missed: int, windows: int) -> Rejection:
    which = "its window" if windows == 1 else f"{missed} of its {windows} windows"
    return Rejection("late", element.event, f"{which} had closed", missed, windows)
