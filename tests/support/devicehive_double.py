"""What DeviceHive answers, as far as a device, its provisioning and the reading back ask: its API as published (4.1).

Tokens are checked, a device must be in a network, a notification must have a name and is kept in Redis.
"""

import json
import re
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOGIN, PASSWORD = "dhadmin", "dhadmin_#911"
NETWORK = 7
_DEVICE = re.compile(r"/api/rest/device/([A-Za-z0-9-]+)(/notification)?")


class DeviceHive:
    """The API: its `devices`, and in `kept` what Redis has of each notification."""

    def __init__(self) -> None:
        self.devices: set[str] = set()
        self.kept: dict[str, str] = {}
        self._ended = 0.0

    def token(self) -> str:
        """Return a fresh access token."""
        return f"access {time.time()}"

    def expire(self) -> None:
        """End every access token."""
        self._ended = time.time()

    def answer(self, method: str, path: str, bearer: str, body: Any) -> tuple[int, Any]:
        """Return status and document."""
        if path.startswith("/auth/rest/token"):
            known = (body.get("login"), body.get("password")) == (LOGIN, PASSWORD)
            return (201, {"accessToken": self.token()}) if known else (401, {"error": 401})
        if float(bearer.partition(" ")[2] or 0) <= self._ended:
            return 401, {"error": 401, "message": "Unauthorized"}
        if (method, path) == ("POST", "/api/rest/network"):
            return 201, {"id": NETWORK}
        found = _DEVICE.fullmatch(path)
        return self._device(method, found[1], bool(found[2]), body) if found else (404, {"error": 404})

    def _device(self, method: str, name: str, notification: bool, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            if body.get("networkId") != NETWORK:
                return 403, {"error": 403}
            self.devices.add(name)
            return 204, None
        if name not in self.devices:
            return 404, {"error": 404, "message": f"Device with such deviceId = {name} not found"}
        if method == "DELETE":
            self.devices.remove(name)
            return 204, None
        if not notification:
            return 200, {"id": name, "networkId": NETWORK}
        if not body.get("notification"):
            return 400, {"error": 400, "message": "Invalid request parameters"}
        # Parameters are text of JSON, as its serializer leaves them.
        kept = {"deviceId": name, "parameters": {"jsonString": json.dumps(body["parameters"])}}
        self.kept[f"notifications_{name}_{time.time_ns()}{len(self.kept)}"] = json.dumps(kept)
        return 201, {"id": len(self.kept)}

    def redis(self, name: str, *words: str) -> bytes:
        """Return Redis's answer to KEYS or MGET."""
        if name == "MGET":
            return _array([self.kept.get(key) for key in words])
        pattern = re.escape(words[0]).replace(r"\*", ".*")
        return _array([key for key in self.kept if re.fullmatch(pattern, key)])


def _array(values: list[str | None]) -> bytes:
    """Return an array as Redis's protocol has it, nil for a key that it lacks."""
    parts = [b"$-1\r\n" if one is None else b"$%d\r\n%s\r\n" % (len(one.encode()), one.encode()) for one in values]
    return b"*%d\r\n%s" % (len(parts), b"".join(parts))


@contextmanager
def devicehive() -> Iterator[tuple[DeviceHive, int, int]]:
    """Serve the API and its Redis on loopback; yields the state, and both ports."""
    state = DeviceHive()

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            held = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            status, document = state.answer(self.command, self.path, bearer, json.loads(held) if held else {})
            body = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Redis(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                sizes = (int(self.rfile.readline()[1:]) for _ in range(int(line[1:])))
                self.wfile.write(state.redis(*(self.rfile.read(size + 2)[:-2].decode() for size in sizes)))

    servers = ThreadingHTTPServer(("127.0.0.1", 0), Api), socketserver.ThreadingTCPServer(("127.0.0.1", 0), Redis)
    for one in servers:
        one.daemon_threads = True
        threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield state, servers[0].server_address[1], servers[1].server_address[1]
    finally:
        for one in servers:
            one.shutdown()
            one.server_close()
