"""Tuples: values with the names of their fields, where they come from, and the trees that they belong to.

>>> Words = tuple_type("split", "default", ("word", "n"))
>>> tup = Words(("be", 2))
>>> tup.word, tup["n"], tup[0], tup.source, tup.as_dict()
('be', 2, 'be', 'split', {'word': 'be', 'n': 2})
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

from penstock.errors import unknown

#: The stream on which a component emits where it sent no other message, and the one that tick tuples come on.
DEFAULT: Final = "default"
TICK: Final = "__tick"

#: The trees that a tuple belongs to: none, one, or several.
Roots: TypeAlias = int | tuple[int, ...] | None


class Tuple(tuple[Any, ...]):
    """One tuple: its values in order. Fields are attributes (`tup.word`) and items by name (`tup["word"]`) too.

    `attempt` says how often its tree was tried before: 0 at first. A field of such a name comes first.
    """

    _source: ClassVar[str] = ""
    _stream: ClassVar[str] = DEFAULT
    _places: ClassVar[dict[str, int]] = {}

    _roots: Roots = None
    _id: int = 0
    _attempt: int = 0

    @property
    def source(self) -> str:
        """The component that emitted it."""
        return self._source

    @property
    def stream(self) -> str:
        """The stream that it was emitted on."""
        return self._stream

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self._places)

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(self)

    @property
    def attempt(self) -> int:
        """How often it was tried before."""
        return self._attempt

    @property
    def is_tick(self) -> bool:
        """Whether it only says that time has passed."""
        return self._stream == TICK

    def as_dict(self) -> dict[str, Any]:
        return dict(zip(self._places, self, strict=True))

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            place = self._places.get(which)
            if place is None:
                raise unknown(f"field of a tuple of '{self._source}'", which, self._places)
            return tuple.__getitem__(self, place)
        return tuple.__getitem__(self, which)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(str(unknown(f"field of a tuple of '{self._source}'", name, self._places)))

    def __reduce__(self) -> Any:
        names = tuple(self._places)
        return _again, (self._source, self._stream, names, tuple(self), self._roots, self._id, self._attempt)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._places, self, strict=True))
        return f"<tuple of {self._source}.{self._stream}: {fields}>"


@lru_cache(maxsize=1_000)
def tuple_type(source: str, stream: str, fields: tuple[str, ...]) -> type[Tuple]:
    """The class of the tuples of one stream of a component."""
    places = {name: place for place, name in enumerate(fields)}
    namespace: dict[str, Any] = {"_source": source, "_stream": stream, "_places": places}
    plain = namedtuple("plain", fields, rename=True)  # type: ignore[misc]  # its attributes are fast
    namespace |= {name: vars(plain)[name] for name in fields if name in vars(plain) and not name.startswith("_")}
    return type("Tuple", (Tuple,), namespace)


def _again(
    source: str, stream: str, fields: tuple[str, ...], values: tuple[Any, ...], roots: Roots, id: int, attempt: int
) -> Tuple:
    """A tuple that a bolt has held over an epoch."""
    return with_tree(tuple_type(source, stream, fields)(values), roots, id, attempt)


def with_tree(tup: Tuple, roots: Roots, id: int = 0, attempt: int = 0) -> Tuple:
    """The same, with the trees that it belongs to."""
    tup._roots, tup._id, tup._attempt = roots, id, attempt
    return tup
