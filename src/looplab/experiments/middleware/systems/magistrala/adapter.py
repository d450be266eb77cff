"""What one device asks of Magistrala: whether it may, a fresh token, to take a notification."""

import json
from collections.abc import Mapping
from typing import Any

from looplab.experiments.middleware.systems import Answer, Client

JSON, SENML = "application/json", "application/senml+json"


class Adapter:
    """One device with the `entry` that its provisioning returned."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._access, self._refresh = str(entry["access"]), str(entry["refresh"])
        self._own = f"/{entry['domain']}/things/{entry['thing']}"
        self._messages = f"/channels/{entry['channel']}/messages"
        self._headers = {"Authorization": f"Thing {entry['key']}", "Content-Type": SENML}

    def authorise(self, client: Client) -> Answer:
        """Ask for the device's own thing: its owner's token, and SpiceDB, must allow it."""
        status, _ = client.request("GET", self._own, {"Authorization": f"Bearer {self._access}"}, b"")
        return Answer(status, status == 200)

    def refresh(self, client: Client) -> Answer:
        """Exchange the refresh token for a fresh pair."""
        headers = {"Authorization": f"Bearer {self._refresh}", "Content-Type": JSON}
        body = json.dumps({"refresh_token": self._refresh}).encode()
        status, answer = client.request("POST", "/users/tokens/refresh", headers, body)
        if status == 201:
            pair = json.loads(answer)
            self._access, self._refresh = pair["access_token"], pair["refresh_token"]
        return Answer(status, status == 201)

    def post(self, client: Client, name: str, payload: str) -> Answer:
        """Post one notification as SenML; raw bytes would be refused with 415."""
        body = b'[{"n":"%s","vs":"%s"}]' % (name.encode(), payload.encode())
        status, _ = client.request("POST", self._messages, self._headers, body)
        return Answer(status, status == 202)
