"""Saves how far sinks are: the positions of sinks that are done at the same time go into one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock

from penstock.store.arrivals import DeliveryTime


@dataclass
class _Group:
    """Positions that are written together, with the commits that were delivered, and what became of it."""

    positions: dict[str, int] = field(default_factory=dict)
    deliveries: list[DeliveryTime] = field(default_factory=list)
    written: bool = False
    error: BaseException | None = None


class PositionWriter:
    """Collects positions while a transaction is under way; the first sink that waits then writes those of all."""

    def __init__(self, write: Callable[[Mapping[str, int], Collection[DeliveryTime]], object]) -> None:
        self._write = write
        self._group = _Group()
        self._collecting, self._writing = Lock(), Lock()

    def save(self, sink: str, position: int, deliveries: Collection[DeliveryTime] = ()) -> None:
        """Returns when the position is in the store; if it cannot be written, every sink of the group fails."""
        with self._collecting:
            group = self._group
            group.positions[sink] = position
            group.deliveries += deliveries
        with self._writing:
            if not group.written:
                with self._collecting:
                    self._group = _Group()
                group.written = True
                try:
                    self._write(group.positions, group.deliveries)
                except BaseException as error:
                    group.error = error
        if group.error is not None:
            raise group.error
