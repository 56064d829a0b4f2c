"""How much an epoch takes: as much as it can finish in its target time, learnt from the epochs before.

An epoch costs a fixed part and a part that grows with what it takes: seconds = a + b · amount. Both are fitted to the
measured epochs, newer ones counting more, and the limit is what fits into the target: (target - a) / b. That is a
capacity, not the rate at which events come: in a surge epochs become fuller, up to the limit, and the limit stays.

The fixed part is at most half of an epoch: where it alone takes longer than the target, smaller epochs would bring the
events no sooner, only fewer of them a second.

>>> admission = Admission(EVENTS, target=2.0, limit=20_000)
>>> admission.took(20_000, seconds=0.5)     # full, and far under its target: four times as much fits
80000
>>> admission.limit = 80_000
>>> admission.took(3_000, seconds=0.3)      # not full: nothing would change
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: How much an epoch counts when the next one is there.
_DECAY: Final = 0.9
#: A limit is changed by at least so much, or left: each change starts the stream's query again.
_WORTH: Final = 2.0
#: And by at most so much at a time: what is far from all that was measured is only guessed.
_STEP: Final = 8.0
#: An epoch is slow that takes so many times its target, and hopeless that takes so many.
_SLOW, _HOPELESS = 1.5, 6.0
#: So many full epochs in a row, all of one size, leave open what is fixed and what is not.
_FULL: Final = 20
#: One slow epoch (a pause of the machine) counts as at most so many times what was expected.
_OUTLIER: Final = 2.0


@dataclass(frozen=True)
class Bounds:
    """What limits are counted in, the first one, and between what they stay."""

    unit: str
    start: int
    floor: int
    ceiling: int


EVENTS: Final = Bounds("events", 50_000, 100, 2_000_000)
BYTES: Final = Bounds("bytes", 4 << 20, 64 << 10, 512 << 20)
BOUNDS: Final = (EVENTS, BYTES)


class Cost:
    """What epochs cost, by least squares with weights that fade: `fixed` seconds, and seconds for `each` of a unit."""

    def __init__(self) -> None:
        self.count = 0
        self.fixed = self.each = 0.0
        self._sums = [0.0] * 5

    def add(self, amount: float, seconds: float) -> None:
        if self.count > 3:
            seconds = min(seconds, _OUTLIER * (self.fixed + self.each * amount))
        new = (1.0, amount, seconds, amount * amount, amount * seconds)
        weight, x, y, xx, xy = self._sums = [_DECAY * old + add for old, add in zip(self._sums, new, strict=True)]
        self.count += 1
        size, time = x / weight, y / weight
        spread = xx / weight - size * size
        if spread > (0.2 * size) ** 2:
            slope = (xy / weight - size * time) / spread
        else:  # epochs of one size tell nothing of the fixed part: it stays as it was
            slope = (time - self.fixed) / size
        self.each = min(max(slope, 0.1 * time / size), time / size)
        self.fixed = time - self.each * size


class Admission:
    """The limit of one stream's epochs. Whoever puts a new limit into force sets `limit`."""

    def __init__(self, bounds: Bounds, *, target: float, limit: int | None = None) -> None:
        self.bounds, self.target = bounds, target
        self.limit = self._bounded(bounds.start if limit is None else limit)
        self._cost = Cost()
        self._slow = self._full = 0
        self._tried = False

    def took(self, amount: int, seconds: float) -> int | None:
        """An epoch took so much, in such a time. The limit that should come into force, where that is worth a restart.

        It is if the limit kept epochs from taking twice as much, or if they take too long because of what they take.
        And once, if many full epochs in a row took longer than the target: only other sizes tell what of it is fixed.
        """
        if amount <= 0:
            return None
        self._cost.add(amount, seconds)
        goal, wanted = self.goal, self._bounded(self.wanted)
        self._slow = self._slow + 1 if seconds > _SLOW * goal else 0
        self._full = self._full + 1 if amount >= 0.9 * self.limit and seconds > self.target else 0
        if amount >= self.limit / 2 and wanted >= _WORTH * self.limit:
            return round(min(wanted, _STEP * self.limit))
        too_much = min(amount, self.limit) >= _SLOW * wanted
        if too_much and (self._slow > 2 or seconds > _HOPELESS * goal):
            return round(max(wanted, self.limit / _STEP**2))
        if self._full == _FULL and not self._tried:
            self._tried = True
            return self._bounded(_WORTH * self.limit)
        return None

    @property
    def goal(self) -> float:
        """The seconds that an epoch may take: the target, or twice the fixed part."""
        return max(self.target, 2 * self._cost.fixed)

    @property
    def wanted(self) -> float:
        """What fits into that time."""
        return (self.goal - self._cost.fixed) / max(self._cost.each, 1e-12)

    def _bounded(self, limit: float) -> int:
        return round(min(max(limit, self.bounds.floor), self.bounds.ceiling))
