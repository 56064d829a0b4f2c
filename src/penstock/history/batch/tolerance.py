"""When two values of a view count as equal: exactly, except for aggregates that are approximate by definition.

Floats may differ in their last digits, since sums depend on the order of rows. Sketches that drop values at random may
differ by their stated error. All else, sketches of distinct values among it, must be equal.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from penstock.model.aggregates import Aggregate, Paired
from penstock.model.aggregates.heavy_hitters import HeavyHitters
from penstock.model.aggregates.sketches import Quantile, library

#: Floats are the same if they differ by no more than this part of the larger one.
FLOATS: Final = 1e-9
#: Two sketches may each be off by their stated error.
_BOTH: Final = 2


def is_sketchy(aggregate: Aggregate) -> bool:
    """Whether two runs over the same rows may answer differently."""
    return isinstance(live(aggregate), (Quantile, HeavyHitters))


def live(aggregate: Aggregate | None) -> Aggregate | None:
    """What answers live: of a pair with a batch aggregate the one of them."""
    return aggregate.live if isinstance(aggregate, Paired) else aggregate


def same(aggregate: Aggregate | None, stored: Any, computed: Any, sketch: bytes | None = None) -> bool:
    """Whether a stored value is what was computed; `sketch` is the partial that was."""
    if stored == computed:
        return True
    if stored is None or computed is None:
        return False
    aggregate = live(aggregate)
    if isinstance(aggregate, Quantile) and sketch is not None:
        return _same_quantile(aggregate, stored, sketch)
    if isinstance(aggregate, HeavyHitters) and sketch is not None:
        return _same_hitters(aggregate, stored, computed, sketch)
    try:
        a, b = float(stored), float(computed)
    except (TypeError, ValueError):
        return False
    if isinstance(stored, int) and isinstance(computed, int):
        return False
    return math.isclose(a, b, rel_tol=FLOATS) or (math.isnan(a) and math.isnan(b))


def _same_quantile(aggregate: Quantile, stored: Any, sketch: bytes) -> bool:
    kll = library().kll_doubles_sketch.deserialize(sketch)
    error = _BOTH * kll.normalized_rank_error(False)
    values = json.loads(stored) if isinstance(stored, str) else stored
    for q, value in zip(aggregate.quantiles, values if isinstance(values, list) else [values], strict=True):
        if not kll.get_rank(float(value), False) - error <= q <= kll.get_rank(float(value), True) + error:
            return False
    return True


def _same_hitters(aggregate: HeavyHitters, stored: Any, computed: Any, sketch: bytes) -> bool:
    total = library().frequent_strings_sketch.deserialize(sketch).total_weight
    error = _BOTH * 3.5 / aggregate.size * total
    ours, theirs = ({str(each["item"]): each["estimate"] for each in _list(value)} for value in (stored, computed))
    least = min([*ours.values(), *theirs.values()], default=0)
    return all(abs(ours.get(item, least) - theirs.get(item, least)) <= error for item in ours.keys() | theirs.keys())


def _list(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
