"""Where events come from: partitioned, replayable sources, each a frozen value that Spark reads as a stream."""

from penstock.logs.base import MALFORMED, Log
from penstock.logs.files import Files, files
from penstock.logs.generator import Chance, Generator, generator

__all__ = ["MALFORMED", "Chance", "Files", "Generator", "Log", "files", "generator"]
