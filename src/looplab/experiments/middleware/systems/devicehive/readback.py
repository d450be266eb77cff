"""Read the notifications back by DeviceHive's own API: it keeps them in Kafka and Redis, not in PostgreSQL."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from looplab.experiments.middleware.systems.devicehive import AUTH, FRONTEND
from looplab.experiments.middleware.systems.devicehive.adapter import NOTIFICATION
from looplab.experiments.middleware.systems.devicehive.provision import LOGIN, PASSWORD, device_name

TIMEOUT_S = 10.0
MOST = 1_000_000


def stored(
    hosts: Mapping[str, str], _secrets: Mapping[str, str], prefix: str, ports: tuple[int, int] = (AUTH, FRONTEND)
) -> Iterator[str]:
    """Yield the name of each notification whose name begins with `prefix`. Raises OSError if a node does not answer.

    `hosts["node"]` is a node of the middleware; `ports` are those of its services auth and frontend.
    """
    auth, frontend = (f"http://{hosts['node']}:{port}" for port in ports)
    pair = _ask(f"{auth}/auth/rest/token", "", {"login": LOGIN, "password": PASSWORD})
    token = prefix.partition("-")[0]
    for number in count():
        path = f"/api/rest/device/{device_name(token, number)}/notification?notification={NOTIFICATION}&take={MOST}"
        notifications = _ask(f"{frontend}{path}", str(pair["accessToken"]))
        if notifications is None:
            return
        names = (str((entry.get("parameters") or {}).get("n", "")) for entry in notifications)
        yield from (name for name in names if name.startswith(prefix))


def _ask(url: str, bearer: str, document: object = None) -> Any:
    """Return the JSON of an answer, None if there is no such device. Raises OSError."""
    data = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {bearer}"} if bearer else {})}
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
