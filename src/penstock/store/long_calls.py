"""User code that makes no progress, as it is stored for display.

>>> LongCall("enrich", "map(slow)", 42.3, 3, "row 17").text()
"operator 'enrich' has run map(slow) for 42 s in task 3, at row 17"
>>> parsed(packed([LongCall("totals", "Totals.on_event", 12.0, None, "key ann")]))[0].text()
"operator 'totals' has run Totals.on_event for 12 s on the driver, at key ann"
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

#: Reads the current long calls.
LONG_CALLS: Final = "SELECT statement FROM __catalog WHERE kind = 'calls'"


@dataclass(frozen=True)
class LongCall:
    """User code without progress for some seconds. `task` is None on the driver."""

    operator: str | None
    function: str
    seconds: float
    task: int | None = None
    position: str | None = None

    def text(self) -> str:
        """As a sentence."""
        who = "user code" if self.operator is None else f"operator '{self.operator}'"
        where = "on the driver" if self.task is None else f"in task {self.task}"
        at = "" if self.position is None else f", at {self.position}"
        return f"{who} has run {self.function} for {self.seconds:.0f} s {where}{at}"


def packed(calls: Sequence[LongCall]) -> str:
    return json.dumps([asdict(call) for call in calls])


def parsed(text: str | None) -> list[LongCall]:
    return [LongCall(**call) for call in json.loads(text or "[]")]
