"""JSON over HTTP between the lab's small services and their clients; nothing but the standard library.

A service answers 200, or 400 (wrong use), 401 (wrong token), 404, 409 (refused), 503 (unavailable) with {"message",
"remedy"}, from which `ask` (json_client.py) makes the service's LabError again. A body must be of type
application/json: a web page may send another site no such request unless that site allows it, and no service does.
"""

import contextlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from looplab.errors import LabError, MachineError, UsageError
from looplab.system.json_client import JSON, STATUS

MAX_REQUEST_BYTES = 65536
# A client that sends nothing for so long is cut off, and no more are served at once: the others wait.
SILENCE_S = 10.0
MOST_CLIENTS = 32


class Request(NamedTuple):
    """One request: the parameters after `?`, the decoded body (None without one), the client's address."""

    query: Mapping[str, str]
    body: Any
    client: str


Routes = Mapping[str, Callable[[Request], dict[str, Any]]]


def server_tls(certificate: Path) -> ssl.SSLContext:
    """Return TLS 1.2 or later with the certificate and key in one file. Raises LabError (exit code 3)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    remedy = "`prepare` writes it at each start: start the lab again."
    with MachineError.of_os(f"The certificate {certificate} cannot be used", remedy):
        context.load_cert_chain(certificate)
    return context


def serve(
    address: str,
    port: int,
    routes: Routes,
    remedy: str,
    token: Callable[[], str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> ThreadingHTTPServer:
    """Answer `routes` ("PUT /links": function) in threads of their own, and return the server.

    With `token` only requests that carry what it then returns are answered; an empty one opens nothing.
    With `tls` none is answered without it.
    Raises LabError (exit code 3) with `remedy` if the port cannot be opened.
    """
    with MachineError.of_os(f"Port {address}:{port} cannot be opened", remedy):
        server = BoundedServer((address, port), partial(_Handler, routes, token))
        if tls is not None:
            # Each client's thread shakes hands, so a silent client holds up no other.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def check_client(request: Request, control: str, variable: str) -> None:
    """Raise LabError unless the request is of this network namespace or of the host `control`, set by `variable`."""
    if request.client.startswith("127."):
        return
    with contextlib.suppress(OSError):
        if control and request.client in {at[4][0] for at in socket.getaddrinfo(control, None, socket.AF_INET)}:
            return
    raise LabError("Only this service's own network namespace may do that.", f"Set `{variable}`.")


class BoundedServer(ThreadingHTTPServer):
    """Serves MOST_CLIENTS at once, each in a thread of its own."""

    daemon_threads = True
    request_queue_size = MOST_CLIENTS

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)

    def server_bind(self) -> None:
        """Open the port; HTTPServer would ask the DNS for its own name, which takes 15 s where none answers."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S

    def __init__(self, routes: Routes, token: Callable[[], str] | None, *given: Any) -> None:
        self._routes, self._token = routes, token
        # It answers at once.
        super().__init__(*given)

    def handle(self) -> None:
        """Answer, but print nothing about a client that hangs up, speaks no TLS or trusts another authority."""
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            super().handle()

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        act = self._routes.get(f"{self.command} {path}")
        if act is None:
            self.close_connection = True
            self._reply(404, _error(f"There is no {self.command} {path}.", f"Send {' or '.join(self._routes)}."))
            return
        try:
            if not self._allowed():
                # Of a stranger, no body is read.
                self.close_connection = True
                self._reply(401, _error("The request has the wrong token.", "Only parts of this start may ask."))
                return
            request = Request(dict(parse_qsl(query)), self._body(), self.client_address[0])
            self._reply(200, act(request))
        except LabError as error:
            self._reply(STATUS.get(error.exit_code, 503), _error(error.message, error.remedy))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._reply(400, _error(f"The request was not understood: {error!r}.", "Correct the request."))

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def _allowed(self) -> bool:
        if self._token is None:
            return True
        expected, sent = self._token(), self.headers.get("Authorization", "")
        return expected != "" and hmac.compare_digest(sent.encode(), f"Bearer {expected}".encode())

    def _body(self) -> Any:
        length = self.headers.get("Content-Length")
        if length is None and self.command in ("GET", "DELETE"):
            return None
        if length is None or not length.isdigit() or not 0 < int(length) <= MAX_REQUEST_BYTES:
            self.close_connection = True
            raise UsageError(f"The request's body is {length or 'missing'}.", f"Send 1 to {MAX_REQUEST_BYTES} bytes.")
        body = self.rfile.read(int(length))
        if self.headers.get_content_type() != JSON:
            raise UsageError(f"The request's body is {self.headers.get_content_type()}.", f"Send {JSON}.")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The request is not JSON: {error}.", "Send JSON.") from None

    def _reply(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Print nothing: a line for each request would only wake the disk."""


def _error(message: str, remedy: str) -> dict[str, str]:
    return {"message": message, "remedy": remedy}
