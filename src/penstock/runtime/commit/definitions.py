"""Definitions of views as bytes in the store: signed by the app that wrote them, or without any code in them."""

from __future__ import annotations

import pickle
from pathlib import Path

from penstock.model.moved import unpickled
from penstock.model.plain import NotPlain, definition_part, plain
from penstock.model.view import View
from penstock.runtime.errors import RunError
from penstock.store.generations import GenerationRecord
from penstock.store.signed import Signer, without_signature


def dumped(directory: Path, name: str, view: View) -> bytes | None:
    """A definition in a form that can be restored, with its functions; None if a function cannot be pickled."""
    from pyspark import cloudpickle

    try:
        data = bytes(cloudpickle.dumps(view))  # type: ignore[no-untyped-call]
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return Signer(directory).sign(data, "view", name, repr(view))


def loaded(directory: Path, made: GenerationRecord) -> View:
    """The stored definition of a generation. Bytes of another app are read only if they hold no code."""
    data = Signer(directory).verified(made.pickled or b"", "view", made.view, made.definition)
    try:
        view = plain(without_signature(made.pickled or b""), definition_part) if data is None else unpickled(data)
    except NotPlain as error:
        raise RunError(
            f"the definition of '{made.view}' was not written by the app in '{directory}', and holds Python code",
            detail=str(error),
            hint="if you know where the store comes from: penstock trust --dir DIR",
        ) from None
    except Exception as error:
        raise RunError(f"the definition of '{made.view}' in the store is damaged: {error}") from error
    if not isinstance(view, View):
        raise RunError(f"the definition of '{made.view}' in the store is damaged")
    return view
