"""What DeviceHive answers, as far as a device, its provisioning and the reading back ask: its API as published (4.1).

Tokens are checked, a device must be in a network, a notification must have a name. `expire` ends every access token.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOGIN, PASSWORD = "dhadmin", "dhadmin_#911"
_DEVICE = re.compile(r"/api/rest/device/([A-Za-z0-9-]+)(/notification)?(?:\?.*)?")


class DeviceHive:
    """The state behind the API: tokens that are valid, networks, devices, their notifications."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.networks = 0
        self.notifications: dict[str, list[dict[str, Any]]] = {}
        self._made = 0

    def token(self) -> str:
        """Return a fresh access token."""
        self._made += 1
        self.tokens.add(f"access-{self._made}")
        return f"access-{self._made}"

    def expire(self) -> None:
        """End every access token."""
        self.tokens.clear()

    def answer(self, method: str, path: str, bearer: str, body: Any) -> tuple[int, Any]:
        """Return status and document."""
        if path.startswith("/auth/rest/token"):
            return self._tokens(path, body)
        if bearer not in self.tokens:
            return 401, {"error": 401, "message": "Unauthorized"}
        if (method, path) == ("POST", "/api/rest/network"):
            self.networks += 1
            return 201, {"id": self.networks}
        found = _DEVICE.fullmatch(path)
        return self._device(method, found[1], bool(found[2]), body) if found else (404, {"error": 404})

    def _tokens(self, path: str, body: Any) -> tuple[int, Any]:
        if path.endswith("/refresh"):
            good = body.get("refreshToken") == "refresh"
            return (201, {"accessToken": self.token()}) if good else (401, {"error": 401})
        if (body.get("login"), body.get("password")) != (LOGIN, PASSWORD):
            return 401, {"error": 401, "message": "Invalid credentials"}
        return 201, {"accessToken": self.token(), "refreshToken": "refresh"}

    def _device(self, method: str, name: str, notification: bool, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            if not 1 <= body.get("networkId", 0) <= self.networks:
                return 403, {"error": 403}
            self.notifications.setdefault(name, [])
            return 204, None
        if name not in self.notifications:
            return 404, {"error": 404, "message": f"Device with such deviceId = {name} not found"}
        held = self.notifications[name]
        if method == "GET":
            return 200, held if notification else {"id": name, "networkId": 1}
        if not body.get("notification"):
            return 400, {"error": 400, "message": "Invalid request parameters"}
        held.append({"id": len(held) + 1, "deviceId": name, **body})
        return 201, {"id": len(held), "timestamp": "2026-01-01T00:00:00.000"}


@contextmanager
def devicehive() -> Iterator[tuple[DeviceHive, int]]:
    """Serve the API on a port of loopback; yields the state and the port."""
    state = DeviceHive()

    class Handler(BaseHTTPRequestHandler):
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

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state, server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
