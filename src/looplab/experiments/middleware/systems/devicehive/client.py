"""What is asked of DeviceHive: to know devices, to take their notifications, to return them.

It keeps them in Kafka and Redis, not in PostgreSQL.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.middleware.systems import Answer, Ask, Client
from looplab.experiments.middleware.systems.devicehive import AUTH, FRONTEND

JSON = "application/json"
# The name of every notification; their parameters distinguish them.
NOTIFICATION = "lab"
# What a fresh database of DeviceHive has; nothing but the balancer is published.
ACCOUNT = {"login": "dhadmin", "password": "dhadmin_#911"}
TIMEOUT_S = 10.0
MOST = 1_000_000


class Adapter:
    """One device with the `entry` that its provisioning returned."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._access, self._refresh = str(entry["access"]), str(entry["refresh"])
        self._own = f"/api/rest/device/{entry['device']}"

    def authorise(self, client: Client) -> Answer:
        """Ask for the device itself: the token must be valid and allow it."""
        status, _ = client.request("GET", self._own, self._headers(), b"")
        return Answer(status, status == 200)

    def refresh(self, client: Client) -> Answer:
        """Exchange the refresh token for a fresh access token."""
        body = json.dumps({"refreshToken": self._refresh}).encode()
        status, answer = client.request("POST", "/auth/rest/token/refresh", {"Content-Type": JSON}, body)
        if status == 201:
            self._access = str(json.loads(answer)["accessToken"])
        return Answer(status, status == 201)

    def post(self, client: Client, name: str, payload: str) -> Answer:
        body = json.dumps({"notification": NOTIFICATION, "parameters": {"n": name, "v": payload}}).encode()
        status, _ = client.request("POST", f"{self._own}/notification", self._headers(), body)
        return Answer(status, status == 201)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._access}", "Content-Type": JSON}


def provision(ask: Ask, _password: str, devices: int, token: str) -> list[dict[str, Any]]:
    """Make one network and the devices in it; return their entries. `token` names the run.

    Raises LabError if the middleware refuses.
    """
    pair = ask("POST", "/auth/rest/token", "", ACCOUNT)
    bearer = str(pair["accessToken"])
    network = ask("POST", "/api/rest/network", bearer, {"name": f"lab {token}", "description": "looplab"})
    if "id" not in network:
        raise MachineError("DeviceHive made no network.", "See `docker compose logs` of the node.")
    entries = []
    for number in range(devices):
        name = _device_name(token, number)
        ask("PUT", f"/api/rest/device/{name}", bearer, {"name": name, "networkId": network["id"]})
        entries.append({"device": name, "access": bearer, "refresh": str(pair["refreshToken"])})
    return entries


def _device_name(token: str, number: int) -> str:
    return f"lab-{token}-{number}"


def stored(
    hosts: Mapping[str, str], _secrets: Mapping[str, str], prefix: str, ports: tuple[int, int] = (AUTH, FRONTEND)
) -> Iterator[str]:
    """Yield the name of each notification whose name begins with `prefix`. Raises OSError if a node does not answer.

    `hosts["node"]` is a node of the middleware; `ports` are those of its services auth and frontend.
    """
    auth, frontend = (f"http://{hosts['node']}:{port}" for port in ports)
    pair = _ask(f"{auth}/auth/rest/token", "", ACCOUNT)
    token = prefix.partition("-")[0]
    for number in count():
        path = f"/api/rest/device/{_device_name(token, number)}/notification?notification={NOTIFICATION}&take={MOST}"
        notifications = _ask(f"{frontend}{path}", str(pair["accessToken"]))
        if notifications is None:
            return
        names = (str((entry.get("parameters") or {}).get("n", "")) for entry in notifications)
        yield from (name for name in names if name.startswith(prefix))


def _ask(url: str, bearer: str, document: object = None) -> Any:
    """Return the JSON of an answer, None if there is no such device. Raises OSError."""
    data = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": JSON, **({"Authorization": f"Bearer {bearer}"} if bearer else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=TIMEOUT_S) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
        raise
    except ValueError as error:
        raise OSError(f"{url} answered no JSON") from error
