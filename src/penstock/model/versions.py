"""A stream as a table with versions: each row says what its key is from the row's event time on.

>>> from penstock.model.stream import stream
>>> from penstock.model.watermarks import bounded
>>> prices = stream("prices", schema="item string, price int, since timestamp", event_time="since",
...                 watermark=bounded("10 seconds"))
>>> prices.versions("item")
ps.stream('prices', schema='item string, price int, since timestamp', event_time='since', watermark=ps.bounded('10 \
seconds')).versions('item')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import DefinitionError, in_quotes, unknown

if TYPE_CHECKING:
    from penstock.model.stream import Flow

#: The kinds of joins with a table that has versions.
HOWS: Final = ("inner", "left")


@dataclass(frozen=True, repr=False)
class Versions:
    """The rows of a flow as versions of the keys that they name. A row with a true `deleted` deletes its key."""

    flow: Flow
    keys: tuple[str, ...]
    deleted: str | None = None

    def __post_init__(self) -> None:
        check_versions(self.flow, "inner", self.keys, self.deleted)

    def __repr__(self) -> str:
        arguments = [*map(repr, self.keys), *([] if self.deleted is None else [f"deleted={self.deleted!r}"])]
        return f"{self.flow!r}.versions({', '.join(arguments)})"


def versions_of(flow: Flow, keys: tuple[str, ...], deleted: str | None) -> Versions:
    """See `Flow.versions`."""
    schema = flow.schema
    if schema is not None:  # names as they are declared
        keys = tuple(schema.find(key) for key in keys)
        deleted = None if deleted is None else schema.find(deleted)
    return Versions(flow, keys, deleted)


def check_versions(flow: Flow, how: str, keys: tuple[str, ...], deleted: str | None) -> None:
    """Refuses a flow that cannot be a table with versions by these keys, or a kind of join that is not there."""
    from penstock.model.join import check_side

    if how not in HOWS:
        raise unknown("way to join a table with versions", how, HOWS)
    for source in flow.sources:
        if source.sign is not None and source.event_time is None:
            raise DefinitionError(
                f"the changes of '{source.name}' have no time from which they are valid",
                detail="a view without windows in event time has retractions without a time",
                hint="give the view a window, or join with its rows as they are now: app.table_of(view)",
            )
    check_side(flow)
    assert flow.schema is not None
    if not keys:
        raise DefinitionError("a table with versions has a key", hint="call .versions('item')")
    for key in keys:
        if key not in flow.schema:
            raise unknown("column", key, flow.schema.names)
    if len({key.lower() for key in keys}) < len(keys):
        raise DefinitionError(f"a key appears twice in {in_quotes(keys)}")
    if deleted is not None:
        if deleted not in flow.schema:
            raise unknown("column", deleted, flow.schema.names)
        kind = flow.schema.type_of(deleted)
        if kind != "boolean":
            raise DefinitionError(
                f"the column '{deleted}' marks rows that delete their key, and is {kind}, not boolean",
                hint=f"make a boolean before: .select(…, deleted=\"{deleted} = 'd'\")",
            )
