"""The options of WITH (…): each is known, has the right kind of value, and is used once."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import PenstockError
from penstock.sql.errors import Piece, Source, SqlError
from penstock.sql.statements import Option, OptionValue

_KINDS: dict[str, tuple[type, ...]] = {
    "header": (bool,), "broadcast": (bool,),
    "files_per_epoch": (int,), "max_line": (int,),
    "rate": (int,), "seed": (int,), "rows_per_file": (int,), "limit": (int,), "port": (int,),
    "events_per_epoch": (int,),
    "duplicates": (int, float), "late": (int, float),
    "backfill": (bool,), "shards": (int,), "pattern": (bool,), "rows_per_transaction": (int,),
    "create_table": (bool,), "rows_per_request": (int,), "timeout": (int, float),
}  # fmt: skip
_SHOWN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


class Options:
    """The options of WITH; `take` returns those that a caller knows."""

    def __init__(self, source: Source, options: tuple[Option, ...]) -> None:
        self.source = source
        self._given = options
        self._left = {option.name.text.lower(): option for option in options}
        self._known: list[str] = []

    def take(self, *names: str) -> dict[str, Any]:
        """The options of these names that the statement has."""
        self._known += names
        return {name: self._checked(name, self._left.pop(name)) for name in names if name in self._left}

    def take_prefixed(self, prefix: str) -> dict[str, str]:
        """The options whose names start so, for someone else's settings."""
        names = [name for name in self._left if name.startswith(prefix)]
        return {name: str(self._left.pop(name).value) for name in names}

    def place(self, name: str) -> Piece | None:
        """Where an option stands that was not taken yet."""
        return self._left[name].name if name in self._left else None

    @contextmanager
    def blamed(self, otherwise: Piece) -> Iterator[None]:
        """Places an error of the model at the option whose value or name it is about."""
        try:
            yield
        except SqlError:
            raise
        except PenstockError as error:
            about = [option for option in self._given if f"'{option.value}'" in error.message]
            about += [option for option in self._given if error.message.startswith(option.name.text)]
            raise self.source.placed(error, about[0].place if about else otherwise, {}) from error

    def nothing_left(self, what: str) -> None:
        """Rejects options that no caller has taken."""
        for name, option in self._left.items():
            near = difflib.get_close_matches(name, self._known, n=1, cutoff=0.6)
            raise self.source.error(
                f"{what} has no option '{option.name.text}'", option.name,
                detail=f"there are: {', '.join(sorted(self._known))}" if self._known else "there are none",
                hint=f"did you mean {near[0]}?" if near else None,
            )  # fmt: skip

    def _checked(self, name: str, option: Option) -> OptionValue:
        kinds = _KINDS.get(name, (str,))
        fits = isinstance(option.value, kinds) and not (isinstance(option.value, bool) and bool not in kinds)
        if not fits and not (option.value is None and name in ("max_ahead",)):
            wanted = " or ".join(_SHOWN[kind] for kind in kinds[-1:])
            raise self.source.error(f"the option {name} takes {wanted}, not {_shown(option.value)}", option.place)
        return option.value


def _shown(value: OptionValue) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
