"""Finds the app that a Python file makes."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

import typer

from penstock.app import App
from penstock.errors import PenstockError, unknown
from penstock.runtime.spark.shipping import importable


class LoadError(PenstockError):
    """A file that makes no app, or not the one that was asked for."""


def load_app(path: Path, name: str | None = None) -> App:
    """The app of a file: the only one, or the one with this name."""
    if path.suffix == ".sql" and path.is_file():
        from penstock.sql import load

        return load(path)
    module = load_module(path)
    by_id = {id(value): value for value in vars(module).values() if isinstance(value, App)}
    apps = {app.name: app for app in by_id.values()}
    if not apps:
        raise LoadError(f"'{path}' makes no app", hint='make one at the top of the file: app = ps.App("shop")')
    if len(apps) < len(by_id):
        raise LoadError(f"'{path}' makes two apps of one name", detail=f"there are: {', '.join(sorted(apps))}")
    if name is not None:
        if name not in apps:
            raise unknown("app", name, apps)
        return apps[name]
    if len(apps) > 1:
        names = sorted(apps)
        raise LoadError(
            f"'{path}' makes several apps", detail=f"there are: {', '.join(names)}", hint=f"say which: --app {names[0]}"
        )
    return next(iter(apps.values()))


class LoadedFile:
    """The file of an app that runs, which can be loaded again: itself, and the modules beside it."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self._name = path.resolve(), name
        self._first = self._state()

    def load(self) -> App:
        """Runs the file again. If that fails, modules are as before."""
        own = set(importable(self.path.parent).values())
        before = {name: module for name, module in sys.modules.items() if _place_of(module) in own}
        before.pop("__main__", None)
        for name in before:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            return load_app(self.path, self._name)
        except BaseException:
            sys.modules.update(before)
            raise

    @property
    def has_changed(self) -> bool:
        """Whether the file, or a module beside it, is another one than when this process began."""
        return self._state() != self._first

    @property
    def has_other_modules(self) -> bool:
        """The same of the modules beside it."""
        own = {self.path: self._first.get(self.path)}
        return {**self._state(), **own} != {**self._first, **own}

    def _state(self) -> dict[Path, tuple[int, int] | None]:
        """When each file was written, and how long it is."""
        stats = {path: path.stat() for path in (self.path, *importable(self.path.parent).values()) if path.is_file()}
        return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}


def _place_of(module: ModuleType) -> Path | None:
    """The file that a module lies in."""
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()


def load_module(path: Path) -> ModuleType:
    """Runs a file as a module. What lies beside it can be imported, in Spark's tasks too."""
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise typer.BadParameter(f"'{path}' {what}; give the Python file that makes the app", param_hint="APP.py")
    folder = str(path.resolve().parent)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    spec = importlib.util.spec_from_file_location(f"__penstock_app_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise LoadError(f"'{path}' is not a Python file", hint="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except PenstockError as error:
        raise LoadError(f"{_place(path, error)}: {error.message}", detail=error.detail, hint=error.hint) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise LoadError(f"{_place(path, error)}: {reason}", hint="--debug shows the stack") from error
    return module


def _place(path: Path, error: Exception) -> str:
    """The file, and the line of it where things went wrong."""
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}"
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()
    ]
    return f"{path}:{lines[-1]}" if lines else str(path)
