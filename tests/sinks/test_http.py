"""Webhooks to a real server that fails, is silent, repeats, wants to be left alone, and refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import shutil
import ssl
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.rows import Rows
from penstock.model.types import Schema
from penstock.sinks import SinkError, check, read_refused, to_http
from penstock.sinks.base import Batch, Target
from penstock.sinks.files import plain
from penstock.sinks.rows import Decoder
from tests.sinks.support import COUNTS, LIVE, Fed

Row = dict[str, Any]


class Receiver:
    """A server on loopback. `script` says what becomes of the next requests; then all are taken."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.taken: dict[str, list[Row]] = {}
        self.script: list[Any] = []
        self.refuses: Callable[[Row], bool] = lambda row: False
        self.go = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.answer(self)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hooks/counts"

    def answer(self, handler: Any) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.requests.append((dict(handler.headers), body))
        what = self.script.pop(0) if self.script else 200
        if what == "silent":
            self.go.wait(30)
            handler.close_connection = True
            return
        if what == "cut":
            handler.close_connection = True
            return
        rows = rows_of(body)
        if what in (200, "taken, then cut") and any(map(self.refuses, rows)):
            what = 422
        if what in (200, "taken, then cut"):
            self.taken.setdefault(handler.headers["Idempotency-Key"], rows)
        if what == "taken, then cut":
            handler.close_connection = True
            return
        status, more = what if isinstance(what, tuple) else (what, {})
        text = b"no such thing" if status != 200 else b"{}"
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **more}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text)

    @property
    def rows(self) -> list[Row]:
        """What a receiver that remembers the keys has."""
        return [row for rows in self.taken.values() for row in rows]

    def close(self) -> None:
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


def rows_of(body: bytes) -> list[Row]:
    text = body.decode()
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def panes_of(fed: Fed) -> list[Row]:
    return [plain(row) for row in Decoder(fed.view).panes(fed.panes())]


def delivered(fed: Fed, sink: ps.sinks.Sink, tries: int = 1) -> list[BaseException]:
    """Delivers until there is nothing left, and gives the failures on the way."""
    delivery, found = fed.delivery({"retry": (0.0, 0.0), "app": "shop"}, hook=sink), []
    for _ in range(tries):
        delivery.deliver()
        if not delivery.failures:
            break
        found.append(delivery.failures["hook"].error)
    delivery.close()
    return found


# What is sent


@pytest.mark.parametrize("format", ["array", "lines"])
def test_panes_are_posted_in_order_a_commit_at_a_time(feed, receiver, format):
    fed = feed(LIVE)
    fed.step(6)
    assert delivered(fed, to_http(receiver.url, batch=3, format=format)) == []
    sent = [rows_of(body) for _, body in receiver.requests]
    assert [row for rows in sent for row in rows] == panes_of(fed)
    assert all(len(rows) <= 3 and len({row["commit"] for row in rows}) == 1 for rows in sent)
    headers, body = receiver.requests[0]
    assert headers["Content-Type"] == {"array": "application/json", "lines": "application/x-ndjson"}[format]
    assert headers["Penstock-View"] == "v"
    first, last = rows_of(body)[0]["pane"], rows_of(body)[-1]["pane"]
    assert headers["Idempotency-Key"] == headers["webhook-id"]
    assert headers["Idempotency-Key"].startswith(f"shop:hook:{first}-{last}:")


def test_a_request_is_signed_as_standard_webhooks_are(feed, receiver, monkeypatch):
    secret = "whsec_" + b64encode(b"0123456789abcdef").decode()
    monkeypatch.setenv("HOOK_SECRET", secret)
    fed = feed(LIVE)
    fed.step(1)
    delivered(fed, to_http(receiver.url, secret="HOOK_SECRET"))
    ((headers, body),) = receiver.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = hmac.new(b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{b64encode(mac).decode()}"


@pytest.mark.parametrize("mode", ["append", "update"])
def test_modes_are_those_of_panes(feed, receiver, mode):
    fed = feed(COUNTS.trigger(ps.on_close()))
    fed.all()
    assert delivered(fed, to_http(receiver.url, mode=mode)) == []
    assert receiver.rows == panes_of(fed) != []


# What goes wrong


@pytest.mark.parametrize("trouble", [500, 503, 408, "cut", "silent", "taken, then cut"])
def test_what_has_no_good_answer_is_sent_again_under_the_same_key(feed, receiver, trouble):
    fed = feed(LIVE)
    fed.step(3)
    receiver.script = [200, trouble, 200, trouble, trouble]
    timeout = 0.5 if trouble == "silent" else 30
    delivered(fed, to_http(receiver.url, batch=4, timeout=timeout), tries=9)
    assert receiver.rows == panes_of(fed), "in order, each once for a receiver that remembers the keys"
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.requests]
    assert len(keys) > len(set(keys)) == len(receiver.taken)
    bodies = {}
    for (_, body), key in zip(receiver.requests, keys, strict=True):
        assert bodies.setdefault(key, body) == body


def test_a_repeat_is_the_same_also_after_a_restart_with_more_panes(feed, receiver):
    fed = feed(LIVE)
    fed.step(2)

    def dies(positions: dict[str, int], deliveries: object) -> None:
        raise RuntimeError("killed")

    dying = fed.delivery({"commit_positions": dies, "app": "shop"}, hook=to_http(receiver.url, batch=3))
    dying.deliver()
    dying.close()
    assert fed.store.position("hook") == 0
    before = len(receiver.requests)
    assert before
    fed.step(3)
    assert delivered(fed, to_http(receiver.url, batch=3)) == []
    assert len(receiver.requests) == before + len(receiver.taken), "all came again"
    assert receiver.rows == panes_of(fed), "and counts once"


def test_rows_of_a_flow_that_got_no_answer_are_cut_as_before(feed, receiver):
    opened = to_http(receiver.url).open(Target("hook", "f", Rows(Schema.parse("v int")), feed().store))
    rows = [{"v": number, "pane": number} for number in range(1, 7)]
    receiver.script = ["taken, then cut"]
    with pytest.raises(SinkError):
        opened.take(Batch(1, 4, rows[:4]))
    opened.take(Batch(1, 6, rows))
    opened.close()
    assert receiver.rows == rows


def test_a_receiver_that_wants_to_be_left_alone_is(feed, receiver):
    fed, now = feed(LIVE), [0.0]
    fed.step(1)
    receiver.script = [(429, {"Retry-After": "120"}), (503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"})]
    delivery = fed.delivery({"clock": lambda: now[0], "retry": (1.0, 3.0)}, hook=to_http(receiver.url))
    tried = []
    for tick in (0, 1, 60, 119, 120, 121, 122, 123):
        now[0] = float(tick)
        before = len(receiver.requests)
        delivery.deliver()
        if len(receiver.requests) > before:
            tried.append(tick)
    assert tried == [0, 120, 122]
    assert delivery.failures == {}
    delivery.close()


def test_a_refused_pane_stops_the_sink_and_what_came_before_it_is_there(feed, receiver):
    fed = feed(LIVE)
    fed.step(6)
    panes = panes_of(fed)
    bad = panes[len(panes) // 2]["pane"]
    receiver.refuses = lambda row: row["pane"] == bad
    told = delivered(fed, to_http(receiver.url), tries=2)
    assert len(told) == 2
    assert f"refuses the pane {bad} of 'v' with 422" in str(told[-1])
    assert "no such thing" in str(told[-1])
    assert [row["pane"] for row in receiver.rows] == [row["pane"] for row in panes if row["pane"] < bad]
    receiver.refuses = lambda row: False
    assert delivered(fed, to_http(receiver.url)) == []
    assert {row["pane"] for row in receiver.rows} == set(fed.ids())


def test_refused_panes_are_set_aside_and_the_others_go_on(feed, receiver, tmp_path, caplog):
    fed = feed(LIVE)
    fed.step(8)
    receiver.refuses = lambda row: row["pane"] % 5 == 0
    aside = str(tmp_path / "aside")
    sink = to_http(receiver.url, on_refusal="set aside", refused=aside)
    delivery = fed.delivery(hook=sink)
    delivery.deliver()
    assert delivery.failures == {}
    bad = [number for number in fed.ids() if number % 5 == 0]
    assert delivery.refused == {"hook": len(bad)}
    delivery.close()
    assert [row["pane"] for row in receiver.rows] == [number for number in fed.ids() if number % 5]
    letters = list(read_refused(aside))
    assert [letter["row"]["pane"] for letter in letters] == bad
    assert {(letter["sink"], letter["status"], letter["reason"], letter["view"]) for letter in letters} == {
        ("hook", 422, "no such thing", "v")
    }
    assert f"has set aside the pane {bad[0]}" in caplog.text
    (file,) = Path(aside).iterdir()
    with file.open("ab") as lines:
        lines.write(b'{"cut by a cra')
    fed.store.delivered({"hook": 0})  # as if the store had not learned of it
    fed.step(3)
    fed.deliver(hook=sink)
    bad = [number for number in fed.ids() if number % 5 == 0]
    assert [letter["row"]["pane"] for letter in read_refused(aside)] == bad, "none twice"


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_what_is_wrong_with_the_address_sets_no_pane_aside(feed, receiver, tmp_path, status):
    fed = feed(LIVE)
    fed.step(2)
    elsewhere = {"Location": receiver.url} if status == 302 else {}
    receiver.script = [(status, elsewhere)] * 2
    sink = to_http(receiver.url, on_refusal="set aside", refused=str(tmp_path))
    told = delivered(fed, sink, tries=2)
    assert [f"answers {status}" in str(error) for error in told] == [True, True]
    assert len(receiver.requests) == 2, "a redirect is not followed"
    assert list(read_refused(tmp_path)) == []


def test_certificates_are_checked(feed, receiver, tmp_path, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    url = f"https://localhost:{receiver.server.server_port}/"
    fed = feed(LIVE)
    fed.step(1)
    (told,) = delivered(fed, to_http(url))
    assert "CERTIFICATE_VERIFY_FAILED" in str(told)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert delivered(fed, to_http(url)) == []
    assert receiver.rows == panes_of(fed)
    (told,) = delivered_more(fed, to_http(url.replace("localhost", "127.0.0.1")))
    assert "CERTIFICATE_VERIFY_FAILED" in str(told), "of another name"


def delivered_more(fed: Fed, sink: ps.sinks.Sink) -> list[BaseException]:
    fed.step(1)
    return delivered(fed, sink)


# What is shown and refused


def test_no_secret_is_shown_anywhere(feed, receiver, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("HOOK_SECRET", "HOOK_TOKEN", "HOOK_URL"):
        monkeypatch.setenv(name, receiver.url if name == "HOOK_URL" else "do not tell")
    fed = feed(LIVE)
    fed.step(2)
    sink = to_http(
        "${HOOK_URL}?token=do%20not%20tell", secret="HOOK_SECRET",
        headers={"Authorization": "Bearer ${HOOK_TOKEN}", "X-Api-Key": "do not tell", "X-Place": "here"},
    )  # fmt: skip
    receiver.script = [500, "cut", "cut"]
    told = delivered(fed, sink, tries=3)
    assert len(told) == 2
    assert receiver.requests[0][0]["Authorization"] == "Bearer do not tell"
    assert receiver.requests[0][0]["X-Api-Key"] == "do not tell"
    shown = [repr(sink), caplog.text, *map(str, told)]
    assert "'Authorization': 'Bearer ${HOOK_TOKEN}', 'X-Api-Key': '…', 'X-Place': 'here'" in repr(sink)
    assert not [text for text in shown if "not tell" in text or "not%20tell" in text or receiver.url in text]
    monkeypatch.delenv("HOOK_TOKEN")
    with pytest.raises(SinkError, match="the variable HOOK_TOKEN of the environment is not set"):
        fed.delivery(hook=sink)


def test_a_sink_prints_as_its_constructor():
    for text in (
        "ps.to_http('https://example.com/x')",
        "ps.to_http('${URL}', batch=5, headers={'X-A': 'b'}, secret='S', timeout=3.0, format='lines', mode='update')",
        "ps.to_http('http://localhost:1/', on_refusal='set aside', refused='aside')",
    ):
        sink = eval(text)
        assert eval(repr(sink)) == sink
        assert repr(sink) == text
        check(sink, LIVE)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{'url': 'ftp://h/'}", "not a URL"), ("{'url': 'https://'}", "cannot be read"),
        ("{'url': 'https://u:secret@h/'}", "with a password in it"), ("{'url': 'http://h:x/'}", "cannot be read"),
        ("{'secret': 'whsec_a+b/c='}", "not the secret itself"), ("{'batch': 0}", "must be a whole number"),
        ("{'timeout': 0}", "must be above zero"), ("{'format': 'xml'}", "unknown format"),
        ("{'headers': {'webhook-id': 'x'}}", "Penstock sets"), ("{'headers': {'a b': 'x'}}", "not a header"),
        ("{'headers': {'a': 'x\\r\\ny: z'}}", "line break"), ("{'on_refusal': 'ignore'}", "unknown handling"),
        ("{'on_refusal': 'set aside'}", "must be named"), ("{'refused': 'd'}", "must be named"),
        ("{'mode': 'complete'}", "unknown mode of a sink 'complete'"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong, told):
    given = {"url": "https://example.com/", **eval(wrong)}
    with pytest.raises(DefinitionError, match=told) as error:
        to_http(given.pop("url"), **given)
    assert "secret@" not in str(error.value)
    assert "a+b/c" not in str(error.value)
