"""One place knows what a secret is, and one how connections to PostgreSQL are made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.postgres import check, redact, secrets_of, with_settings, without_secrets
from penstock.redaction import is_secret, is_secret_header, redact_url
from penstock.serve import asker_postgres
from penstock.store.address import Address
from penstock.store.postgres import values
from penstock.store.postgres.errors import explained

SOURCE = Path(ps.__file__).parent


def files_with(pattern: str) -> set[str]:
    paths = (path for path in SOURCE.rglob("*.py") if re.search(pattern, path.read_text(encoding="utf-8")))
    return {str(path.relative_to(SOURCE)) for path in paths}


def test_no_other_module_has_a_pattern_for_secrets():
    assert files_with(r"password\|") == {"redaction.py"}
    assert files_with(r"//\[\^") == {"redaction.py"}


def test_no_other_module_sets_the_time_outs_of_connections():
    assert files_with(r"\bconnect_timeout|tcp_user_timeout") == {"postgres.py"}
    assert files_with(r"lock_timeout.*\d+s") == set()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p%40ss@h:1,g:2/d?sslmode=require", "postgresql://u:…@h:1,g:2/d?sslmode=require"),
        ("postgresql://u@h/d?password=x&a=b", "postgresql://u@h/d?password=…&a=b"),
        ("jdbc:sqlserver://h;user=u;Password=x y;a=b", "jdbc:sqlserver://h;user=u;Password=…;a=b"),
        ("https://token@h/a?b=c@d", "https://…@h/a?b=c@d"),
        ("failed: http://a:b@h/x and postgresql://c:d@h", "failed: http://…@h/x and postgresql://c:…@h"),
        ("postgresql://h:5432/d?options=a@b", "postgresql://h:5432/d?options=a@b"),
    ],
)
def test_urls_are_shown_without_secrets(url: str, shown: str):
    assert redact_url(url) == shown


def test_names_of_settings_and_headers_that_are_secret():
    secret = ["kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "kafka.ssl.key.password", "oauth.CREDENTIALS", "pwd"]
    assert all(map(is_secret, secret))
    assert not any(map(is_secret, ["kafka.security.protocol", "kafka.key.deserializer", "topic"]))
    assert all(map(is_secret_header, ["Authorization", "X-Api-Key", "Cookie", "X-Token"]))
    assert not is_secret_header("Content-Type")


def test_a_stream_in_sql_hides_what_its_repr_hides():
    from penstock.sql.show_sources import show_log

    options = {"kafka.ssl.keystore.key": "hush", "kafka.oauth.credentials": "hush", "kafka.security.protocol": "SSL"}
    log = ps.kafka("t", servers="h:1", format="avro", registry="https://hush@registry", options=options)
    assert "hush" not in repr(log)
    assert "hush" not in str(show_log(log))


def test_a_url_of_postgres_loses_all_its_secrets_and_keeps_the_rest():
    url = "postgresql://u:p%40ss@h/d?sslpassword=q%20r&passfile=/f&empty="
    assert secrets_of(url) == ["p%40ss", "p@ss", "q r", "q%20r"]
    assert without_secrets(url) == "postgresql://u@h/d?passfile=/f&empty="
    assert redact("p@ss or q r or p%40ss", url) == "… or … or …"


def test_every_connection_has_time_outs_unless_the_url_sets_them():
    settings = with_settings("postgresql://h/d?connect_timeout=3", {"application_name": "x"})
    assert settings.count("connect_timeout") == 1
    assert "connect_timeout=3&application_name=x" in settings
    assert "tcp_user_timeout=20000" in settings


def test_a_url_that_cannot_be_parsed_is_not_shown():
    for parse in (check, Address.read):
        with pytest.raises(DefinitionError) as error:
            parse("postgresql://u:hush@h:port/d")
        assert "hush" not in str(error.value)


def test_an_error_of_the_store_shows_no_password():
    address = Address.read("postgresql://u:hush@h/d?schema=s")
    assert "hush" not in str(explained(RuntimeError('cannot read "postgresql://u:hush@h/d"'), address, writes=True))
    assert address.shown == "postgresql://u@h/d?schema=s"


def test_the_process_that_asks_postgres_writes_text_as_the_store_does():
    """It runs as a file of its own, without the rest of Penstock, so it has its own copy of the rule."""
    for text in ("a\0b", "\ufffe", "\ufffe1\0"):
        assert asker_postgres._escaped(text) == values.escaped_text(text)
