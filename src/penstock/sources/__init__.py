"""Where events come from: partitioned, replayable sources, each a frozen value that Spark reads as a stream."""

from penstock.sources.base import MALFORMED, REASON, Follower, Source
from penstock.sources.files.source import Files, files
from penstock.sources.generator import Chance, Generator, generator
from penstock.sources.http.source import Http, http
from penstock.sources.kafka.source import Kafka, kafka
from penstock.sources.socket import Socket, socket

__all__ = [
    "MALFORMED",
    "REASON",
    "Chance",
    "Files",
    "Follower",
    "Generator",
    "Http",
    "Kafka",
    "Socket",
    "Source",
    "files",
    "generator",
    "http",
    "kafka",
    "socket",
]
