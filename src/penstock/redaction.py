"""Secrets in settings, URLs and messages: which names have secret values, and how they are shown.

>>> redact_url("postgresql://writer:hush@db/shop?sslpassword=x"), redact_url("https://key:hush@registry:8081/a")
('postgresql://writer:…@db/shop?sslpassword=…', 'https://…@registry:8081/a')
>>> redact_settings([("kafka.sasl.jaas.config", "hush"), ("kafka.security.protocol", "SSL")])
{'kafka.sasl.jaas.config': '…', 'kafka.security.protocol': 'SSL'}
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: What is shown instead of a secret.
HIDDEN: Final = "…"
_NAMES: Final = r"password|passwd|pwd|passfile|secret|token|jaas|credential|keystore\.key"
_SETTING: Final = re.compile(_NAMES, re.IGNORECASE)
_HEADER: Final = re.compile(rf"{_NAMES}|authorization|cookie|key", re.IGNORECASE)
_ASSIGNED: Final = re.compile(rf"((?:{_NAMES})[\w.]*\s*=\s*)[^&;]+", re.IGNORECASE)
#: In web addresses the user may be a token; elsewhere only the password is secret.
_WEB_USER: Final = re.compile(r"(https?://)[^/?#\s]*@", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(//[^/?#\s@:]*:)[^/?#\s]*@")


def is_secret(setting: str) -> bool:
    """Whether the value of a setting is a secret, by the setting's name."""
    return _SETTING.search(setting) is not None


def is_secret_header(name: str) -> bool:
    """Whether the value of an HTTP header is a secret, by the header's name."""
    return _HEADER.search(name) is not None


def redact_settings(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Settings without the values that are secret."""
    return {name: HIDDEN if is_secret(name) else value for name, value in settings}


def redact_url(text: str) -> str:
    """A URL, or a message with URLs in it, without passwords."""
    text = _PASSWORD.sub(rf"\1{HIDDEN}@", _WEB_USER.sub(rf"\1{HIDDEN}@", text))
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def redact_values(text: str, secrets: Iterable[str]) -> str:
    """A message without secrets that are known."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
