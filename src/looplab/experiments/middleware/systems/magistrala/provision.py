"""Make devices known to Magistrala: one user, one domain, one channel, and a thing for each device, connected to it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.errors import LabError

# Asks the middleware: method, path, bearer token, body as JSON; returns the answer's JSON. Raises LabError.
Ask = Callable[[str, str, str, object], dict[str, Any]]
EMAIL = "admin@looplab.invalid"
BULK = 100
AT_ONCE = 8
# SpiceDB answers from a state that is up to 5 s old: what has just been made may be refused.
PATIENCE_S = 15.0
PAUSE_S = 0.5


def provision(ask: Ask, password: str, devices: int, token: str) -> list[dict[str, Any]]:
    """Return an entry for each of `devices`; `token` names the run. Raises LabError if the middleware refuses."""
    ask = _patient(ask)
    access = ask("POST", "/users/tokens/issue", "", {"identity": EMAIL, "secret": password})
    bearer = access["access_token"]
    domain = ask("POST", "/domains", bearer, {"name": f"lab {token}", "alias": f"lab-{token}"})["id"]
    channel = ask("POST", f"/{domain}/channels", bearer, {"name": f"lab {token}"})["id"]
    things: list[dict[str, Any]] = []
    while len(things) < devices:
        wanted = [{"name": f"device {number}"} for number in range(len(things), min(devices, len(things) + BULK))]
        things += ask("POST", f"/{domain}/things/bulk", bearer, wanted)["things"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        paths = [f"/{domain}/channels/{channel}/things/{thing['id']}/connect" for thing in things]
        list(pool.map(lambda path: ask("POST", path, bearer, None), paths))
    return [
        {
            "thing": thing["id"],
            "key": thing["credentials"]["secret"],
            "domain": domain,
            "channel": channel,
            "access": bearer,
            "refresh": access["refresh_token"],
        }
        for thing in things
    ]


def _patient(ask: Ask) -> Ask:
    """Return `ask` that tries again for PATIENCE_S."""

    def asked(method: str, path: str, bearer: str, document: object) -> dict[str, Any]:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask(method, path, bearer, document)
            except LabError:
                if time.monotonic() > end_s:
                    raise
            time.sleep(PAUSE_S)

    return asked
