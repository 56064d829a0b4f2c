"""The command `trust`: takes Python code that a store holds for this app's own."""

from __future__ import annotations

from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.store import open_store
from penstock.store.signed import Signer


def trust(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Trust the Python code in a store that comes from elsewhere. The app must be stopped.

    Such a store can run any code. Trust it only if you know where it comes from.
    """
    with errors_shown(debug):
        store = open_store(directory)
        store.lock()
        try:
            signer = Signer(directory)
            names = store.generations.foreign_code(signer)
            store.generations.trust_code(signer)
        finally:
            store.close()
        output().print(f"trusted: {', '.join(names)}" if names else "there was nothing of another app", markup=False)
