"""Packages that load what they re-export when it is first asked for.

Each command, and each Python process that Spark starts, then loads only what it uses.

>>> load = lazy("penstock", {"errors": "PenstockError DefinitionError"})
>>> load("PenstockError").__module__
'penstock.errors'
>>> load("Nothing")
Traceback (most recent call last):
AttributeError: module 'penstock' has no attribute 'Nothing'
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `names`: by module, relative to the package, the names that it re-exports."""
    modules = {name: f"{package}.{module}" for module, some in names.items() for name in some.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
