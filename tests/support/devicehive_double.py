"""What DeviceHive answers, as far as a device, its provisioning and the reading back ask: its API as published (4.1).

Tokens are checked, a device must be in a network, a notification must have a name. Devices and notifications are in
Redis.
"""

import json
import re
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOGIN, PASSWORD = "dhadmin", "dhadmin_#911"
_DEVICE = re.compile(r"/api/rest/device/([A-Za-z0-9-]+)(/notification)?")


class Redis:
    """SET, GET, MGET and KEYS of Redis."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def __call__(self, *words: str) -> Any:
        name, *rest = words
        if name == "KEYS":
            pattern = re.escape(rest[0]).replace(r"\*", ".*")
            return [key for key in self.values if re.fullmatch(pattern, key)]
        if name == "SET":
            self.values[rest[0]] = rest[1]
        found = [self.values.get(key) for key in rest]
        return found if name == "MGET" else found[0]


class DeviceHive:
    """The API over a Redis, which `ask` reaches."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._ended = 0.0
        self._made = 0

    def token(self) -> str:
        """Return a fresh access token."""
        return f"access {time.time()}"

    def expire(self) -> None:
        """End every access token."""
        self._ended = time.time()

    def answer(self, method: str, path: str, bearer: str, body: Any) -> tuple[int, Any]:
        """Return status and document."""
        if path.startswith("/auth/rest/token"):
            return self._tokens(body)
        if float(bearer.partition(" ")[2] or 0) <= self._ended:
            return 401, {"error": 401, "message": "Unauthorized"}
        if (method, path) == ("POST", "/api/rest/network"):
            self._ask("SET", "network 7", "lab")
            return 201, {"id": 7}
        found = _DEVICE.fullmatch(path)
        return self._device(method, found[1], bool(found[2]), body) if found else (404, {"error": 404})

    def _tokens(self, body: Any) -> tuple[int, Any]:
        if (body.get("login"), body.get("password")) != (LOGIN, PASSWORD):
            return 401, {"error": 401, "message": "Invalid credentials"}
        return 201, {"accessToken": self.token(), "refreshToken": "refresh"}

    def _device(self, method: str, name: str, notification: bool, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            if not self._ask("GET", f"network {body.get('networkId')}"):
                return 403, {"error": 403}
            self._ask("SET", f"device {name}", "there")
            return 204, None
        if not self._ask("GET", f"device {name}"):
            return 404, {"error": 404, "message": f"Device with such deviceId = {name} not found"}
        if method == "DELETE":
            self._ask("SET", f"device {name}", "")
            return 204, None
        if method == "GET":
            return 200, {"id": name, "networkId": 7}
        if not body.get("notification"):
            return 400, {"error": 400, "message": "Invalid request parameters"}
        self._made += 1
        # Parameters are text of JSON, as its serializer leaves them.
        kept = {"id": self._made, "deviceId": name, "parameters": {"jsonString": json.dumps(body["parameters"])}}
        self._ask("SET", f"notifications_{name}_{time.time_ns()}{self._made}", json.dumps(kept))
        return 201, {"id": self._made, "timestamp": "2026-01-01T00:00:00.000"}


def server(state: DeviceHive) -> ThreadingHTTPServer:
    """Return a server of the API."""

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

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def redis_server(redis: Redis) -> socketserver.ThreadingTCPServer:
    """Return a server of Redis's protocol."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                sizes = (int(self.rfile.readline()[1:]) for _ in range(int(line[1:])))
                self.wfile.write(resp(redis(*(self.rfile.read(size + 2)[:-2].decode() for size in sizes))))

    made = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    return made


def resp(value: Any) -> bytes:
    """Return a value as Redis's protocol has it."""
    if isinstance(value, list):
        return b"*%d\r\n%s" % (len(value), b"".join(map(resp, value)))
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value.encode()), value.encode())


@contextmanager
def devicehive() -> Iterator[tuple[DeviceHive, Redis, int, int]]:
    """Serve the API and its Redis on loopback; yields both, and their ports."""
    redis = Redis()
    state = DeviceHive(redis)
    servers = server(state), redis_server(redis)
    threads = [threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True) for one in servers]
    for thread in threads:
        thread.start()
    try:
        yield state, redis, servers[0].server_address[1], servers[1].server_address[1]
    finally:
        for one, thread in zip(servers, threads, strict=True):
            one.shutdown()
            one.server_close()
            thread.join()
