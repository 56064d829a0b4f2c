"""How much an epoch takes: as much as it can finish in its target time, estimated from the epochs before.

An epoch costs a fixed part and a part that grows with what it takes: seconds = a + b · amount. Both are fitted to the
measured epochs, newer ones counting more, and the limit is what fits into the target: (target - a) / b. That is a
capacity, not the rate at which events come: in a surge epochs become fuller, up to the limit, and the limit stays.

The fixed part is at most half of an epoch: where it alone takes longer than the target, smaller epochs would bring the
events no sooner, only fewer of them a second.

>>> admission = Admission(EVENTS, target=2.0, limit=20_000)
>>> admission.took(20_000, seconds=0.7)     # full, and far under its target: more fits
85000
>>> admission.took(3_000, seconds=0.4)      # not full: nothing would change
85000
>>> admission.took(85_000, seconds=4.0)     # too slow
42315
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: How much an epoch counts when the next one is there.
_DECAY: Final = 0.9
#: The largest factor by which a limit grows at a time: far from all measurements, the estimate is only a guess.
_GROWTH: Final = 8.0
#: And not so far that the next epoch could take longer than this multiple of its target.
_OVERRUN: Final = 1.75
#: The largest factor by which it shrinks.
_SHRINKAGE: Final = 64.0
#: One slow epoch (a pause of the machine) counts at most as this multiple of the expected time.
_OUTLIER: Final = 2.0
#: The fixed part, in seconds, until there are epochs of several sizes to estimate it from.
_FIXED: Final = 0.3
#: Where the fixed part seems longer than half the target, every n-th epoch takes only a part: epochs of one size
#: leave open what is fixed.
_PROBE_EVERY, _PROBE = 20, 0.25


@dataclass(frozen=True)
class Bounds:
    """What limits are counted in, the first one, and between what they stay.

    `careful` is the first one where users' Python code runs: it is not known yet how long it takes for a row.
    """

    unit: str
    start: int
    floor: int
    ceiling: int
    careful: int = 0


EVENTS: Final = Bounds("events", 50_000, 100, 2_000_000, 500)
BYTES: Final = Bounds("bytes", 16 << 20, 8 << 10, 512 << 20, 16 << 10)
BOUNDS: Final = (EVENTS, BYTES)


class Cost:
    """What epochs cost, by least squares with weights that fade: `fixed` seconds, and seconds for `each` of a unit."""

    def __init__(self) -> None:
        self.count = 0
        self.fixed, self.each = _FIXED, 0.0
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
        else:  # epochs of one size give no information on the fixed part: it stays as it was
            slope = (time - self.fixed) / size
        self.each = min(max(slope, 0.1 * time / size), time / size)
        self.fixed = time - self.each * size


class Admission:
    """The limit of one stream's epochs."""

    def __init__(self, bounds: Bounds, *, target: float, limit: int | None = None) -> None:
        self.bounds, self.target = bounds, target
        self.limit = self._bounded(bounds.start if limit is None else limit)
        self._cost = Cost()
        self._unprobed = 0  # epochs since the last one that took only a part

    def took(self, amount: int, seconds: float) -> int:
        """An epoch took this amount, in this time. The limit of the next one.

        It grows if the limit kept the epoch from taking more, and shrinks if the epoch took too long because of what it
        took.
        """
        if amount <= 0:
            return self.limit
        self._cost.add(amount, seconds)
        fits = self._bounded(self.fits)
        self._unprobed = self._unprobed + 1 if self.goal > self.target else 0
        if self._unprobed == _PROBE_EVERY:
            self.limit, self._unprobed = self._bounded(_PROBE * self.limit), 0
        elif amount >= self.limit / 2 and fits > self.limit:
            surely = amount * _OVERRUN * self.goal / seconds  # if nothing of the epoch was fixed
            self.limit = round(max(self.limit, min(fits, _GROWTH * self.limit, surely)))
        elif seconds > self.goal and min(amount, self.limit) > fits:
            self.limit = round(max(fits, self.limit / _SHRINKAGE))
        return self.limit

    def took_first(self, amount: int, seconds: float) -> int:
        """The first epoch of a run took this amount. The limit of the next one.

        It also started Python and compiled code. So later epochs are faster: the limit grows to what fits by this one,
        and does not shrink, and the time is not remembered.

        >>> Admission(BYTES, target=2.0, limit=16 << 20).took_first(16 << 20, seconds=1.15) >> 20
        32
        """
        if amount >= self.limit / 2:
            fits = amount * (self.target - _FIXED) / max(seconds - _FIXED, _FIXED)
            self.limit = self._bounded(min(max(fits, self.limit), _GROWTH * self.limit))
        return self.limit

    @property
    def goal(self) -> float:
        """The seconds that an epoch may take: the target, or twice the fixed part."""
        return max(self.target, 2 * self._cost.fixed)

    @property
    def fits(self) -> float:
        """What fits into that time."""
        return (self.goal - self._cost.fixed) / max(self._cost.each, 1e-12)

    def _bounded(self, limit: float) -> int:
        return round(min(max(limit, self.bounds.floor), self.bounds.ceiling))
