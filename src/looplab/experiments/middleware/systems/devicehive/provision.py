"""Make devices known to DeviceHive: one network, and the devices in it."""

from collections.abc import Callable
from typing import Any

from looplab.errors import MachineError

# Asks the middleware: method, path, bearer token, body as JSON; returns the answer's JSON. Raises LabError.
Ask = Callable[[str, str, str, object], Any]
# What a fresh database of DeviceHive has; nothing but the balancer is published.
LOGIN, PASSWORD = "dhadmin", "dhadmin_#911"


def provision(ask: Ask, _password: str, devices: int, token: str) -> list[dict[str, Any]]:
    """Return an entry for each of `devices`; `token` names the run. Raises LabError if the middleware refuses."""
    pair = ask("POST", "/auth/rest/token", "", {"login": LOGIN, "password": PASSWORD})
    bearer = str(pair["accessToken"])
    network = ask("POST", "/api/rest/network", bearer, {"name": f"lab {token}", "description": "looplab"})
    if "id" not in network:
        raise MachineError("DeviceHive made no network.", "See `docker compose logs` of the node.")
    entries = []
    for number in range(devices):
        name = device_name(token, number)
        ask("PUT", f"/api/rest/device/{name}", bearer, {"name": name, "networkId": network["id"]})
        entries.append({"device": name, "access": bearer, "refresh": str(pair["refreshToken"])})
    return entries


def device_name(token: str, number: int) -> str:
    return f"lab-{token}-{number}"
