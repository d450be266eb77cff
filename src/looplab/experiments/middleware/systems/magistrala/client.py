"""Requests to Magistrala: provision devices, post their notifications, and read back what its writer has stored."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.errors import LabError
from looplab.experiments.middleware.systems import Ask, Send

SENML = "application/senml+json"
EMAIL = "admin@looplab.invalid"
BULK = 100
AT_ONCE = 8
# SpiceDB answers from a state that is up to 5 s old, and may refuse an object that was just made.
PATIENCE_S = 15.0
PAUSE_S = 0.5


class MagistralaAdapter:
    """One device with the `entry` that its provisioning returned."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.access = str(entry["access"])
        self._own = f"/{entry['domain']}/things/{entry['thing']}"
        self._messages = f"/channels/{entry['channel']}/messages"
        self._headers = {"Authorization": f"Thing {entry['key']}", "Content-Type": SENML}

    def authorise(self, send: Send) -> int:
        """Ask for the device's own thing: its owner's token, and SpiceDB, must allow it."""
        return send("GET", self._own, {"Authorization": f"Bearer {self.access}"}, b"")

    def post(self, send: Send, name: str, payload: str) -> int:
        """Post one notification as SenML; raw bytes would be refused with 415."""
        body = b'[{"n":"%s","vs":"%s"}]' % (name.encode(), payload.encode())
        return send("POST", self._messages, self._headers, body)


Adapter = MagistralaAdapter


def provision(ask: Ask, password: str, devices: int, token: str) -> list[dict[str, Any]]:
    """Make one user, one domain, one channel, and a thing for each device, connected to it; return the entries.

    `token` names the run. Raises LabError if the middleware refuses.
    """
    ask = _patient(ask)
    bearer = ask("POST", "/users/tokens/issue", "", {"identity": EMAIL, "secret": password})["access_token"]
    domain = ask("POST", "/domains", bearer, {"name": f"lab {token}", "alias": f"lab-{token}"})["id"]
    channel = ask("POST", f"/{domain}/channels", bearer, {"name": f"lab {token}"})["id"]
    things: list[dict[str, Any]] = []
    while len(things) < devices:
        wanted = [{"name": f"device {number}"} for number in range(len(things), min(devices, len(things) + BULK))]
        things += ask("POST", f"/{domain}/things/bulk", bearer, wanted)["things"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        paths = [f"/{domain}/channels/{channel}/things/{thing['id']}/connect" for thing in things]
        list(pool.map(lambda path: ask("POST", path, bearer, None), paths))
    shared = {"domain": domain, "channel": channel, "access": bearer}
    return [{"thing": thing["id"], "key": thing["credentials"]["secret"], **shared} for thing in things]


def warm_up(ask: Ask, send: Send, entry: Mapping[str, Any], name: str) -> int:
    """Register a thing, post a notification of the device with this `entry`, remove the thing. Raises LabError."""
    device, things = MagistralaAdapter(entry), f"/{entry['domain']}/things"
    thing = ask("POST", things, device.access, {"name": name})["id"]
    status = device.post(send, name, name)
    ask("DELETE", f"{things}/{thing}", device.access, None)
    return status


def _patient(ask: Ask) -> Ask:
    """Return `ask` that tries again for PATIENCE_S."""

    def asked(method: str, path: str, bearer: str, document: object) -> Any:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask(method, path, bearer, document)
            except LabError:
                if time.monotonic() > end_s:
                    raise
            time.sleep(PAUSE_S)

    return asked


def stored(hosts: Mapping[str, str], secrets: Mapping[str, str], prefix: str) -> Iterator[str]:
    """Yield the name of each row whose name begins with `prefix`. Raises OSError if the database cannot be read."""
    # Only the image of the controller has psycopg.
    import psycopg

    where = f"host={hosts['postgres']} user=magistrala dbname=messages connect_timeout=5"
    try:
        with psycopg.connect(where, password=secrets["postgres"]) as connection, connection.cursor("names") as cursor:
            cursor.execute("SELECT name FROM messages WHERE starts_with(name, %s)", (prefix,))
            for (name,) in cursor:
                yield name
    except psycopg.Error as error:
        raise OSError(str(error)) from error
