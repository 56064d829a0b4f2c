"""Where events come from: partitioned, replayable sources, each a frozen value that Spark reads as a stream."""

from penstock.logs.base import MALFORMED, REASON, Follower, Log
from penstock.logs.files import Files, files
from penstock.logs.generator import Chance, Generator, generator
from penstock.logs.http import Http, http
from penstock.logs.kafka import Kafka, kafka
from penstock.logs.socket import Socket, socket

__all__ = [
    "MALFORMED",
    "REASON",
    "Chance",
    "Files",
    "Follower",
    "Generator",
    "Http",
    "Kafka",
    "Log",
    "Socket",
    "files",
    "generator",
    "http",
    "kafka",
    "socket",
]
