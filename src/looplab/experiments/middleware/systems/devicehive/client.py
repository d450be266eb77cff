"""Requests to DeviceHive: provision devices, post their notifications, and read back what it keeps in Redis."""

import json
import socket
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from itertools import islice
from typing import Any

from looplab.experiments.middleware.systems import Ask, Send

REDIS = 6379
JSON = "application/json"
# All notifications have this name. Their parameters distinguish them.
NOTIFICATION = "lab"
# A fresh database of DeviceHive has this account. Only the balancer can be reached from outside.
ACCOUNT = {"login": "dhadmin", "password": "dhadmin_#911"}
# The key of a notification in Redis begins with this word, then come its device and its number.
KEYS = "notifications"
TIMEOUT_S = 10.0
# So many values are read together.
AT_ONCE = 1000


class DeviceHiveAdapter:
    """One device with the `entry` that its provisioning returned."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.access = str(entry["access"])
        self._own = f"/api/rest/device/{entry['device']}"

    def authorise(self, send: Send) -> int:
        """Ask for the device itself: the token must be valid and allow it."""
        return send("GET", self._own, self._headers(), b"")

    def post(self, send: Send, name: str, payload: str) -> int:
        body = json.dumps({"notification": NOTIFICATION, "parameters": {"n": name, "v": payload}}).encode()
        return send("POST", f"{self._own}/notification", self._headers(), body)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.access}", "Content-Type": JSON}


Adapter = DeviceHiveAdapter


def provision(ask: Ask, _password: str, devices: int, token: str) -> list[dict[str, Any]]:
    """Make one network and the devices in it; return their entries. `token` names the run.

    Raises LabError if the middleware refuses.
    """
    bearer = str(ask("POST", "/auth/rest/token", "", ACCOUNT)["accessToken"])
    network = ask("POST", "/api/rest/network", bearer, {"name": f"lab {token}", "description": "looplab"})
    entries = []
    for number in range(devices):
        name = _device_name(token, number)
        ask("PUT", f"/api/rest/device/{name}", bearer, {"name": name, "networkId": network["id"]})
        entries.append({"device": name, "network": network["id"], "access": bearer})
    return entries


def warm_up(ask: Ask, send: Send, entry: Mapping[str, Any], name: str) -> int:
    """Register a device, post a notification of it, remove it. Raises LabError."""
    device, path = DeviceHiveAdapter({**entry, "device": name}), f"/api/rest/device/{name}"
    ask("PUT", path, device.access, {"name": name, "networkId": entry["network"]})
    status = device.post(send, name, name)
    ask("DELETE", path, device.access, None)
    return status


def _device_name(token: str, number: int | str) -> str:
    return f"lab-{token}-{number}"


def stored(hosts: Mapping[str, str], _secrets: Mapping[str, str], prefix: str, port: int = REDIS) -> Iterator[str]:
    """Yield the name of each notification whose name begins with `prefix`. Raises OSError if Redis does not answer.

    DeviceHive's own query hangs while keys expire, and scans all of Redis for each device.
    """
    keys = f"{KEYS}_{_device_name(prefix.partition('-')[0], '*')}_*"
    with (
        socket.create_connection((hosts["redis"], port), TIMEOUT_S) as connection,
        connection.makefile("rwb") as stream,
    ):
        names = map(bytes.decode, _redis(stream, "KEYS", keys))
        while some := list(islice(names, AT_ONCE)):
            # A key that has expired meanwhile has no value.
            for value in _redis(stream, "MGET", *some):
                name = _name(value or b"{}")
                if name.startswith(prefix):
                    yield name


def _name(value: bytes) -> str:
    """Return the name in a notification as DeviceHive keeps it: its parameters are text of JSON in JSON."""
    parameters = json.loads(value).get("parameters") or {}
    return str(json.loads(parameters.get("jsonString") or "{}").get("n", ""))


def _redis(stream: BufferedIOBase, *words: str) -> Any:
    """Return Redis's answer to a command. Raises OSError."""
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)]
    stream.write(b"*%d\r\n%s" % (len(parts), b"".join(parts)))
    stream.flush()
    return _reply(stream)


def _reply(stream: BufferedIOBase) -> Any:
    """Return an array or a bulk string of Redis's protocol (RESP2), None for one that is nil."""
    line = stream.readline()
    kind, size = line[:1], line[1:-2]
    if kind == b"*":
        return [_reply(stream) for _ in range(int(size))]
    if kind != b"$":
        raise OSError(f"Redis answered {line!r}.")
    return None if size == b"-1" else stream.read(int(size) + 2)[:-2]
