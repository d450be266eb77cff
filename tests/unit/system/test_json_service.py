"""The lab's JSON services and their clients, over real sockets on loopback."""

import contextlib
import http.client
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from looplab.errors import EXIT_INVALID, EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.lab import metrics_page
from looplab.spec.brokers import BROKERS
from looplab.system import json_service
from looplab.system.json_client import Service
from looplab.system.json_service import MAX_REQUEST_BYTES, MOST_CLIENTS, Request, serve, server_tls
from looplab.treatments import broker

SERVICE = Service("thing", "Start it.")


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a service at 127.0.0.1, and of a client that trusts its authority."""
    authority, client = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "service.pem")
    authority.configure_trust(client)
    return server_tls(folder / "service.pem"), client


def answer(request: Request) -> dict[str, object]:
    """Gives back what was asked, or fails in the way that was asked for."""
    if isinstance(request.body, int):
        raise LabError("It failed.", "Do better.", request.body)
    if request.body == "bug":
        raise KeyError("missing")
    return {"query": dict(request.query), "body": request.body, "client": request.client}


@contextlib.contextmanager
def served(*token: Callable[[], str], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a service."""
    server = serve("127.0.0.1", 0, {"PUT /thing": answer, "GET /thing": answer}, "Set `PORT`.", *token, tls=tls)
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as found:
        yield found


def test_no_call_between_parts_goes_through_a_proxy(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the engine's client sets it where its config.json names `proxies`; nothing listens there."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    given = {"query": {"ping": "3"}, "body": [1, {"a": None}], "client": "127.0.0.1"}
    assert SERVICE.ask(f"http://127.0.0.1:{port}/thing?ping=3", "PUT", given["body"]) == given
    assert "query" in metrics_page.fetch(f"http://127.0.0.1:{port}/thing")
    assert "query" in broker.read_page(replace(BROKERS["rabbitmq"], page=f"{port}/thing"), "127.0.0.1")


def test_a_services_error_is_its_clients(port: int) -> None:
    for code in (EXIT_USAGE, EXIT_INVALID, EXIT_MACHINE):
        with pytest.raises(LabError) as caught:
            SERVICE.ask(f"http://127.0.0.1:{port}/thing", "PUT", code)
        assert (caught.value.message, caught.value.remedy, caught.value.exit_code) == ("It failed.", "Do better.", code)
    with pytest.raises(LabError, match="missing") as caught:
        SERVICE.ask(f"http://127.0.0.1:{port}/thing", "PUT", "bug")
    assert caught.value.exit_code == EXIT_USAGE
    with pytest.raises(LabError, match="no PUT /else") as caught:
        SERVICE.ask(f"http://127.0.0.1:{port}/else", "PUT", 1)
    assert "PUT /thing or GET /thing" in caught.value.remedy


@pytest.mark.parametrize(
    ("length", "body", "words"),
    [
        ("", b"", "missing"),
        ("0", b"", "is 0"),
        ("much", b"", "much"),
        (str(MAX_REQUEST_BYTES + 1), b"", str(MAX_REQUEST_BYTES + 1)),
        ("2", b"{x", "not JSON"),
        ("2", b"\xff\xfe", "not JSON"),
        ("60000", b"[" * 60000, "not JSON"),
    ],
)
def test_a_bad_body_is_refused(port: int, length: str, body: bytes, words: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("PUT", "/thing")
    connection.putheader("Content-Type", "application/json; charset=utf-8")
    if length:
        connection.putheader("Content-Length", length)
    connection.endheaders(body)
    reply = connection.getresponse()
    assert reply.status == 400
    assert words in json.load(reply)["message"]
    connection.close()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_web_pages_form_is_refused(port: int, kind: str) -> None:
    """What a page may send another site unasked; JSON needs that site's word first, by OPTIONS."""
    for method, status in (("PUT", 400), ("OPTIONS", 501)):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request(method, "/thing", b'{"a": 1}', {"Content-Type": kind} if kind else {})
        assert connection.getresponse().status == status
        connection.close()


def test_only_who_has_the_token_is_answered() -> None:
    now = ["first"]
    with served(lambda: now[0]) as port:
        url = f"http://127.0.0.1:{port}/thing"
        assert SERVICE.ask(url, "PUT", 1.5, token="first")["body"] == 1.5
        for token in ("", "fir", "first2", "FIRST", "é"):
            with pytest.raises(LabError, match="wrong token") as caught:
                SERVICE.ask(url, "PUT", EXIT_MACHINE, token=token)
            assert caught.value.exit_code == EXIT_USAGE
        # A new one replaces it; none at all opens nothing.
        for now[0], token in (("second", "first"), ("", "")):
            with pytest.raises(LabError, match="wrong token"):
                SERVICE.ask(url, "PUT", 1.5, token=token)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.putrequest("PUT", "/thing")
        # A stranger's body is not read: it never comes.
        connection.putheader("Content-Length", "60000")
        connection.endheaders()
        assert connection.getresponse().status == 401
        connection.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_silent_clients_are_few_and_cut_off(monkeypatch: pytest.MonkeyPatch, scheme: str, tmp_path: Path) -> None:
    monkeypatch.setattr(json_service._Handler, "timeout", 0.5)
    tls, client = certified(tmp_path) if scheme == "https" else (None, None)
    with served(tls=tls) as port:
        before = threading.active_count()
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * MOST_CLIENTS)]
        here = SERVICE._replace(tls=client)
        assert here.ask(f"{scheme}://127.0.0.1:{port}/thing", "GET")["body"] is None
        assert threading.active_count() <= before + MOST_CLIENTS
        for one in silent:
            one.settimeout(20)
            assert one.recv(1) == b""
            one.close()


def test_a_service_without_tls_or_a_readable_certificate_is_named(port: int, tmp_path: Path) -> None:
    _, client = certified(tmp_path)
    with pytest.raises(LabError, match=r"The thing at https://\S+ does not answer: .*SSL") as caught:
        SERVICE._replace(tls=client).ask(f"https://127.0.0.1:{port}/thing", "GET")
    assert "./lab down" in caught.value.remedy
    (tmp_path / "empty.pem").touch()
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(LabError, match=f"{name} cannot be used"):
            server_tls(tmp_path / name)


@pytest.mark.parametrize(("body", "announced_bytes"), [(b"no json", 7), (b"", 0), (b'{"roles": {}', 4000)])
def test_an_answer_that_is_none_or_cut_short_is_no_answer(body: bytes, announced_bytes: int) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(announced_bytes))
            self.end_headers()
            self.wfile.write(body)

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(LabError, match="does not answer"):
            SERVICE.ask(f"http://127.0.0.1:{server.server_port}/", "GET")
