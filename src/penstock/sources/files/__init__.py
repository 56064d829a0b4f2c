"""Events in the files of a directory."""

from penstock.sources.files.source import Files, files

__all__ = ["Files", "files"]
