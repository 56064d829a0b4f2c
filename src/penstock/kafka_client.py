"""Kafka's clients in Python: the settings of Java's clients, as Spark takes them, in the words of confluent-kafka.

>>> sorted(client_settings("b:9093", {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM",
...                                   "kafka.ssl.truststore.location": "ca.pem", "failOnDataLoss": "false"}).items())
[('bootstrap.servers', 'b:9093'), ('security.protocol', 'SSL'), ('ssl.ca.location', 'ca.pem')]
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import DefinitionError, PenstockError

#: The variable that says where Kafka is, for logs and sinks that do not.
SERVERS: Final = "PENSTOCK_KAFKA_SERVERS"
#: What has another name there; certificates must be PEM files.
_RENAMED: Final = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "sasl.mechanism": ("sasl.mechanisms",),
}
#: What only Java's clients know, and the others do without.
_JAVA_ONLY: Final = ("ssl.truststore.type", "ssl.keystore.type", "sasl.jaas.config", "isolation.level")
_QUOTED: Final = r'{}\s*=\s*"([^"]*)"'


def load() -> Any:
    """The package confluent_kafka."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise PenstockError(
            "consumer groups and sinks in Kafka need confluent-kafka", hint="pip install 'penstock[kafka]'"
        ) from error
    return confluent_kafka


def servers_of(servers: str | None) -> str:
    """The brokers' addresses: from the option, from the environment, or Kafka's usual one on this machine."""
    return servers or os.environ.get(SERVERS) or "localhost:9092"


def client_settings(servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a client: of the options those that begin with 'kafka.', translated where the names differ."""
    own_options = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    settings: dict[str, Any] = {"bootstrap.servers": servers}
    for store in ("truststore", "keystore"):
        if f"ssl.{store}.location" in own_options and own_options.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
            raise DefinitionError(
                f"'{own_options[f'ssl.{store}.location']}' is a {store} that only Java reads",
                hint=f"give a PEM file, with kafka.ssl.{store}.type = PEM: both Java and Python read that",
            )
    for name, value in own_options.items():
        if name not in _JAVA_ONLY:
            settings |= dict.fromkeys(_RENAMED.get(name, (name,)), value)
    if "sasl.jaas.config" in own_options:
        for name in ("username", "password"):
            match = re.search(_QUOTED.format(name), own_options["sasl.jaas.config"])
            if match:
                settings[f"sasl.{name}"] = match[1]
    return settings
