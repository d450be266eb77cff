"""What DeviceHive answers, as far as a device, its provisioning and the reading back ask: its API as published (4.1).

Tokens are checked, a device must be in a network, a notification must have a name and is kept in Redis.
"""

import json
import re
import socketserver
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from looplab.errors import LabError

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

    def ask(self, method: str, path: str, bearer: str, body: Any) -> Any:
        """Answer a request of the provisioning."""
        status, document = self._answer(method, path, bearer, body or {})
        if status >= 400:
            raise LabError(str(document), "")
        return document

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Answer a device's request."""
        bearer = headers["Authorization"].removeprefix("Bearer ")
        return self._answer(method, path, bearer, json.loads(body or b"{}"))[0]

    def _answer(self, method: str, path: str, bearer: str, body: Any) -> tuple[int, Any]:
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
def devicehive() -> Iterator[tuple[DeviceHive, int]]:
    """Yield the API, and the port on loopback at which its Redis answers."""
    state = DeviceHive()

    class Redis(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                sizes = (int(self.rfile.readline()[1:]) for _ in range(int(line[1:])))
                self.wfile.write(state.redis(*(self.rfile.read(size + 2)[:-2].decode() for size in sizes)))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Redis) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield state, server.server_address[1]
        server.shutdown()
